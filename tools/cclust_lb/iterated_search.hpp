// Iterated local search: shake a ball of nodes, let the moves settle, keep the result if it is not worse.
// All of it is local to the ball: scored by what the moves gained, taken back by an undo log.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "../random.hpp"
#include "arc_graph.hpp"
#include "budget.hpp"
#include "local_search.hpp"
#include "multilevel.hpp"

namespace icml::cclust {

template <class Weight, bool Complete> class IteratedSearch {
  public:
    // `base` - value is the cost, the quantity the budget's target speaks of.
    IteratedSearch(const ArcGraph<Weight> &graph, const std::vector<std::int32_t> &labels, double value,
                   double base, double tolerance, CounterRng rng)
        : graph_(graph), partition_(graph, labels, tolerance), value_(value), base_(base),
          tolerance_(tolerance), rng_(rng), visited_(labels.size(), 0) {}

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
    static constexpr std::int32_t largest_ball = 100;
    static constexpr int seed_tries = 20;
    static constexpr std::int64_t rounds_between_coarsening = 32; // in scans of the whole graph

    void step(Budget &budget) {
        const auto whole = static_cast<std::int64_t>(graph_.arcs.size());
        if (budget.work() - last_coarsening_ > rounds_between_coarsening * whole) {
            coarsen(budget);
            last_coarsening_ = budget.work();
            return;
        }
        gather_ball();
        double gain = shake();
        for (std::int32_t x : ball_) partition_.enqueue(x);
        gain += partition_.settle(budget);
        if (gain >= 0) {
            value_ += gain;
            partition_.commit();
        } else {
            partition_.undo();
        }
        budget.spend(static_cast<std::int64_t>(ball_.size()));
    }

    // Moves of whole clusters, which single nodes cannot make.
    void coarsen(Budget &budget) {
        std::vector<std::int32_t> labels = partition_.labels();
        const double gain = multilevel<Complete>(graph_, labels, tolerance_, rng_, budget);
        if (gain <= 0) return;
        value_ += gain;
        partition_.assign(labels);
    }

    // The first nodes that a breadth-first search from a troubled node meets; sizes are log-uniform.
    void gather_ball() {
        const double limit = std::min(largest_ball, graph_.n());
        const auto wanted = static_cast<std::size_t>(std::exp(rng_.unit() * std::log(limit + 1)));
        ball_.assign(1, troubled_node());
        visited_[ball_[0]] = ++epoch_;
        for (std::size_t i = 0; i < ball_.size() && ball_.size() < wanted; ++i) {
            const auto arcs = graph_.of(ball_[i]);
            const std::size_t turn = random_arc(arcs); // a hub's first neighbours must not be in every ball
            for (std::size_t j = 0; j < arcs.size() && ball_.size() < wanted; ++j) {
                const std::int32_t y = arcs[turn + j < arcs.size() ? turn + j : turn + j - arcs.size()].to;
                if (visited_[y] == epoch_) continue;
                visited_[y] = epoch_;
                ball_.push_back(y);
            }
        }
    }

    // An end of a random disagreement, if a few tries find one.
    std::int32_t troubled_node() {
        std::int32_t x = 0;
        for (int i = 0; i < seed_tries; ++i) {
            x = rng_.below(graph_.n());
            const auto arcs = graph_.of(x);
            if (arcs.empty()) continue;
            const auto &arc = arcs[random_arc(arcs)];
            if ((arc.weight > 0) != (partition_.label(x) == partition_.label(arc.to))) break;
        }
        return x;
    }

    // Sends each node of the ball to a cluster of its own or, mostly, to a random neighbour's.
    double shake() {
        double gain = 0;
        for (std::int32_t x : ball_) {
            const auto arcs = graph_.of(x);
            const bool alone = (rng_.next() >> 62) == 0 || arcs.empty();
            gain +=
                partition_.force(x, alone ? partition_.fresh : partition_.label(arcs[random_arc(arcs)].to));
        }
        return gain;
    }

    std::size_t random_arc(std::span<const Arc<Weight>> arcs) {
        return arcs.empty() ? 0
                            : static_cast<std::size_t>(rng_.below(static_cast<std::int32_t>(arcs.size())));
    }

    const ArcGraph<Weight> &graph_;
    Partition<Weight, Complete> partition_;
    double value_;
    const double base_, tolerance_;
    CounterRng rng_;
    std::vector<std::int32_t> ball_;
    std::vector<std::uint32_t> visited_; // the epoch in which a ball last met the node
    std::uint32_t epoch_ = 0;
    std::int64_t last_coarsening_ = 0;
};

} // namespace icml::cclust
