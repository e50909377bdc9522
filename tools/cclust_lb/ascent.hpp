// Entropic coordinate ascent on the packing dual.
//
// Each element e has the price q_e = exp((load_e - w_e) / mu), load_e being the sum of y_C over the items C
// that hold e. The smoothed dual's maximum along one coordinate is closed form: with S = sum of q_e over C,
// y_C grows by mu * ln(r_C / S), but never below 0. At the fixed point min(1, q) covers every item and the
// loads stay within about mu of the weights. mu falls geometrically towards its final value. Relaxed updates
// go 1.5 times as far, as in over-relaxed Sinkhorn iterations (Thibault, Chizat, Dossal, Papadakis:
// Overrelaxed Sinkhorn-Knopp algorithm, 2021), which takes about half the sweeps; a few exact ones before
// rounding tidy up.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "pool.hpp"

namespace icml::cclust {

class Ascent {
  public:
    /// mu shrinks by this factor a step: q^1.25 = q * sqrt(sqrt(q)) needs no logarithm.
    static constexpr double cooling = 1.25;

    /// Starts with y = 0 at a mu of about `warm`, `cooling` to a power above `mu_final`.
    Ascent(double warm, double mu_final, std::span<const double> weight)
        : mu_(mu_final), weight_(weight.begin(), weight.end()) {
        for (; mu_ < warm / std::sqrt(cooling); mu_ *= cooling) steps_left_++;
        double heaviest = 0;
        for (const double w : weight_) heaviest = std::max(heaviest, w);
        log_domain_ = heaviest > exponent_range * mu_final;
        price_.reserve(weight_.size());
        for (const double w : weight_) price_.push_back(initial_price(w));
    }

    double mu() const { return mu_; }
    int cooling_steps_left() const { return steps_left_; }
    int32_t elements() const { return static_cast<int32_t>(weight_.size()); }
    std::span<const double> weights() const { return weight_; }

    void add_element(double weight) {
        weight_.push_back(weight);
        price_.push_back(initial_price(weight));
    }
    void add_item() { idleness_.push_back(log_domain_ ? 0.0 : 1.0); }

    double price(int32_t element) const { return log_domain_ ? std::exp(price_[element]) : price_[element]; }
    double y(int64_t item) const {
        return -mu_ * (log_domain_ ? idleness_[item] : std::log(idleness_[item]));
    }
    bool idle(int64_t item) const { return idleness_[item] == (log_domain_ ? 0.0 : 1.0); }

    /// Sum of the prices in an element set.
    double price_sum(std::span<const int32_t> elements) const {
        double sum = 0;
        for (const int32_t e : elements) sum += price(e);
        return sum;
    }

    enum class Step { exact, relaxed };

    void update(const Pool &pool, int64_t item) {
        if (log_domain_)
            update_log<Step::exact>(pool.elements(item), pool.rhs(item), idleness_[item]);
        else
            update_linear<Step::exact>(pool.elements(item), pool.rhs(item), idleness_[item]);
    }

    /// Updates the items first..last-1 in order.
    void sweep(const Pool &pool, int64_t first, int64_t last, Step step) {
        if (step == Step::exact)
            sweep_as<Step::exact>(pool, first, last);
        else
            sweep_as<Step::relaxed>(pool, first, last);
    }

    /// Lowers mu by one step, keeping y.
    void cool() {
        if (steps_left_ == 0) return;
        steps_left_--;
        mu_ /= cooling;
        for (auto *values : {&price_, &idleness_})
            if (log_domain_) {
                for (double &x : *values) x *= cooling;
            } else {
                for (double &x : *values) x *= std::sqrt(std::sqrt(x));
            }
    }

    /// Forgets the items for which keep(item) is false; call before Pool::retain with the same predicate.
    template <class Keep> void retain(Keep keep) {
        int64_t kept = 0;
        for (int64_t item = 0; item < static_cast<int64_t>(idleness_.size()); item++)
            if (keep(item)) idleness_[kept++] = idleness_[item];
        idleness_.resize(kept);
    }

  private:
    // exp(-400) leaves room below it for the powers of 1.5; weights that are heavier in units of mu need
    // logarithms.
    static constexpr double exponent_range = 400;
    // How far ahead of its use a price is asked for: the prices are the one random access of a sweep.
    static constexpr int64_t prefetch_distance = 64;

    double initial_price(double weight) const {
        return log_domain_ ? -weight / mu_ : std::exp(-weight / mu_);
    }

    template <Step step> void sweep_as(const Pool &pool, int64_t first, int64_t last) {
        if (!log_domain_) return sweep_linear<step>(pool, first, last);
        for (int64_t item = first; item < last; item++)
            update_log<step>(pool.elements(item), pool.rhs(item), idleness_[item]);
    }

    /// By what the prices of an item are divided whose prices add up to `coverage` times its rhs.
    template <Step step> static double divisor(double coverage) {
        return step == Step::exact ? coverage : coverage * std::sqrt(coverage);
    }

    /// Without branches, which would be mispredicted half of the time: an item at rest is multiplied by 1.
    template <Step step> void update_linear(std::span<const int32_t> elements, double rhs, double &idleness) {
        double sum = 0;
        for (const int32_t e : elements) sum += price_[e];
        const double divide = divisor<step>(sum / rhs);
        const double factor = std::max(1 / divide, idleness);
        idleness = std::min(idleness * divide, 1.0);
        for (const int32_t e : elements) price_[e] *= factor;
    }

    template <Step step> void sweep_linear(const Pool &pool, int64_t first, int64_t last) {
        const int64_t *begin = pool.begins().data();
        const int32_t *element = pool.all_elements().data();
        const int32_t *rhs = pool.all_rhs().data();
        const int64_t prefetch_end = begin[last] - prefetch_distance;
        for (int64_t item = first; item < last; item++) {
            const int64_t b = begin[item], length = begin[item + 1] - b;
            if (b < prefetch_end)
                for (int64_t k = 0; k < 3; k++)
                    __builtin_prefetch(&price_[element[b + prefetch_distance - 3 + k]], 1);
            if (length == 3)
                update_three<step>(element + b, idleness_[item]);
            else
                update_linear<step>({element + b, static_cast<size_t>(length)}, rhs[item], idleness_[item]);
        }
    }

    /// Triangles and wedges, most of any pool: rhs 1, three distinct elements.
    template <Step step> void update_three(const int32_t *element, double &idleness) {
        double &a = price_[element[0]], &b = price_[element[1]], &c = price_[element[2]];
        const double divide = divisor<step>(a + b + c);
        const double factor = std::max(1 / divide, idleness);
        idleness = std::min(idleness * divide, 1.0);
        a *= factor;
        b *= factor;
        c *= factor;
    }

    template <Step step> void update_log(std::span<const int32_t> elements, double rhs, double &idleness) {
        double top = -std::numeric_limits<double>::infinity(), sum = 0;
        for (const int32_t e : elements) top = std::max(top, price_[e]);
        for (const int32_t e : elements) sum += std::exp(price_[e] - top);
        const double divide = (step == Step::exact ? 1.0 : 1.5) * (top + std::log(sum / rhs));
        const double change = std::max(-divide, idleness);
        if (change == 0) return;
        idleness = std::min(idleness + divide, 0.0);
        for (const int32_t e : elements) price_[e] += change;
    }

    double mu_;
    int steps_left_ = 0;
    bool log_domain_ = false;
    std::vector<double> weight_;
    std::vector<double> price_;    // q_e, or ln q_e in the log domain
    std::vector<double> idleness_; // per item exp(-y / mu), or -y / mu in the log domain
};

} // namespace icml::cclust
