// The schedule: list the short obstructions, anneal, then add what the prices leave uncovered, certifying on
// the way.
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

#include "../random.hpp"
#include "ascent.hpp"
#include "cliques.hpp"
#include "cycles.hpp"
#include "garg_koenemann.hpp"
#include "graph.hpp"
#include "monitor.hpp"
#include "pairs.hpp"
#include "pool.hpp"
#include "pricing.hpp"
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
    int32_t star = 16; // most leaves of a star
    int64_t max_pool = 200'000'000;
    uint64_t seed = 0;
    bool integral = true;
    int scale_bits = 20;
    double target =
        std::numeric_limits<double>::infinity(); // of lower_int (of lower, if weights are not integers)
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
        : ordered_(ordered), graph_(ordered.graph()), options_(options), monitor_(monitor),
          report_(std::move(report)), rng_(options.seed) {}

    void run() {
        timed("enumerate", [&] { enumerate(); });
        if (pricing() || !options_.garg_koenemann) timed("solve", [&] { anneal(); });
        if (options_.cycles) timed("cycles", [&] { price_cycles(); });
        if (stars_) timed("stars", [&] { price_stars(); });
        if (options_.garg_koenemann)
            timed("solve", [&] { run_garg_koenemann(); });
        else
            timed("solve", [&] { settle(); });
        if (best_.value < 0 || (monitor_.expired() && !options_.garg_koenemann)) certify();
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
    // Items listed one after the other share elements, and an update that needs the last one's result has to
    // wait.
    static constexpr int64_t sweep_block = 1024;
    static constexpr int clique_passes = 2;
    static constexpr int exact_sweeps = 2; // before a certificate

    template <class Work> void timed(const std::string &phase, Work work) {
        const double start = monitor_.elapsed();
        work();
        seconds_[phase] += monitor_.elapsed() - start;
    }

    void enumerate() {
        const auto expired = [&] { return monitor_.expired(); };
        if (options_.triangles)
            add_triangles(ordered_, options_.rule, options_.max_pool, rng_, pool_, expired);
        if (options_.cliques)
            CliqueFinder(graph_, rng_).add_cliques(clique_passes, options_.max_pool, pool_, expired);
        pool_.shuffle_within(sweep_block, rng_);
        if (options_.wedges || options_.stars) {
            const StarPricer::Leaves leaves{options_.wedges ? 2 : 3, options_.stars ? options_.star : 2};
            stars_ = std::make_unique<StarPricer>(graph_, leaves, rng_);
            stars_->add_first(options_.max_pool, pool_, expired);
        }
        start_ascent();
    }

    void start_ascent() {
        std::vector<double> weight(graph_.weight.begin(), graph_.weight.end());
        weight.insert(weight.end(), pairs().size(), 1.0);
        const double unit = mean_capacity(weight);
        ascent_ = std::make_unique<Ascent>(warm * unit, options_.mu * unit, weight);
        for (int64_t item = 0; item < pool_.size(); item++) ascent_->add_item();
    }

    /// What an item can carry on average: over the pool, and over the longer cycles to come, each as if it
    /// went through a random edge.
    double mean_capacity(std::span<const double> weight) const {
        double listed = 0;
        for (int64_t item = 0; item < pool_.size(); item++) {
            double least = std::numeric_limits<double>::max();
            for (const int32_t e : pool_.elements(item)) least = std::min(least, weight[e]);
            listed += least / static_cast<double>(pool_.size());
        }
        if (!options_.cycles && listed > 0) return listed;
        return std::max(listed, mean_edge_capacity());
    }

    /// The mean weight of the edges that a cycle can go through, but not more of one than the other edges at
    /// either of its ends carry on. So an edge that outweighs all others does not set the scale.
    double mean_edge_capacity() const {
        std::vector<double> around(graph_.nodes, 0.0);
        for (int32_t e = 0; e < graph_.edges(); e++)
            for (const int32_t a : {graph_.u[e], graph_.v[e]}) around[a] += graph_.weight[e];
        double sum = 0, count = 0;
        for (int32_t e = 0; e < graph_.edges(); e++) {
            const double w = graph_.weight[e];
            const double capacity = std::min({w, around[graph_.u[e]] - w, around[graph_.v[e]] - w});
            if (capacity <= 0) continue;
            sum += capacity;
            count++;
        }
        return count > 0 ? sum / count : graph_.weight[0];
    }

    bool done() { return reached_target() || monitor_.expired(); }

    bool reached_target() const {
        return best_.value >= 0 &&
               (options_.integral ? static_cast<double>(best_.integer) : lower()) >= options_.target;
    }

    double lower() const {
        return std::ldexp(static_cast<double>(std::max<int64_t>(best_.value, 0)), -options_.scale_bits);
    }

    bool gap_closed() const {
        return best_.value >= 0 && !cover_.x.empty() && cover_.cost - lower() < options_.tol * lower();
    }

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

    bool pricing() const { return options_.cycles || stars_ != nullptr; }

    /// Cools down to the final mu, or to where pricing starts.
    void anneal() {
        const int hot = pricing() ? plan().hot : 0;
        const int steps = std::max(1, ascent_->cooling_steps_left());
        const double sweeps = hot > 0 ? std::min(30, options_.sweeps) : 0.7 * options_.sweeps;
        const double thorough = options_.cliques ? affordable_sweeps() : 0;
        const int each = std::max(1, static_cast<int>(std::lround(std::max(sweeps, thorough) / steps)));
        sweeps_left_ = options_.sweeps;
        while (ascent_->cooling_steps_left() > hot && !done()) {
            if (cold_enough(ascent_->cooling_steps_left())) return;
            sweep(each);
            if (!pricing()) sweeps_left_ -= each;
            ascent_->cool();
        }
        if (pricing()) sweep_and_certify(sweeps_between_certificates);
    }

    /// Whether the final mu is not needed: easy pools reach the tolerance before it.
    bool cold_enough(int steps_left) {
        constexpr int first_look = 9, steps_between_looks = 3;
        constexpr int64_t large = 1'000'000; // entries; below, the sweeps that this saves take no time
        if (pricing() || pool_.entries() < large || steps_left > first_look ||
            steps_left % steps_between_looks != 0)
            return false;
        sweep_and_certify(exact_sweeps);
        sweeps_left_ -= exact_sweeps;
        return gap_closed();
    }

    /// Sweeps that cost next to nothing on a small pool; where cliques share most of their edges they are
    /// needed.
    int affordable_sweeps() const {
        constexpr int64_t cheap = 20'000'000; // entries, swept in a tenth of a second
        const int64_t most = 40 * int64_t{options_.sweeps};
        return static_cast<int>(std::min(most, cheap / std::max<int64_t>(1, pool_.entries())));
    }

    /// Sweeps at the final mu until the gap to the pool's own optimum is small or the sweeps are used up.
    void settle() {
        sweeps_left_ = std::max(sweeps_left_, affordable_sweeps());
        while (sweeps_left_ > 0 && !done() && !gap_closed()) {
            const int now = std::min(sweeps_left_, sweeps_between_certificates);
            sweep_and_certify(now);
            sweeps_left_ -= now;
        }
    }

    /// How pricing and sweeping alternate.
    struct PricingPlan {
        int hot;      // cooling steps above the final mu at which pricing starts; each pass takes one
        int sweeps;   // a round
        int pruning;  // rounds from one pruning to the next
        double slack; // how well covered an unused item has to be to be pruned
        double least_progress; // several passes in a row that gain less than this, relatively, are the last
    };

    /// At a high mu the ascent converges fast and prices are spread widely, so that most of what is needed is
    /// found early; but the more widely, the more searches fail, and those of max-cut are long.
    PricingPlan plan() const {
        if (stars_) return {12, 10, 3, 1.1, 1e-5};
        const int hot = options_.rule == CycleRule::one_negative ? 7 : options_.cliques ? 0 : 4;
        return {hot, 15, 4, 1.15, 1e-6};
    }

    void price_cycles() {
        constexpr int64_t arcs_scanned = 30; // per element: sweeping takes a tenth to a half of the time then
        CyclePricer pricer(graph_, options_.rule, options_.max_cycle, rng_);
        price([&] {
            const int64_t work = arcs_scanned * std::max<int64_t>(pool_.entries(), graph_.edges());
            return pricer.round(work, options_.max_pool, pool_, *ascent_, monitor_);
        });
    }

    void price_stars() {
        price([&] { return stars_->round(options_.max_pool, pool_, *ascent_, monitor_); });
    }

    template <class Round> void price(Round price_round) {
        constexpr int most_stalled = 3;
        const PricingPlan plan = this->plan();
        double before = lower();
        int stalled = 0; // passes
        for (int round = 1; !done(); round++) {
            const PricingRound priced = price_round();
            if (priced.added > 0) cover_.cost = std::numeric_limits<double>::infinity();
            sweep_and_certify(plan.sweeps);
            if (round % plan.pruning == 0) prune(plan.slack);
            if (!priced.pass_ended) continue;
            const bool progress = lower() > before * (1 + plan.least_progress) || !priced.last_stage;
            stalled = progress ? 0 : stalled + 1;
            before = lower();
            if (ascent_->cooling_steps_left() > 0)
                ascent_->cool();
            else if (stalled >= most_stalled || priced.exhausted)
                return;
        }
    }

    /// Packs the pool as it is anew, with finer and finer epsilon.
    void run_garg_koenemann() {
        if (done()) return;
        cover_ = {}; // the engine's own is to tell how good it is
        const double least = GargKoenemann::least_epsilon(ascent_->weights().size());
        for (double epsilon = 0.3; epsilon >= least && !gap_closed(); epsilon /= 2) {
            GargKoenemann engine(pool_, ascent_->weights(), epsilon);
            while (!engine.finished() && !monitor_.expired())
                engine.phase([&] { return monitor_.expired(); });
            certify([&](int64_t item) { return engine.y(item); }, [&](int32_t e) { return engine.cover(e); });
            if (done()) return;
        }
    }

    /// Drops the items that carry nothing and are covered `slack` times over.
    void prune(double slack) {
        std::vector<uint8_t> keep(pool_.size());
        for (int64_t item = 0; item < pool_.size(); item++)
            keep[item] =
                !ascent_->idle(item) || ascent_->price_sum(pool_.elements(item)) < slack * pool_.rhs(item);
        ascent_->retain([&](int64_t item) { return keep[item] != 0; });
        pool_.retain([&](int64_t item) { return keep[item] != 0; });
    }

    void certify() {
        certify([&](int64_t item) { return ascent_->idle(item) ? 0.0 : ascent_->y(item); },
                [&](int32_t e) { return ascent_->price(e); });
    }

    /// Rounds to an exact packing and a cover, keeps the best of each and reports.
    template <class Value, class Price> void certify(Value y, Price price) {
        const double start = monitor_.elapsed();
        largest_pool_ = std::max(largest_pool_, pool_.size());
        keep_best(round_packing(pool_, ascent_->weights(), options_.scale_bits, y));
        Cover cover = repair_cover(pool_, ascent_->weights(), price);
        if (cover_.x.empty() || cover.cost < cover_.cost) cover_ = std::move(cover);
        trace_.push_back({monitor_.elapsed(), lower(), cover_.cost});
        if (report_) report_(trace_.back(), pool_.size());
        monitor_.reserve(monitor_.elapsed() - start);
    }

    void keep_best(const IntegerPacking &packing) {
        if (packing.value <= best_.value) return;
        const int64_t integer =
            options_.integral ? integer_bound(pool_, packing, ascent_->elements(), options_.scale_bits) : 0;
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
