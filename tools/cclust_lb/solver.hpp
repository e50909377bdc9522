// The schedule: list the short obstructions, anneal, then add what the prices leave uncovered, certifying on the way.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ascent.hpp"
#include "cliques.hpp"
#include "cycles.hpp"
#include "graph.hpp"
#include "monitor.hpp"
#include "pairs.hpp"
#include "pool.hpp"
#include "random.hpp"
#include "rounding.hpp"
#include "stars.hpp"
#include "triangles.hpp"

namespace icml::cclust {

struct Options {
    CycleRule rule = CycleRule::one_negative;
    bool triangles = true, cycles = true, cliques = false, wedges = false, stars = false;
    bool garg_koenemann = false;
    double tol = 0.005;
    int sweeps = 100;
    double mu = 0.01; // final temperature, in units of what an item can carry on average
    int32_t max_cycle = std::numeric_limits<int32_t>::max();
    int32_t star = 8; // most leaves of a star
    int threads = 1;
    int64_t max_pool = 200'000'000;
    uint64_t seed = 0;
    bool integral = true;
    int scale_bits = 20;
    double target = std::numeric_limits<double>::infinity(); // of lower_int (of lower, if weights are not integers)
};

struct TracePoint {
    double seconds, lower, lp_upper;
};

/// The best packing so far, free of the pool it came from; elements are numbered as in the solver.
struct BestPacking {
    Pool items;
    std::vector<int64_t> y;
    int64_t value = -1; // in units of 1/scale
    int64_t integer = 0;
};

class Solver {
  public:
    using Report = std::function<void(const TracePoint &, int64_t pool)>;

    Solver(const DegreeOrdered &ordered, const Options &options, Monitor &monitor, Report report)
        : ordered_(ordered), graph_(ordered.graph()), options_(options), monitor_(monitor), report_(std::move(report)),
          rng_(options.seed) {}

    void run() {
        timed("enumerate", [&] { enumerate(); });
        timed("solve", [&] { anneal(); });
        if (options_.cycles) timed("cycles", [&] { price_cycles(); });
        if (stars_) timed("stars", [&] { price_stars(); });
        timed("solve", [&] { settle(); });
        if (best_.value < 0 || monitor_.expired()) certify();
    }

    const BestPacking &best() const { return best_; }
    const Cover &cover() const { return cover_; }
    const std::vector<TracePoint> &trace() const { return trace_; }
    const std::map<std::string, double> &seconds() const { return seconds_; }
    /// The missing pairs that elements m, m + 1, … stand for.
    std::span<const NodePair> pairs() const { return stars_ ? stars_->pairs() : std::span<const NodePair>(); }
    int64_t largest_pool() const { return largest_pool_; }

  private:
    static constexpr double warm = 1.0; // first temperature, in the units of Options::mu
    static constexpr int sweeps_between_certificates = 10;
    // Items listed one after the other share elements, and an update that needs the last one's result has to wait.
    static constexpr int64_t sweep_block = 1024;
    // Pricing ends when so many rounds in a row gain less than this, relatively.
    static constexpr int most_stalled_rounds = 3;
    static constexpr double least_progress = 1e-6;
    static constexpr int clique_passes = 2;
    static constexpr int exact_sweeps = 2; // before a certificate

    template <class Work> void timed(const std::string &phase, Work work) {
        const double start = monitor_.elapsed();
        work();
        seconds_[phase] += monitor_.elapsed() - start;
    }

    void enumerate() {
        const auto expired = [&] { return monitor_.expired(); };
        if (options_.cliques)
            CliqueFinder(graph_, rng_).add_cliques(clique_passes, options_.max_pool, pool_, expired);
        if (options_.triangles) add_triangles(ordered_, options_.rule, options_.max_pool, rng_, pool_, expired);
        pool_.shuffle_within(sweep_block, rng_);
        if (options_.wedges || options_.stars) {
            const StarPricer::Leaves leaves{options_.wedges ? 2 : 3, options_.stars ? options_.star : 2};
            stars_ = std::make_unique<StarPricer>(graph_, leaves, rng_);
            stars_->add_first(options_.max_pool, pool_, expired);
        }
        std::vector<double> weight(graph_.weight.begin(), graph_.weight.end());
        weight.insert(weight.end(), pairs().size(), 1.0);
        const double unit = mean_capacity(weight);
        ascent_ = std::make_unique<Ascent>(warm * unit, options_.mu * unit, weight);
        for (int64_t item = 0; item < pool_.size(); item++) ascent_->add_item();
    }

