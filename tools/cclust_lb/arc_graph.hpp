// Adjacency for the searches: each arc holds its weight next to the neighbour, so that scanning a node is one
// stream.
#pragma once

#include <cassert>
#include <cstdint>
#include <span>
#include <vector>

#include "graph.hpp"

namespace icml::cclust {

template <class Weight> struct Arc {
    std::int32_t to;
    Weight weight;
};

// Weight is float where every weight fits one exactly (8 bytes an arc), double otherwise.
template <class Weight> struct ArcGraph {
    std::vector<std::int64_t> first; // n + 1
    std::vector<Arc<Weight>> arcs;
    std::vector<double> size; // how many of the user's nodes each node stands for

    std::int32_t n() const { return static_cast<std::int32_t>(first.size()) - 1; }

    std::span<const Arc<Weight>> of(std::int32_t x) const {
        assert(x >= 0 && x < n());
        return {arcs.data() + first[x], arcs.data() + first[x + 1]};
    }

    std::int64_t degree(std::int32_t x) const { return first[x + 1] - first[x]; }
};

// Builds the adjacency; `signed_weight(e)` is the weight that the arcs of edge e carry.
template <class Weight, class SignedWeight>
ArcGraph<Weight> make_arc_graph(const Graph &edges, SignedWeight signed_weight) {
    ArcGraph<Weight> graph;
    graph.first.assign(static_cast<std::size_t>(edges.nodes) + 1, 0);
    graph.size.assign(static_cast<std::size_t>(edges.nodes), 1.0);
    for (std::size_t e = 0; e < edges.u.size(); ++e) {
        ++graph.first[edges.u[e] + 1];
        ++graph.first[edges.v[e] + 1];
    }
    for (std::int32_t x = 0; x < edges.nodes; ++x) graph.first[x + 1] += graph.first[x];
    graph.arcs.resize(2 * edges.u.size());
    std::vector<std::int64_t> slot(graph.first.begin(), graph.first.end() - 1);
    for (std::size_t e = 0; e < edges.u.size(); ++e) {
        const auto weight = static_cast<Weight>(signed_weight(e));
        graph.arcs[slot[edges.u[e]]++] = {edges.v[e], weight};
        graph.arcs[slot[edges.v[e]]++] = {edges.u[e], weight};
    }
    return graph;
}

} // namespace icml::cclust
