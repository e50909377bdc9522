#include "structure.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string>
#include <utility>

#include "../../formats/number.hpp"

namespace icml::kcenter {

namespace {
std::string conflict_text(std::string_view id, const char *what) {
    return "id '" + std::string(id) + "' " + what;
}
constexpr const char *is_there = "is there already";
constexpr const char *is_not_there = "is not there";
constexpr std::size_t batch = 32; // operations whose memory is fetched ahead
} // namespace

Structure::Structure(const Encoding &encoding, const Settings &settings, std::string_view instruction_set,
                     Matrix matrix, Poll poll)
    : encoding_(encoding), settings_(settings),
      space_{encoding.metric(), encoding.width(), matrix.entries, matrix.rows, encoding.storage()},
      scans_(scans(instruction_set)), poll_(std::move(poll)), points_(space_),
      layers_(points_, space_, settings_, scans_, poll_),
      solver_(points_, layers_, space_, settings_, scans_, poll_), words_(encoding.width()) {}

void Structure::encode(std::string_view id, const double *coordinates, double *words) const {
    if (space_.metric != Metric::precomputed) return encoding_.encode(coordinates, words);
    std::int64_t row;
    if (!formats::parse_integer(id, row) || row < 0 || row >= space_.rows)
        throw std::invalid_argument(conflict_text(id, "is not a row of the matrix"));
    words[0] = static_cast<double>(row);
}

bool Structure::insert(std::string_view id, const double *coordinates, Conflict conflict, double time) {
    encode(id, coordinates, words_.data());
    const std::int32_t known = points_.find(id);
    if (known >= 0) {
        if (conflict == Conflict::error) throw std::invalid_argument(conflict_text(id, is_there));
        if (conflict == Conflict::skip) return false;
        remove(known);
    }
    now_ = std::max(now_, time);
    add(id, words_.data(), now_);
    ++updates_;
    layers_.settle();
    slide(now_);
    return true;
}

bool Structure::erase(std::string_view id, Conflict conflict) {
    const std::int32_t slot = points_.find(id);
    if (slot < 0) {
        if (conflict == Conflict::error) throw std::invalid_argument(conflict_text(id, is_not_there));
        return false;
    }
    remove(slot);
    ++updates_;
    layers_.settle();
    return true;
}

void Structure::add(std::string_view id, const double *words, double time) {
    const std::int32_t slot = points_.add(id, words);
    if (window_.span > 0) points_.set_time(slot, time);
    layers_.insert(slot);
}

void Structure::remove(std::int32_t slot) {
    layers_.erase(slot);
    points_.remove(slot);
}

void Structure::slide(double now) {
    const auto expired = [&](std::int32_t oldest) {
        return (window_.count > 0 && points_.size() > window_.count) ||
               (window_.span > 0 && points_.time(oldest) <= now - window_.span);
    };
    for (std::int32_t oldest = points_.oldest(); oldest >= 0 && expired(oldest); oldest = points_.oldest()) {
        remove(oldest);
        layers_.settle();
    }
}

std::vector<double> Structure::encoded(std::span<const std::string_view> ids,
                                       const double *coordinates) const {
    std::vector<double> words(ids.size() * space_.width);
    for (std::size_t i = 0; i < ids.size(); ++i) {
        try {
            encode(ids[i], coordinates + i * encoding_.dimension(), &words[i * space_.width]);
        } catch (const std::invalid_argument &error) {
            throw std::invalid_argument("point " + std::to_string(i) + ": " + error.what());
        }
    }
    return words;
}

std::int64_t Structure::insert_all(std::span<const std::string_view> ids, const double *coordinates,
                                   Conflict conflict) {
    const std::vector<double> words = encoded(ids, coordinates);
    if (conflict == Conflict::error)
        for (std::size_t i = 0; i < ids.size(); ++i) {
            if (i + batch < ids.size()) points_.index().prefetch(IdIndex::hash(ids[i + batch]));
            if (points_.find(ids[i]) >= 0) throw std::invalid_argument(conflict_text(ids[i], is_there));
        }
    std::int64_t count = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (i % batch == 0) {
            for (std::size_t j = 0; j < std::min(batch, ids.size() - i); ++j) {
                points_.index().prefetch(IdIndex::hash(ids[i + j]));
                points_.prefetch_free(j);
            }
            if (i % (64 * batch) == 0) poll_();
        }
        if (const std::int32_t known = points_.find(ids[i]); known >= 0) {
            if (conflict == Conflict::skip) continue;
            if (conflict == Conflict::error) { // twice in this batch: take back what it brought
                for (std::size_t j = 0; j < i; ++j) remove(points_.find(ids[j]));
                updates_ -= count;
                throw std::invalid_argument(conflict_text(ids[i], "occurs twice"));
            }
            remove(known);
        }
        now_ = std::max(now_, 0.0);
        add(ids[i], &words[i * space_.width], now_);
        ++updates_;
        ++count;
        layers_.settle();
        slide(now_);
    }
    return count;
}

