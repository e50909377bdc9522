// Two clusters: simulated annealing over single flips with a gain array, the runs recombined part by part.
//
// An edge is satisfied if its signed weight times the sides (+1, -1) of its ends is positive. Two solutions
// differ in a set of nodes whose connected components do not touch, so the components' effects add up and
// each can be taken or left on its own: a reheated run over the whole graph is thousands of small trials,
// every one accepted by its own merit. (Kirkpatrick, Gelatt, Vecchi: Optimization by simulated annealing,
// 1983; Whitley, Hains, Howe: partition crossover, 2009.)
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "../random.hpp"
#include "arc_graph.hpp"
#include "budget.hpp"

namespace icml::cclust {

template <class Weight> class SpinState {
  public:
    // Arcs carry +w for "same side", -w for "apart"; the cost is the weight of unsatisfied edges.
    SpinState(const ArcGraph<Weight> &graph, double tolerance, CounterRng rng)
        : graph_(graph), tolerance_(tolerance), rng_(rng), spins_(static_cast<std::size_t>(graph.n())),
          order_(nodes_with_arcs(graph)) {
        double total = 0;
        for (const auto &arc : graph.arcs) total += std::abs(static_cast<double>(arc.weight));
        mean_weight_ = graph.arcs.empty() ? 1 : total / static_cast<double>(graph.arcs.size());
        for (std::size_t i = 0; i < exponential_.size(); ++i)
            exponential_[i] =
                -std::log((static_cast<double>(i) + 0.5) / static_cast<double>(exponential_.size()));
    }

    void set(std::span<const std::int8_t> sides) {
        for (std::int32_t x = 0; x < n(); ++x) spins_[x].side = sides[x];
        recount();
    }

    void randomize() {
        for (Spin &spin : spins_) spin.side = rng_.coin() ? 1 : -1;
        recount();
    }

    double cost() const { return cost_; }

    std::vector<std::int8_t> sides() const {
        std::vector<std::int8_t> sides(spins_.size());
        for (std::size_t x = 0; x < spins_.size(); ++x) sides[x] = static_cast<std::int8_t>(spins_[x].side);
        return sides;
    }

    // Metropolis sweeps while the temperature falls geometrically from `hottest` (in mean edge weights), so
    // that hubs and leaves each get their share of the schedule; faster if the clock says so.
    void anneal(double hottest, int sweeps, Budget &budget) {
        for (int s = 0; s < sweeps; ++s) {
            const double done = std::max(static_cast<double>(s) / sweeps, budget.time_used() / 0.9);
            if (done >= 1 || sweep(mean_weight_ * hottest * std::pow(coldest / hottest, done), budget))
                return;
        }
    }

    // Greedy flips until none helps.
    void polish(Budget &budget) {
        if (tolerance_ > 0) recount(); // or the rounding errors of many flips could send it in circles
        for (bool improved = true; improved;) {
            improved = false;
            for (std::int32_t x : order_) {
                if (spins_[x].gain <= tolerance_) continue;
                flip(x);
                improved = true;
                if (budget.spend(graph_.degree(x) + 1)) return;
            }
        }
    }

    // Takes over every part of `other` that does not make the present solution worse.
    void recombine(std::span<const std::int8_t> other, Budget &budget) {
        for (const bool same : {false, true}) take_components(other, same);
        budget.spend(static_cast<std::int64_t>(graph_.arcs.size()));
    }

  private:
    struct Spin {
        Weight gain;       // how much the cost would fall if the node changed sides
        std::int32_t side; // +1 or -1
    };

    static std::vector<std::int32_t> nodes_with_arcs(const ArcGraph<Weight> &graph) {
        std::vector<std::int32_t> nodes;
        for (std::int32_t x = 0; x < graph.n(); ++x)
            if (graph.degree(x) > 0) nodes.push_back(x);
        return nodes;
    }

    std::int32_t n() const { return graph_.n(); }

    void recount() {
        double unsatisfied = 0;
        for (std::int32_t x = 0; x < n(); ++x) {
            double gain = 0;
            for (const auto &arc : graph_.of(x)) {
                const double product = arc.weight * static_cast<double>(spins_[x].side * spins_[arc.to].side);
                gain -= product;
                if (product < 0 && arc.to < x) unsatisfied -= product;
            }
            spins_[x].gain = static_cast<Weight>(gain);
        }
        cost_ = unsatisfied;
    }

    void flip(std::int32_t x) {
        Spin &own = spins_[x];
        const auto twice = static_cast<Weight>(2 * own.side);
        for (const auto &arc : graph_.of(x)) { // hot: one random read and write an arc
            Spin &spin = spins_[arc.to];
            spin.gain += twice * arc.weight * static_cast<Weight>(spin.side);
        }
        cost_ -= own.gain;
        own.gain = -own.gain;
        own.side = -own.side;
    }

    // A flip that changes nothing is taken half the time: always taking it would make a sweep deterministic.
    bool accept(double gain, double temperature) {
        const std::uint64_t random = rng_.next();
        if (gain == 0) return random & 1;
        return gain >= -temperature * exponential_[random >> (64 - table_bits)];
    }

    bool sweep(double temperature, Budget &budget) {
        const double hopeless = -temperature * exponential_[0];
        std::int64_t work = 0;
        for (std::int32_t x : order_) {
            const double gain = spins_[x].gain;
            ++work;
            if (gain < hopeless) continue;
            if (gain <= 0 && !accept(gain, temperature)) continue;
            flip(x);
            work += graph_.degree(x);
            if (work > work_between_reports && budget.spend(std::exchange(work, 0))) return true;
        }
        return budget.spend(work);
    }

    // Flips those connected components of {x : (side == other side) == same} that improve the cost; where
    // `other` is merely as good, it is preferred, so that the search drifts along plateaus.
    void take_components(std::span<const std::int8_t> other, bool same) {
        std::vector<char> open(spins_.size());
        for (std::int32_t x : order_) open[x] = (spins_[x].side == other[x]) == same;
        std::vector<std::int32_t> component;
        for (std::int32_t root : order_) {
            if (!open[root]) continue;
            open[root] = 0;
            component.assign(1, root);
            double gain = 0;
            for (std::size_t i = 0; i < component.size(); ++i) {
                const std::int32_t x = component[i];
                gain += spins_[x].gain;
                for (const auto &arc : graph_.of(x)) {
                    // An arc inside the component stays as it is: undo its part of both ends' gains.
                    if ((spins_[arc.to].side == other[arc.to]) != same) continue;
                    gain += arc.weight * static_cast<double>(spins_[x].side * spins_[arc.to].side);
                    if (open[arc.to]) {
                        open[arc.to] = 0;
                        component.push_back(arc.to);
                    }
                }
            }
            if (gain > tolerance_ || (gain >= 0 && !same))
                taken_.insert(taken_.end(), component.begin(), component.end());
        }
        for (std::int32_t x : taken_) flip(x);
        taken_.clear();
    }

    static constexpr double coldest = 0.15; // mean edge weights
    static constexpr int table_bits = 12;
    static constexpr std::int64_t work_between_reports = 50'000;

    const ArcGraph<Weight> &graph_;
    const double tolerance_; // what counts as no gain: 0 for whole-number weights, rounding noise otherwise
    CounterRng rng_;
    std::vector<Spin> spins_;
    std::vector<std::int32_t> order_, taken_;
    // Quantiles of the exponential distribution, the largest first.
    std::array<double, std::size_t{1} << table_bits> exponential_;
    double mean_weight_ = 1, cost_ = 0;
};

// Annealing runs, recombined: hot ones from random sides, and reheats of the best solution.
template <class Weight> class AnnealingSearch {
  public:
    AnnealingSearch(const ArcGraph<Weight> &graph, double tolerance, CounterRng rng)
        : state_(graph, tolerance, CounterRng(rng)), rng_(rng) {
        state_.randomize();
    }

    void start_from(std::span<const std::int8_t> sides) { state_.set(sides); }
    void polish(Budget &budget) {
        state_.polish(budget);
        budget.record(cost());
    }

    void run(Budget &budget) {
        while (!budget.exhausted()) run_once(budget);
    }

    void run_once(Budget &budget) {
        if (budget.stopped()) return;
        step(budget);
        budget.finish_step(cost());
    }

    double cost() const { return state_.cost(); }
    std::vector<std::int8_t> sides() const { return state_.sides(); }

  private:
    static constexpr double hot = 12.0, lukewarm = 0.4; // mean edge weights
    static constexpr int sweeps = 300, restart_every = 4;

    void step(Budget &budget) {
        const std::vector<std::int8_t> best = state_.sides();
        double heat = hot;
        if (budget.steps() % restart_every == 0)
            state_.randomize();
        else
            heat = lukewarm * std::pow(0.5 * hot / lukewarm, rng_.unit());
        state_.anneal(heat, sweeps, budget);
        state_.polish(budget);
        const std::vector<std::int8_t> found = state_.sides();
        state_.set(best);
        state_.recombine(found, budget);
        state_.polish(budget);
    }

    SpinState<Weight> state_;
    CounterRng rng_;
};

} // namespace icml::cclust
