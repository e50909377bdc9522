// Cliques of which two sides satisfy few edges: K_p has p(p-1)/2 edges and no cut of it more than
// floor(p^2/4), so every two-clustering disagrees with floor((p-1)^2/4) or more. Triangles alone prove only
// p(p-1)/6 of that.
//
// With signs, a clique counts if all its triangles are bad: flipping the signs around some of its nodes then
// makes every edge negative.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "../random.hpp"
#include "graph.hpp"
#include "pool.hpp"

namespace icml::cclust {

class CliqueFinder {
  public:
    CliqueFinder(const Graph &graph, CounterRng rng) : graph_(graph), adjacency_(graph), rng_(rng) {}

    /// Grows a clique from every edge that earlier ones have left out, `passes` times, and adds it with some
    /// of its sub-cliques, until the pool has `limit` items or stop() is true.
    template <class Stop> void add_cliques(int passes, int64_t limit, Pool &pool, Stop stop) {
        std::vector<int32_t> covered(graph_.edges(), 0);
        for (int pass = 0; pass < passes; pass++)
            for (const int32_t edge : rng_.permutation(graph_.edges())) {
                if (covered[edge] > pass) continue;
                if (stop() || pool.size() >= limit) return;
                grow(edge);
                if (clique_.size() >= least_size) add_with_parts(pool);
                edges_of(clique_, edges_);
                for (const int32_t e : edges_) covered[e]++;
            }
    }

  private:
    // Triangles pack K_4 as well as the clique itself does.
    static constexpr size_t least_size = 5;

    /// A node with the side on which it would have to be switched.
    struct Member {
        int32_t node;
        uint8_t switched;
    };

    bool bad(int32_t edge, uint8_t switched_a, uint8_t switched_b) const {
        return (graph_.negative[edge] != 0) == (switched_a == switched_b);
    }

    /// Fills clique_ with a maximal one; its first two nodes are the ends of the edge.
    void grow(int32_t edge) {
        const Member a{graph_.u[edge], 0},
            b{graph_.v[edge], static_cast<uint8_t>(graph_.negative[edge] ? 0 : 1)};
        clique_.assign({a.node, b.node});
        candidates_.clear();
        for (const auto &[node, e] : adjacency_.of(a.node))
            candidates_.push_back({node, static_cast<uint8_t>(graph_.negative[e] ? 0 : 1)});
        keep_compatible(candidates_, b, next_);
        std::swap(candidates_, next_);
        while (!candidates_.empty()) {
            const Member chosen = choose();
            clique_.push_back(chosen.node);
            std::swap(candidates_, best_);
        }
    }

    /// The one of a few random candidates that leaves most candidates; leaves these in best_.
    Member choose() {
        constexpr int tries = 8;
        Member chosen{-1, 0};
        best_.clear();
        const auto count = static_cast<int32_t>(candidates_.size());
        for (int k = 0; k < std::min(tries, count); k++) {
            const Member candidate = candidates_[rng_.below(count)];
            keep_compatible(candidates_, candidate, next_);
            if (chosen.node >= 0 && next_.size() <= best_.size()) continue;
            chosen = candidate;
            std::swap(best_, next_);
        }
        return chosen;
    }

    /// Those of `from` (by rising node) that close bad triangles with `member`.
    void keep_compatible(const std::vector<Member> &from, const Member &member,
                         std::vector<Member> &kept) const {
        kept.clear();
        const auto row = adjacency_.of(member.node);
        auto at = row.begin();
        const bool dense =
            static_cast<int64_t>(row.size()) < search_ratio * static_cast<int64_t>(from.size());
        for (const Member &other : from) {
            const auto before = [](const Neighbour &x, int32_t node) { return x.node < node; };
            if (dense)
                while (at != row.end() && at->node < other.node) ++at;
            else
                at = std::lower_bound(at, row.end(), other.node, before);
            if (at == row.end()) return;
            if (at->node == other.node && bad(at->edge, member.switched, other.switched))
                kept.push_back(other);
        }
    }

    /// The clique itself, an odd one, and random ones of 5, 9, 17, … nodes through its first edge.
    void add_with_parts(Pool &pool) {
        add(clique_, pool);
        if (clique_.size() % 2 == 0) {
            part_ = clique_;
            part_.erase(part_.begin() + 2 + rng_.below(static_cast<int32_t>(part_.size()) - 2));
            add(part_, pool);
        }
        for (size_t size = least_size; size < clique_.size(); size = 2 * size - 1)
            for (int copy = 0; copy < 2; copy++) {
                part_ = clique_;
                rng_.shuffle(std::span(part_).subspan(2));
                part_.resize(size);
                add(part_, pool);
            }
    }

    void add(std::span<const int32_t> nodes, Pool &pool) {
        if (!seen_.insert(fingerprint(nodes)).second) return;
        const auto size = static_cast<int32_t>(nodes.size());
        edges_of(nodes, edges_);
        pool.add(Kind::clique, (size - 1) * (size - 1) / 4, edges_);
    }

    void edges_of(std::span<const int32_t> nodes, std::vector<int32_t> &edges) const {
        edges.clear();
        for (size_t i = 0; i < nodes.size(); i++)
            for (size_t j = i + 1; j < nodes.size(); j++)
                edges.push_back(adjacency_.edge_between(nodes[i], nodes[j]));
    }

    /// Of the set of nodes, whatever their order; should two sets ever agree, one of them is left out.
    static uint64_t fingerprint(std::span<const int32_t> nodes) {
        uint64_t sum = 0;
        for (const int32_t node : nodes) sum += CounterRng(static_cast<uint64_t>(node)).next();
        return sum;
    }

    static constexpr int64_t search_ratio = 16;

    const Graph graph_;
    const Adjacency adjacency_;
    CounterRng rng_;
    std::vector<int32_t> clique_, part_, edges_;
    std::vector<Member> candidates_, best_, next_;
    std::unordered_set<uint64_t> seen_;
};

} // namespace icml::cclust