// The slots of all ids, of those to skip none.
std::vector<std::int32_t> Structure::find_all(std::span<const std::string_view> ids, Conflict conflict) {
    ++batches_;
    std::vector<std::int32_t> slots;
    std::uint64_t hashes[batch];
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (i % batch == 0) {
            const auto ahead = ids.subspan(i, std::min(batch, ids.size() - i));
            for (std::size_t j = 0; j < ahead.size(); ++j)
                points_.index().prefetch(hashes[j] = IdIndex::hash(ahead[j]));
            for (std::size_t j = 0; j < ahead.size(); ++j) __builtin_prefetch(points_.guess(hashes[j]), 1);
        }
        const std::int32_t slot = points_.find(ids[i], hashes[i % batch]);
        const bool twice = slot >= 0 && points_[slot].batch == batches_;
        if (slot >= 0 && !twice) {
            points_[slot].batch = batches_;
            slots.push_back(slot);
        } else if (conflict == Conflict::error) {
            throw std::invalid_argument(conflict_text(ids[i], twice ? "occurs twice" : is_not_there));
        }
    }
    return slots;
}

// Deleting touches the point, its neighbours by age and the last member of its list; the addresses of the
// later ones are known only when the earlier ones have arrived, so each step runs over a whole batch.
void Structure::prefetch_removals(std::span<const std::int32_t> slots) const {
    for (const std::int32_t slot : slots) __builtin_prefetch(&points_[slot], 1);
    for (const std::int32_t slot : slots) {
        const Point &point = points_[slot];
        points_.index().prefetch(IdIndex::hash(point.id));
        if (point.older >= 0) __builtin_prefetch(&points_[point.older], 1);
        if (point.newer >= 0) __builtin_prefetch(&points_[point.newer], 1);
        const auto &members = layers_.members_of(slot);
        __builtin_prefetch(&members[point.position], 1);
        __builtin_prefetch(&points_[members.back()], 1);
    }
}

std::int64_t Structure::erase_all(std::span<const std::string_view> ids, Conflict conflict) {
    const std::vector<std::int32_t> found = find_all(ids, conflict);
    const std::span<const std::int32_t> slots(found);
    for (std::size_t i = 0; i < slots.size(); ++i) {
        if (i % batch == 0) prefetch_removals(slots.subspan(i, std::min(batch, slots.size() - i)));
        if (i % (64 * batch) == 0) poll_();
        remove(slots[i]);
        ++updates_;
        layers_.settle();
    }
    return std::ssize(slots);
}

double Structure::lower_bound_on_all(int k, std::int64_t z) {
    if (points_.size() <= z) return 0;
    Blocks blocks(space_.width);
    std::vector<double> point(space_.width);
    for (std::int32_t slot = points_.oldest(); slot >= 0; slot = points_[slot].newer)
        blocks.push(points_.at(slot, point.data()));
    DistanceMatrix matrix;
    matrix.compute(space_, blocks, scans_, settings_.threads, poll_);
    std::vector<std::int32_t> weight(padded(blocks.size()), 0);
    std::fill_n(weight.begin(), blocks.size(), 1);
    const StaticProblem problem{matrix, weight,           std::vector<float>(blocks.size(), 0.0F), k, z,
                                z,      settings_.threads};
    return smallest_disks(problem, {}, poll_).disproved * (1 - 1e-6);
}

void Structure::save(Arrays &arrays) const {
    points_.save(arrays);
    layers_.save(arrays);
    solver_.save(arrays);
    arrays.integers["updates"] = {updates_};
    arrays.reals["now"] = {now_};
}

void Structure::load(const Arrays &arrays) {
    for (const char *name : {"coordinates", "sample"}) {
        const Words words = arrays.words(name, space_.storage);
        const auto width = static_cast<std::size_t>(space_.width);
        Arrays::require(words.size() % width == 0, name);
        for (std::size_t at = 0; at < words.size(); at += width) {
            words.read(at, space_.width, words_.data());
            Arrays::require(space_.holds(words_.data()), name);
        }
    }
    points_.load(arrays);
    layers_.load(arrays);
    solver_.load(arrays);
    Arrays::require(arrays.integer("updates").size() == 1 && arrays.real("now").size() == 1, "counters");
    updates_ = arrays.integer("updates")[0];
    now_ = arrays.real("now")[0];
}

} // namespace icml::kcenter
