// The live points: coordinates and book-keeping in slots that are reused, found by id, in order of arrival.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "../random.hpp"
#include "distance.hpp"
#include "state.hpp"
#include "words.hpp"

namespace icml::kcenter {

// From an id's hash to its slot: open addressing with linear probing and backward-shift deletion, so that a
// table that sees millions of ids come and go never fills with tombstones.
class IdIndex {
  public:
    static std::uint64_t hash(std::string_view id) { return mix64(std::hash<std::string_view>{}(id)); }

    // The slot with this hash for which same(slot) holds, or -1.
    template <class Same> std::int32_t find(std::uint64_t hash, Same same) const {
        for (std::size_t i = home(hash);; i = next(i)) {
            const Cell &cell = cells_[i];
            if (cell.slot < 0) return -1;
            if (cell.tag == tag(hash) && same(cell.slot)) return cell.slot;
        }
    }

    void insert(std::uint64_t hash, std::int32_t slot) {
        if (2 * (size_ + 1) > cells_.size()) grow();
        ++size_;
        place({tag(hash), slot});
    }

    void erase(std::uint64_t hash, std::int32_t slot) {
        std::size_t hole = home(hash);
        while (cells_[hole].slot != slot) {
            assert(cells_[hole].slot >= 0);
            hole = next(hole);
        }
        for (std::size_t i = next(hole); cells_[i].slot >= 0; i = next(i)) {
            const std::size_t wanted = home_of_tag(cells_[i].tag);
            if (((i - wanted) & mask()) >= ((i - hole) & mask())) { // the hole lies on the way from its home
                cells_[hole] = cells_[i];
                hole = i;
            }
        }
        cells_[hole].slot = -1;
        --size_;
    }

    void prefetch(std::uint64_t hash) const { __builtin_prefetch(&cells_[home(hash)]); }
    // The slot in the first cell that the hash leads to: most likely the one, at no further fetch.
    std::int32_t guess(std::uint64_t hash) const { return cells_[home(hash)].slot; }
    std::size_t size() const { return size_; }

  private:
    struct Cell {
        std::uint32_t tag = 0; // the hash's high half: where the cell belongs, and a first comparison
        std::int32_t slot = -1;
    };

    static std::uint32_t tag(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }
    std::size_t home(std::uint64_t hash) const { return home_of_tag(tag(hash)); }
    std::size_t home_of_tag(std::uint32_t tag) const { return tag >> shift_; }
    std::size_t mask() const { return cells_.size() - 1; }
    std::size_t next(std::size_t i) const { return (i + 1) & mask(); }

    void place(Cell cell) {
        std::size_t i = home_of_tag(cell.tag);
        while (cells_[i].slot >= 0) i = next(i);
        cells_[i] = cell;
    }

    void grow() {
        if (shift_ == 0) throw std::length_error("too many points");
        std::vector<Cell> old(2 * cells_.size());
        old.swap(cells_);
        --shift_;
        for (const Cell &cell : old)
            if (cell.slot >= 0) place(cell);
    }

    static constexpr int initial_bits = 10;
    std::vector<Cell> cells_ = std::vector<Cell>(std::size_t{1} << initial_bits);
    int shift_ = 32 - initial_bits;
    std::size_t size_ = 0;
};

// What the layers know of a point, beside its id: one cache line.
struct Point {
    std::string id;
    double distance = 0;                 // to its representative
    std::int32_t layer = -1;             // where it is a member; -1 for a free slot
    std::int32_t rep = -1;               // its representative's number in the layer
    std::int32_t position = -1;          // its place in the representative's list of members
    std::int32_t older = -1, newer = -1; // neighbours in order of arrival
    std::uint32_t batch = 0;             // the last batch of deletions that named it
};

class Points {
  public:
    explicit Points(const Space &space) : width_(space.width), words_(space.storage) {}

    int width() const { return width_; }
    std::int64_t size() const { return static_cast<std::int64_t>(index_.size()); }
    std::int32_t slots() const { return static_cast<std::int32_t>(points_.size()); }

    Point &operator[](std::int32_t slot) { return points_[slot]; }
    const Point &operator[](std::int32_t slot) const { return points_[slot]; }

    // The coordinates, written to `buffer` unless they are stored in double precision.
    const double *at(std::int32_t slot, double *buffer) const {
        if (const double *const words = words_.wide()) return words + offset(slot);
        words_.read(offset(slot), width_, buffer);
        return buffer;
    }

    std::int32_t find(std::string_view id) const { return find(id, IdIndex::hash(id)); }
    std::int32_t find(std::string_view id, std::uint64_t hash) const {
        return index_.find(hash, [&](std::int32_t slot) { return points_[slot].id == id; });
    }
    const IdIndex &index() const { return index_; }
    const Point *guess(std::uint64_t hash) const { return points_.data() + std::max(index_.guess(hash), 0); }

    // Starts fetching what the add() after `ahead` further ones will write.
    void prefetch_free(std::size_t ahead) const {
        if (ahead >= free_.size()) return;
        const std::int32_t slot = free_[free_.size() - 1 - ahead];
        __builtin_prefetch(&points_[slot], 1);
        words_.prefetch(offset(slot));
    }

    // Adds a point under an id that is not in use.
    std::int32_t add(std::string_view id, const double *point) {
        assert(find(id) < 0);
        const std::int32_t slot = take_slot();
        words_.write(offset(slot), width_, point);
        points_[slot].id.assign(id);
        index_.insert(IdIndex::hash(id), slot);
        append(slot);
        return slot;
    }

    void remove(std::int32_t slot) {
        Point &point = points_[slot];
        index_.erase(IdIndex::hash(point.id), slot);
        (point.older >= 0 ? points_[point.older].newer : oldest_) = point.newer;
        (point.newer >= 0 ? points_[point.newer].older : newest_) = point.older;
        point.layer = point.older = point.newer = -1;
        if (point.id.capacity() > short_id) point.id = {};
        free_.push_back(slot);
    }

    // The ends of the order of arrival, -1 without a point.
    std::int32_t oldest() const { return oldest_; }
    std::int32_t newest() const { return newest_; }

    // When a point arrived, for windows by time; 0 unless set.
    void set_time(std::int32_t slot, double time) {
        if (times_.size() < points_.size()) times_.resize(points_.size());
        times_[slot] = time;
    }
    double time(std::int32_t slot) const {
        return static_cast<std::size_t>(slot) < times_.size() ? times_[slot] : 0;
    }
    bool timed() const { return !times_.empty(); }

    void save(Arrays &arrays) const;
    void load(const Arrays &arrays);

  private:
    static constexpr std::size_t short_id = 31; // what a string may keep allocated in a free slot

    std::int32_t take_slot() {
        if (!free_.empty()) {
            const std::int32_t slot = free_.back();
            free_.pop_back();
            return slot;
        }
        if (points_.size() == static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
            throw std::length_error("more than 2147483647 points at a time");
        words_.resize(words_.size() + width_);
        points_.emplace_back();
        return slots() - 1;
    }

    std::size_t offset(std::int32_t slot) const { return static_cast<std::size_t>(slot) * width_; }

    void append(std::int32_t slot) {
        points_[slot].older = newest_;
        (newest_ >= 0 ? points_[newest_].newer : oldest_) = slot;
        newest_ = slot;
    }

    int width_;
    Words words_;
    std::vector<Point> points_;
    std::vector<double> times_;
    std::vector<std::int32_t> free_;
    std::int32_t oldest_ = -1, newest_ = -1;
    IdIndex index_;
};

} // namespace icml::kcenter
