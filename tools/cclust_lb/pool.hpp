// The obstructions found so far: edge sets of which every clustering disagrees with at least `rhs` elements.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <span>
#include <vector>

#include "../random.hpp"

namespace icml::cclust {

enum class Kind : uint8_t { cycle = 0, clique = 1, star = 2 };

/// Elements are edge numbers, and from m on the numbers of missing pairs.
class Pool {
  public:
    int64_t size() const { return static_cast<int64_t>(rhs_.size()); }
    int64_t entries() const { return static_cast<int64_t>(elements_.size()); }

    std::span<const int32_t> elements(int64_t item) const {
        assert(0 <= item && item < size());
        return {elements_.data() + begin_[item], elements_.data() + begin_[item + 1]};
    }
    int32_t rhs(int64_t item) const { return rhs_[item]; }
    Kind kind(int64_t item) const { return kind_[item]; }

    std::span<const int64_t> begins() const { return begin_; }
    std::span<const int32_t> all_elements() const { return elements_; }
    std::span<const int32_t> all_rhs() const { return rhs_; }

    void add(Kind kind, int32_t rhs, std::span<const int32_t> elements) {
        elements_.insert(elements_.end(), elements.begin(), elements.end());
        begin_.push_back(static_cast<int64_t>(elements_.size()));
        rhs_.push_back(rhs);
        kind_.push_back(kind);
    }

    /// Drops the items for which keep(item) is false, in place; the others keep their order.
    template <class Keep> void retain(Keep keep) {
        int64_t kept = 0, end = 0;
        for (int64_t item = 0; item < size(); item++) {
            const int64_t first = begin_[item], last = begin_[item + 1];
            if (!keep(item)) continue;
            // begin_[kept] <= first, so nothing is overwritten before it is read.
            begin_[kept] = end;
            for (int64_t k = first; k < last; k++) elements_[end++] = elements_[k];
            rhs_[kept] = rhs_[item];
            kind_[kept++] = kind_[item];
        }
        begin_[kept] = end;
        begin_.resize(kept + 1);
        elements_.resize(end);
        rhs_.resize(kept);
        kind_.resize(kept);
    }

    /// Shuffles each run of `block` items.
    void shuffle_within(int64_t block, CounterRng &rng) {
        Pool copy;
        for (int64_t first = 0; first < size(); first += block) {
            copy = {};
            for (const int32_t k : rng.permutation(static_cast<int32_t>(std::min(block, size() - first))))
                copy.add(kind_[first + k], rhs_[first + k], elements(first + k));
            const int64_t start = begin_[first];
            std::copy(copy.elements_.begin(), copy.elements_.end(), elements_.begin() + start);
            std::copy(copy.rhs_.begin(), copy.rhs_.end(), rhs_.begin() + first);
            std::copy(copy.kind_.begin(), copy.kind_.end(), kind_.begin() + first);
            for (int64_t k = 0; k <= copy.size(); k++) begin_[first + k] = start + copy.begin_[k];
        }
    }

  private:
    std::vector<int64_t> begin_{0};
    std::vector<int32_t> elements_;
    std::vector<int32_t> rhs_;
    std::vector<Kind> kind_;
};

} // namespace icml::cclust
