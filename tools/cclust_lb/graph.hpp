// The graph as the kernels see it: arrays of edges, and the neighbours of each node beside their edge
// numbers.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace icml::cclust {

/// A simple graph; edge e joins u[e] < v[e]. Only views: the owner keeps the arrays alive.
struct Graph {
    int32_t nodes = 0;
    std::span<const int32_t> u, v;
    std::span<const double> weight;
    std::span<const uint8_t> negative;

    int32_t edges() const { return static_cast<int32_t>(u.size()); }
};

/// One end of an edge as seen from the other.
struct Neighbour {
    int32_t node;
    int32_t edge;
};

/// Compressed rows of neighbours, each in increasing order.
class Adjacency {
  public:
    explicit Adjacency(const Graph &graph) : begin_(graph.nodes + 1, 0), neighbours_(2 * graph.u.size()) {
        for (int32_t e = 0; e < graph.edges(); e++) {
            begin_[graph.u[e] + 1]++;
            begin_[graph.v[e] + 1]++;
        }
        std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
        std::vector<int64_t> next(begin_.begin(), begin_.end() - 1);
        for (int32_t e = 0; e < graph.edges(); e++) {
            neighbours_[next[graph.u[e]]++] = {graph.v[e], e};
            neighbours_[next[graph.v[e]]++] = {graph.u[e], e};
        }
        for (int32_t a = 0; a < graph.nodes; a++)
            std::sort(neighbours_.begin() + begin_[a], neighbours_.begin() + begin_[a + 1],
                      [](const Neighbour &x, const Neighbour &y) { return x.node < y.node; });
    }

    std::span<const Neighbour> of(int32_t node) const {
        assert(0 <= node && node + 1 < static_cast<int64_t>(begin_.size()));
        return {neighbours_.data() + begin_[node], neighbours_.data() + begin_[node + 1]};
    }

    int64_t degree(int32_t node) const { return begin_[node + 1] - begin_[node]; }

    /// The edge between a and b, or -1.
    int32_t edge_between(int32_t a, int32_t b) const {
        if (degree(a) > degree(b)) std::swap(a, b);
        const auto row = of(a);
        const auto at = std::lower_bound(row.begin(), row.end(), b,
                                         [](const Neighbour &x, int32_t y) { return x.node < y; });
        return at != row.end() && at->node == b ? at->edge : -1;
    }

  private:
    std::vector<int64_t> begin_;
    std::vector<Neighbour> neighbours_;
};

/// The same graph with nodes renamed by rising degree and edges sorted by (u, v).
///
/// The edges out of node a to higher nodes are then the consecutive numbers first[a]..first[a+1]: the edge
/// list is its own oriented adjacency, triangles take O(m * degeneracy) to list, and two edges of a triangle
/// lie close in memory.
class DegreeOrdered {
  public:
    explicit DegreeOrdered(const Graph &graph)
        : first_(graph.nodes + 1, 0), node_(graph.nodes), edge_(graph.edges()), u_(graph.edges()),
          v_(graph.edges()), weight_(graph.edges()), negative_(graph.edges()) {
        const std::vector<int32_t> rank = rank_by_degree(graph);
        sort_edges(graph, rank);
        for (int32_t e = 0; e < graph.edges(); e++) {
            const int32_t a = rank[graph.u[edge_[e]]], b = rank[graph.v[edge_[e]]];
            u_[e] = std::min(a, b);
            v_[e] = std::max(a, b);
            weight_[e] = graph.weight[edge_[e]];
            negative_[e] = graph.negative[edge_[e]];
        }
    }

    Graph graph() const { return {static_cast<int32_t>(node_.size()), u_, v_, weight_, negative_}; }

    /// Edges first()[a]..first()[a + 1] lead from a to higher nodes.
    std::span<const int64_t> first() const { return first_; }

    /// Numbers in the original graph, by number here.
    std::span<const int32_t> original_node() const { return node_; }
    std::span<const int32_t> original_edge() const { return edge_; }

  private:
    std::vector<int32_t> rank_by_degree(const Graph &graph) {
        std::vector<int32_t> degree(graph.nodes, 0), rank(graph.nodes);
        for (int32_t e = 0; e < graph.edges(); e++) {
            degree[graph.u[e]]++;
            degree[graph.v[e]]++;
        }
        std::iota(node_.begin(), node_.end(), 0);
        std::stable_sort(node_.begin(), node_.end(),
                         [&](int32_t a, int32_t b) { return degree[a] < degree[b]; });
        for (int32_t r = 0; r < graph.nodes; r++) rank[node_[r]] = r;
        return rank;
    }

    /// Counting sort by the higher end, then stably by the lower; leaves the lower end's row starts in
    /// first_.
    void sort_edges(const Graph &graph, std::span<const int32_t> rank) {
        const auto low = [&](int32_t e) { return std::min(rank[graph.u[e]], rank[graph.v[e]]); };
        const auto high = [&](int32_t e) { return std::max(rank[graph.u[e]], rank[graph.v[e]]); };
        const auto starts = [&](auto key) {
            std::vector<int64_t> start(graph.nodes + 1, 0);
            for (int32_t e = 0; e < graph.edges(); e++) start[key(e) + 1]++;
            std::partial_sum(start.begin(), start.end(), start.begin());
            return start;
        };
        std::vector<int32_t> by_high(graph.edges());
        std::vector<int64_t> next = starts(high);
        for (int32_t e = 0; e < graph.edges(); e++) by_high[next[high(e)]++] = e;
        first_ = starts(low);
        next = first_;
        for (const int32_t e : by_high) edge_[next[low(e)]++] = e;
    }

    std::vector<int64_t> first_;
    std::vector<int32_t> node_, edge_, u_, v_;
    std::vector<double> weight_;
    std::vector<uint8_t> negative_;
};

} // namespace icml::cclust
