// Louvain for correlation clustering: node moves, then the clusters become the nodes of a smaller graph, and
// on the way back every level is refined. (Blondel, Guillaume, Lambiotte, Lefebvre: Fast unfolding of
// communities, 2008.)
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "../random.hpp"
#include "arc_graph.hpp"
#include "budget.hpp"
#include "local_search.hpp"

namespace icml::cclust {

// One node per cluster, arcs summed; `labels` must be compact (0..k-1).
template <class Weight>
ArcGraph<double> contract(const ArcGraph<Weight> &graph, std::span<const std::int32_t> labels,
                          std::int32_t k) {
    std::vector<std::int32_t> start(static_cast<std::size_t>(k) + 1, 0), member(labels.size());
    for (std::int32_t label : labels) ++start[label + 1];
    std::partial_sum(start.begin(), start.end(), start.begin());
    std::vector<std::int32_t> slot(start.begin(), start.end() - 1);
    for (std::int32_t x = 0; x < graph.n(); ++x) member[slot[labels[x]]++] = x;

    ArcGraph<double> coarse;
    coarse.first.assign(1, 0);
    coarse.size.assign(static_cast<std::size_t>(k), 0);
    std::vector<double> sum(static_cast<std::size_t>(k), 0);
    std::vector<std::int32_t> seen(static_cast<std::size_t>(k), -1), touched;
    for (std::int32_t c = 0; c < k; ++c) {
        touched.clear();
        for (std::int32_t i = start[c]; i < start[c + 1]; ++i) {
            coarse.size[c] += graph.size[member[i]];
            for (const auto &arc : graph.of(member[i])) {
                const std::int32_t d = labels[arc.to];
                if (d == c) continue;
                if (seen[d] != c) {
                    seen[d] = c;
                    sum[d] = 0;
                    touched.push_back(d);
                }
                sum[d] += arc.weight;
            }
        }
        for (std::int32_t d : touched)
            if (sum[d] != 0) coarse.arcs.push_back({d, sum[d]});
        coarse.first.push_back(static_cast<std::int64_t>(coarse.arcs.size()));
    }
    return coarse;
}

// Improves `labels` in place; returns what the value gained.
template <bool Complete, class Weight>
double multilevel(const ArcGraph<Weight> &graph, std::vector<std::int32_t> &labels, double tolerance,
                  CounterRng &rng, Budget &budget) {
    Partition<Weight, Complete> partition(graph, labels, tolerance);
    partition.enqueue_all(rng);
    double gain = partition.settle(budget);
    labels = partition.labels();
    std::vector<std::int32_t> coarse_of = labels;
    const std::int32_t k = compact_labels(coarse_of);
    if (k == graph.n() || k == 1 || budget.stopped()) return gain;

    const ArcGraph<double> coarse = contract(graph, coarse_of, k);
    if (budget.spend(static_cast<std::int64_t>(graph.arcs.size()))) return gain;
    std::vector<std::int32_t> coarse_labels(static_cast<std::size_t>(k));
    std::iota(coarse_labels.begin(), coarse_labels.end(), 0);
    const double coarse_gain = multilevel<Complete>(coarse, coarse_labels, tolerance, rng, budget);
    if (coarse_gain <= 0) return gain;

    for (std::size_t x = 0; x < labels.size(); ++x) labels[x] = coarse_labels[coarse_of[x]];
    partition.assign(labels);
    partition.enqueue_all(rng);
    gain += coarse_gain + partition.settle(budget);
    labels = partition.labels();
    return gain;
}

} // namespace icml::cclust