    /// What an item can carry on average: the mean over the pool of the least weight in it.
    double mean_capacity(std::span<const double> weight) const {
        double sum = 0;
        if (pool_.size() == 0) {
            for (const double w : weight) sum += w;
            return sum / static_cast<double>(weight.size());
        }
        for (int64_t item = 0; item < pool_.size(); item++) {
            double least = std::numeric_limits<double>::max();
            for (const int32_t e : pool_.elements(item)) least = std::min(least, weight[e]);
            sum += least;
        }
        return sum / static_cast<double>(pool_.size());
    }

    bool done() { return reached_target() || monitor_.expired(); }

    bool reached_target() const {
        return best_.value >= 0 && (options_.integral ? static_cast<double>(best_.integer) : lower()) >= options_.target;
    }

    double lower() const { return std::ldexp(static_cast<double>(std::max<int64_t>(best_.value, 0)), -options_.scale_bits); }

    bool gap_closed() const { return cover_.cost - lower() < options_.tol * lower(); }

    void sweep(int times, Ascent::Step step = Ascent::Step::relaxed) {
        constexpr int64_t chunk = 1 << 16;
        for (; times > 0; times--)
            for (int64_t first = 0; first < pool_.size(); first += chunk) {
                if (monitor_.expired()) return;
                ascent_->sweep(pool_, first, std::min(first + chunk, pool_.size()), step);
            }
    }

    /// `times` sweeps that end in a state worth rounding.
    void sweep_and_certify(int times) {
        const int exact = std::min(times, exact_sweeps);
        sweep(times - exact);
        sweep(exact, Ascent::Step::exact);
        certify();
    }

    /// Cools down to the final mu; when longer obstructions are to come, quickly.
    void anneal() {
        const bool pricing = options_.cycles || stars_;
        const int steps = std::max(1, ascent_->cooling_steps_left());
        const double sweeps = pricing ? std::min(30, options_.sweeps) : 0.7 * options_.sweeps;
        const int each = std::max(1, static_cast<int>(std::lround(sweeps / steps)));
        for (int step = 0; step < steps && !monitor_.expired(); step++) {
            sweep(each);
            ascent_->cool();
        }
        if (pricing) {
            sweep_and_certify(sweeps_between_certificates);
        } else {
            sweeps_left_ = std::max(0, options_.sweeps - each * steps);
        }
    }

    /// Sweeps at the final mu until the gap to the pool's own optimum is small or the sweeps are used up.
    void settle() {
        if (options_.cycles || stars_) sweeps_left_ = options_.sweeps;
        while (sweeps_left_ > 0 && !done() && !gap_closed()) {
            const int now = std::min(sweeps_left_, sweeps_between_certificates);
            sweep_and_certify(now);
            sweeps_left_ -= now;
        }
    }

    void price_cycles() {
        CyclePricer pricer(graph_, options_.rule, options_.max_cycle, rng_);
        constexpr int sweeps_a_round = 15, rounds_between_prunings = 4;
        int stalled = 0; // rounds in a row without progress
        for (int round = 1; !done(); round++) {
            const double before = lower();
            const double t0 = monitor_.elapsed();
            const PricingRound priced = pricer.round(pool_, *ascent_, 1, round == 1 ? 3 : 2, monitor_);
            const double t1 = monitor_.elapsed();
            grown(priced.added);
            sweep_and_certify(sweeps_a_round);
            const double t2 = monitor_.elapsed();
            if (getenv("LBTRACE"))
                printf("round %d cand %ld added %ld scanned %.1fM search %.3f sweep %.3f cert %.3f pool %ld lower %.2f ub %.2f t=%.2f\n", round,
                       pricer.candidates(), priced.added, pricer.scanned() / 1e6, t1 - t0, t2 - t1, monitor_.elapsed() - t2, pool_.size(), lower(), cover_.cost,
                       monitor_.elapsed());
            if (round % rounds_between_prunings == 0) prune(1.15);
            stalled = lower() > before * (1 + least_progress) ? 0 : stalled + 1;
            if (stalled == most_stalled_rounds || (priced.added == 0 && priced.complete)) return;
            if (priced.added == 0) pricer.wake_all();
        }
    }

