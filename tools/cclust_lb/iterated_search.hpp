// Iterated local search: shake a ball of nodes, let the moves settle, keep the result if it is not worse.
// Everything is local to the ball: the change is scored by what the moves gained and taken back by an undo log.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "arc_graph.hpp"
#include "budget.hpp"
#include "local_search.hpp"
#include "multilevel.hpp"
#include "random.hpp"

namespace icml::cclust {

template <class Weight, bool Complete> class IteratedSearch {
  public:
    // `base` - value is the cost, the quantity the budget's target speaks of.
    IteratedSearch(const ArcGraph<Weight> &graph, const std::vector<std::int32_t> &labels, double value,
                   double base, double tolerance, CounterRng rng)
        : graph_(graph), partition_(graph, labels, tolerance), value_(value), base_(base), tolerance_(tolerance),
          rng_(rng), visited_(labels.size(), 0) {}

    void run(Budget &budget) {
        if (graph_.arcs.empty()) return;
        budget.record(cost());
        while (!budget.exhausted()) {
            step(budget);
            budget.finish_step(cost());
        }
    }

    double cost() const { return base_ - value_; }
    const std::vector<std::int32_t> &labels() const { return partition_.labels(); }

  private:
    static constexpr std::int32_t largest_ball = 1000;
    static constexpr std::int64_t multilevel_share = 8; // at most one arc in so many is scanned by multilevel rounds

    void step(Budget &budget) {
        const std::int64_t before = budget.work();
        const auto whole = static_cast<std::int64_t>(graph_.arcs.size());
        if (local_work_ > multilevel_share * 4 * whole) {
            coarsen(budget);
            local_work_ = 0;
            return;
        }
        gather_ball();
        double gain = shake();
        for (std::int32_t x : ball_) partition_.enqueue(x);
        gain += partition_.settle(budget);
        if (gain >= -tolerance_) {
            value_ += gain;
            partition_.commit();
        } else {
            partition_.undo();
        }
        budget.spend(static_cast<std::int64_t>(ball_.size()));
        local_work_ += budget.work() - before;
    }

    // Moves of whole clusters, which single nodes cannot make.
    void coarsen(Budget &budget) {
        std::vector<std::int32_t> labels = partition_.labels();
        const double gain = multilevel<Complete>(graph_, labels, tolerance_, rng_, budget);
        if (gain <= 0) return;
        value_ += gain;
        partition_.assign(labels);
    }

    // The first nodes that a breadth-first search from a random node meets; sizes are log-uniform.
    void gather_ball() {
        const double limit = std::min(largest_ball, graph_.n());
        const auto wanted = static_cast<std::size_t>(std::exp(rng_.unit() * std::log(limit + 1)));
        ball_.assign(1, seed_node());
        ++epoch_;
        visited_[ball_[0]] = epoch_;
        for (std::size_t i = 0; i < ball_.size() && ball_.size() < wanted; ++i)
            for (const auto &arc : graph_.of(ball_[i])) {
                if (visited_[arc.to] == epoch_) continue;
                visited_[arc.to] = epoch_;
                ball_.push_back(arc.to);
                if (ball_.size() >= wanted) break;
            }
    }

    std::int32_t seed_node() { return rng_.below(graph_.n()); }

    // Sends each node of the ball to a cluster of its own or to a random neighbour's; returns the value's change.
    double shake() {
        double gain = 0;
        for (std::int32_t x : ball_) {
            const auto arcs = graph_.of(x);
            if (rng_.coin() || arcs.empty()) gain += partition_.force(x, partition_.fresh);
            else gain += partition_.force(x, partition_.label(arcs[rng_.below(static_cast<std::int32_t>(arcs.size()))].to));
        }
        return gain;
    }

    const ArcGraph<Weight> &graph_;
    Partition<Weight, Complete> partition_;
    double value_;
    const double base_, tolerance_;
    CounterRng rng_;
    std::vector<std::int32_t> ball_;
    std::vector<std::uint32_t> visited_; // the epoch in which a ball last met the node
    std::uint32_t epoch_ = 0;
    std::int64_t local_work_ = 0;
};

} // namespace icml::cclust
