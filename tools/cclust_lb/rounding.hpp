// From the ascent's real y to a packing in exact integers, and from its prices to a cover: the two ends of
// the gap.
#pragma once

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "pool.hpp"

namespace icml::cclust {

/// y in units of 1/scale, scale = 2^scale_bits, such that on every element the y of its
/// items add up to at most floor(scale * w).
struct IntegerPacking {
    std::vector<int64_t> y;
    int64_t value = 0; // sum of rhs * y
};

/// Makes `y(item)` feasible: scales each item down by its own most overloaded element, then fills what is
/// left.
template <class Value>
IntegerPacking round_packing(const Pool &pool, std::span<const double> weight, int scale_bits, Value y) {
    const double scale = std::ldexp(1.0, scale_bits);
    std::vector<double> overload(weight.size(), 0.0);
    for (int64_t item = 0; item < pool.size(); item++)
        if (const double amount = y(item); amount > 0)
            for (const int32_t e : pool.elements(item)) overload[e] += amount;
    std::vector<int64_t> left(weight.size());
    for (size_t e = 0; e < weight.size(); e++) {
        overload[e] = std::max(1.0, overload[e] / weight[e]);
        left[e] = static_cast<int64_t>(std::floor(scale * weight[e]));
    }

    IntegerPacking packing;
    packing.y.assign(pool.size(), 0);
    const auto room = [&](int64_t item) {
        int64_t least = std::numeric_limits<int64_t>::max();
        for (const int32_t e : pool.elements(item)) least = std::min(least, left[e]);
        return least;
    };
    const auto take = [&](int64_t item, int64_t units) {
        packing.y[item] += units;
        packing.value += units * pool.rhs(item);
        for (const int32_t e : pool.elements(item)) left[e] -= units;
    };
    for (int64_t item = 0; item < pool.size(); item++) {
        const double amount = y(item);
        if (!(amount > 0)) continue;
        double worst = 1;
        for (const int32_t e : pool.elements(item)) worst = std::max(worst, overload[e]);
        // The room guards against the last bit of the sums above, and the comparison against what is not a
        // number.
        const int64_t most = room(item);
        const double units = std::floor(scale * amount / worst);
        if (units >= 1) take(item, units < static_cast<double>(most) ? static_cast<int64_t>(units) : most);
    }
    for (int64_t item = 0; item < pool.size(); item++)
        if (const int64_t units = room(item); units > 0) take(item, units);
    return packing;
}

/// A fractional cover of the pool: x with sum of x over C >= rhs_C for every item, and its cost.
struct Cover {
    std::vector<double> x;
    double cost = 0;
};

/// Multiplies the prices of each uncovered item by what it lacks (the largest factor counts).
template <class Price> Cover repair_cover(const Pool &pool, std::span<const double> weight, Price price) {
    Cover cover;
    cover.x.resize(weight.size());
    for (size_t e = 0; e < weight.size(); e++) cover.x[e] = price(static_cast<int32_t>(e));
    std::vector<float> factor(weight.size(), 1.0F);
    std::vector<uint8_t> above_one(weight.size(), 0); // an item with rhs > 1 may need x > 1
    for (int64_t item = 0; item < pool.size(); item++) {
        const int32_t rhs = pool.rhs(item);
        double sum = 0;
        for (const int32_t e : pool.elements(item)) sum += rhs == 1 ? std::min(1.0, cover.x[e]) : cover.x[e];
        const auto lack = std::nextafter(static_cast<float>(rhs / sum), std::numeric_limits<float>::max());
        for (const int32_t e : pool.elements(item)) {
            if (sum < rhs) factor[e] = std::max(factor[e], lack);
            above_one[e] |= rhs > 1;
        }
    }
    for (size_t e = 0; e < weight.size(); e++) {
        cover.x[e] *= factor[e];
        if (!above_one[e]) cover.x[e] = std::min(1.0, cover.x[e]);
        cover.cost += weight[e] * cover.x[e];
    }
    return cover;
}

/// Disjoint sets with path halving.
class DisjointSets {
  public:
    explicit DisjointSets(size_t size) : parent_(size) { std::iota(parent_.begin(), parent_.end(), 0); }

    int32_t find(int32_t x) {
        while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
        return x;
    }
    void join(int32_t a, int32_t b) { parent_[find(a)] = find(b); }

  private:
    std::vector<int32_t> parent_;
};

/// The least integer that is not below units / 2^scale_bits.
inline int64_t round_up(int64_t units, int scale_bits) {
    if (scale_bits <= 0) return units << -scale_bits;
    const int64_t scale = int64_t{1} << scale_bits;
    return units / scale + (units % scale != 0);
}

/// With integer weights the optimum on each set of elements that no item leaves is an integer, and these sets
/// are disjoint: the sum of the rounded-up bounds is a bound.
inline int64_t integer_bound(const Pool &pool, const IntegerPacking &packing, size_t elements,
                             int scale_bits) {
    DisjointSets component(elements);
    for (int64_t item = 0; item < pool.size(); item++)
        if (packing.y[item] > 0)
            for (const int32_t e : pool.elements(item)) component.join(pool.elements(item)[0], e);
    std::vector<int64_t> value(elements, 0);
    for (int64_t item = 0; item < pool.size(); item++)
        if (packing.y[item] > 0)
            value[component.find(pool.elements(item)[0])] += pool.rhs(item) * packing.y[item];
    int64_t total = 0;
    for (const int64_t units : value) total += round_up(units, scale_bits);
    return total;
}

} // namespace icml::cclust