    void price_stars() {
        constexpr int sweeps_a_round = 10, rounds_between_prunings = 3;
        int stalled = 0;
        for (int round = 1; !done(); round++) {
            const double before = lower();
            const double t0 = monitor_.elapsed();
            const int64_t added = stars_->round(options_.max_pool, pool_, *ascent_, monitor_);
            const double t1 = monitor_.elapsed();
            grown(added);
            sweep_and_certify(sweeps_a_round);
            if (getenv("LBTRACE"))
                printf("round %d added %ld search %.3f sweep %.3f pool %ld entries %ld pairs %ld lower %.2f ub %.2f t=%.2f user %.2f\n", round,
                       added, t1 - t0, monitor_.elapsed() - t1, pool_.size(), pool_.entries(), pairs().size(), lower(), cover_.cost, monitor_.elapsed(), (double)clock() / CLOCKS_PER_SEC);
            if (round % rounds_between_prunings == 0) prune(1.1);
            stalled = lower() > before * (1 + 1e-5) ? 0 : stalled + 1;
            if (stalled == most_stalled_rounds || added == 0) return;
        }
    }

    void grown(int64_t items) {
        if (items > 0) cover_.cost = std::numeric_limits<double>::infinity();
        largest_pool_ = std::max(largest_pool_, pool_.size());
    }

    /// Drops the items that carry nothing and are covered `slack` times over.
    void prune(double slack) {
        std::vector<uint8_t> keep(pool_.size());
        for (int64_t item = 0; item < pool_.size(); item++)
            keep[item] = !ascent_->idle(item) || ascent_->price_sum(pool_.elements(item)) < slack * pool_.rhs(item);
        ascent_->retain([&](int64_t item) { return keep[item] != 0; });
        pool_.retain([&](int64_t item) { return keep[item] != 0; });
    }

    /// Rounds the current state to an exact packing and a cover, keeps the best of each and reports.
    void certify() {
        const double start = monitor_.elapsed();
        largest_pool_ = std::max(largest_pool_, pool_.size());
        const IntegerPacking packing =
            round_packing(pool_, ascent_->weights(), options_.scale_bits, [&](int64_t item) { return ascent_->idle(item) ? 0.0 : ascent_->y(item); });
        keep_best(packing);
        Cover cover = repair_cover(pool_, ascent_->weights(), [&](int32_t e) { return ascent_->price(e); });
        if (cover_.x.empty() || cover.cost < cover_.cost) cover_ = std::move(cover);
        trace_.push_back({monitor_.elapsed(), lower(), cover_.cost});
        if (report_) report_(trace_.back(), pool_.size());
        monitor_.reserve(monitor_.elapsed() - start);
    }

    void keep_best(const IntegerPacking &packing) {
        if (packing.value <= best_.value) return;
        const int64_t integer = options_.integral ? integer_bound(pool_, packing, ascent_->elements(), options_.scale_bits) : 0;
        best_ = {};
        best_.value = packing.value;
        best_.integer = integer;
        for (int64_t item = 0; item < pool_.size(); item++)
            if (packing.y[item] > 0) {
                best_.items.add(pool_.kind(item), pool_.rhs(item), pool_.elements(item));
                best_.y.push_back(packing.y[item]);
            }
    }

    const DegreeOrdered &ordered_;
    const Graph graph_;
    const Options options_;
    Monitor &monitor_;
    Report report_;
    CounterRng rng_;

    Pool pool_;
    std::unique_ptr<Ascent> ascent_;
    int sweeps_left_ = 0;
    int64_t largest_pool_ = 0;
    std::unique_ptr<StarPricer> stars_;
    BestPacking best_;
    Cover cover_;
    std::vector<TracePoint> trace_;
    std::map<std::string, double> seconds_;
};

} // namespace icml::cclust
