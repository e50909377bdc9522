// Fleischer's form of Garg and Könemann's fractional packing, on a given pool.
//
// Each element has a length; an item is short while its lengths add up to less than alpha * rhs. A phase
// routes as much as its lightest element carries through every item, again and again until it is no longer
// short, each time making the lengths of its elements grow by (1 + epsilon * routed / weight), and then
// raises alpha by 1 + epsilon. The y that was routed is feasible once scaled down, and lengths / alpha are a
// cover.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "pool.hpp"

namespace icml::cclust {

class GargKoenemann {
  public:
    GargKoenemann(const Pool &pool, std::span<const double> weight, double epsilon)
        : pool_(pool), weight_(weight), epsilon_(epsilon), y_(pool.size(), 0.0), length_(weight.size()) {
        // Lengths grow by 1/delta in the end; only their ratio to alpha matters, so they start at 1 / weight.
        for (size_t e = 0; e < weight.size(); e++) length_[e] = 1 / weight[e];
        alpha_ = std::numeric_limits<double>::max();
        for (int64_t item = 0; item < pool.size(); item++)
            alpha_ = std::min(alpha_, sum(item) / pool.rhs(item));
        alpha_ *= 1 + epsilon;
        const double delta =
            (1 + epsilon) * std::pow((1 + epsilon) * static_cast<double>(weight.size()), -1 / epsilon);
        last_alpha_ = alpha_ / delta;
    }

    /// The smallest epsilon for which the lengths stay within a double's range.
    static double least_epsilon(size_t elements) {
        return std::log(2.0 * static_cast<double>(elements) + 2) / 500;
    }

    bool finished() const { return alpha_ >= last_alpha_; }

    /// Routes what is short at the current alpha; stops early, as if finished, when stop() is true.
    template <class Stop> void phase(Stop stop) {
        constexpr int64_t items_between_stops = 1 << 14;
        for (int64_t item = 0; item < pool_.size(); item++) {
            if (item % items_between_stops == 0 && stop()) return;
            route(item);
        }
        keep_cover();
        alpha_ *= 1 + epsilon_;
    }

    double y(int64_t item) const { return y_[item]; }

    /// The cheapest cover of the phases so far.
    double cover(int32_t element) const {
        return cover_.empty() ? length_[element] / alpha_ : cover_[element];
    }

  private:
    double sum(int64_t item) const {
        double total = 0;
        for (const int32_t e : pool_.elements(item)) total += length_[e];
        return total;
    }

    void route(int64_t item) {
        const auto elements = pool_.elements(item);
        const double enough = alpha_ * pool_.rhs(item);
        double least = std::numeric_limits<double>::max();
        for (const int32_t e : elements) least = std::min(least, weight_[e]);
        while (sum(item) < enough) {
            y_[item] += least;
            for (const int32_t e : elements) length_[e] *= 1 + epsilon_ * least / weight_[e];
        }
    }

    /// No item is short now, so lengths / alpha cover the pool.
    void keep_cover() {
        double cost = 0;
        for (size_t e = 0; e < length_.size(); e++) cost += weight_[e] * length_[e];
        cost /= alpha_;
        if (cost >= cover_cost_) return;
        cover_cost_ = cost;
        cover_.resize(length_.size());
        for (size_t e = 0; e < length_.size(); e++) cover_[e] = length_[e] / alpha_;
    }

    const Pool &pool_;
    std::span<const double> weight_;
    const double epsilon_;
    std::vector<double> y_, length_, cover_;
    double alpha_, last_alpha_, cover_cost_ = std::numeric_limits<double>::infinity();
};

} // namespace icml::cclust
