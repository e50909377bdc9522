// KwikCluster: a random node takes all its free positive neighbours along; the best of several random orders.
// (Ailon, Charikar, Newman: Aggregating inconsistent information, 2008.)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "../random.hpp"
#include "arc_graph.hpp"
#include "budget.hpp"
#include "local_search.hpp"

namespace icml::cclust {

template <class Weight>
std::vector<std::int32_t> pivot_clustering(const ArcGraph<Weight> &graph, CounterRng &rng) {
    std::vector<std::int32_t> labels(static_cast<std::size_t>(graph.n()), -1);
    for (std::int32_t pivot : rng.permutation(graph.n())) {
        if (labels[pivot] >= 0) continue;
        labels[pivot] = pivot;
        for (const auto &arc : graph.of(pivot))
            if (arc.weight > 0 && labels[arc.to] < 0) labels[arc.to] = pivot;
    }
    return labels;
}

// Replaces `labels`, whose value is `value`, by the best of the restarts that the budget allows, if better.
template <class Weight>
void best_pivot(const ArcGraph<Weight> &graph, std::vector<std::int32_t> &labels, double &value, double base,
                bool complete, CounterRng &rng, Budget &budget) {
    while (!budget.exhausted()) {
        std::vector<std::int32_t> candidate = pivot_clustering(graph, rng);
        const double reached = clustering_value(graph, std::span<const std::int32_t>(candidate), complete);
        if (reached > value) {
            value = reached;
            labels = std::move(candidate);
        }
        budget.spend(static_cast<std::int64_t>(graph.arcs.size()) + graph.n());
        budget.finish_step(base - value);
    }
}

} // namespace icml::cclust
