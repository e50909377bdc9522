// Where to look for odd cycles: at the edges that some two-clustering leaves unsatisfied.
//
// Every bad cycle holds an odd number of them, so no cycle is missed. A two-clustering that disagrees where
// the prices are high leaves few searches to do: an edge with price 1 lies on no uncovered cycle.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "../random.hpp"
#include "graph.hpp"

namespace icml::cclust {

class TwoSides {
  public:
    explicit TwoSides(const Graph &graph) : graph_(graph), adjacency_(graph), side_(graph.nodes) {}

    /// The unsatisfied edges of a two-clustering that follows the cheap edges; `price(e)` is in 0..256.
    template <class Price> std::vector<int32_t> unsatisfied(Price price, CounterRng &rng) {
        follow_tree(edges_by(price));
        improve(price, rng);
        std::vector<int32_t> edges;
        for (int32_t e = 0; e < graph_.edges(); e++)
            if (!satisfied(e)) edges.push_back(e);
        return edges;
    }

  private:
    static constexpr int32_t top_price = 256;

    bool satisfied(int32_t e) const {
        return (side_[graph_.u[e]] != side_[graph_.v[e]]) == (graph_.negative[e] != 0);
    }

    template <class Price> std::vector<int32_t> edges_by(Price price) const {
        std::array<int32_t, top_price + 2> next{};
        for (int32_t e = 0; e < graph_.edges(); e++) next[price(e) + 1]++;
        std::partial_sum(next.begin(), next.end(), next.begin());
        std::vector<int32_t> order(graph_.edges());
        for (int32_t e = 0; e < graph_.edges(); e++) order[next[price(e)]++] = e;
        return order;
    }

    /// Satisfies the edges of a minimum spanning forest (Kruskal; each node knows its side relative to its
    /// parent).
    void follow_tree(std::span<const int32_t> order) {
        std::vector<int32_t> parent(graph_.nodes), size(graph_.nodes, 1);
        std::iota(parent.begin(), parent.end(), 0);
        std::fill(side_.begin(), side_.end(), 0);
        const auto root = [&](int32_t node) {
            uint8_t side = 0;
            for (; parent[node] != node; node = parent[node]) side ^= side_[node];
            return std::pair{node, side};
        };
        for (const int32_t e : order) {
            auto [a, side_a] = root(graph_.u[e]);
            auto [b, side_b] = root(graph_.v[e]);
            if (a == b) continue;
            if (size[a] > size[b]) std::swap(a, b);
            parent[a] = b;
            size[b] += size[a];
            side_[a] = side_a ^ side_b ^ (graph_.negative[e] != 0);
        }
        std::vector<uint8_t> absolute(graph_.nodes);
        for (int32_t node = 0; node < graph_.nodes; node++) absolute[node] = root(node).second;
        side_ = std::move(absolute);
    }

    /// Moves single nodes while that leaves less of 1 - price unsatisfied.
    template <class Price> void improve(Price price, CounterRng &rng) {
        constexpr int most_passes = 20;
        bool moved = true;
        for (int pass = 0; pass < most_passes && moved; pass++) {
            moved = false;
            for (const int32_t node : rng.permutation(graph_.nodes)) {
                int64_t gain = 0;
                for (const auto &[other, e] : adjacency_.of(node))
                    gain += (satisfied(e) ? -1 : 1) * (top_price + 1 - price(e));
                if (gain <= 0) continue;
                side_[node] ^= 1;
                moved = true;
            }
        }
    }

    const Graph graph_;
    const Adjacency adjacency_;
    std::vector<uint8_t> side_;
};

} // namespace icml::cclust
