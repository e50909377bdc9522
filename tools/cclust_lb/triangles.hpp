// All bad triangles, in O(m * degeneracy) time, by marking the higher neighbours of each node in degree
// order.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "../random.hpp"
#include "graph.hpp"
#include "pool.hpp"

namespace icml::cclust {

/// Which cycles are obstructions: one lone negative edge (cc), or an odd number of them (two clusters).
enum class CycleRule { one_negative, odd_negative };

inline bool is_bad(CycleRule rule, int negatives) {
    return rule == CycleRule::one_negative ? negatives == 1 : negatives % 2 == 1;
}

/// Calls found(e, f, g) with the edges of each bad triangle until stop() is true, which it asks once a node.
template <class Found, class Stop>
void for_each_bad_triangle(const DegreeOrdered &ordered, CycleRule rule, Found found, Stop stop) {
    const Graph graph = ordered.graph();
    const auto first = ordered.first();
    const auto is_negative = graph.negative;
    std::vector<int32_t> edge_to(graph.nodes, -1);
    for (int32_t a = 0; a < graph.nodes && !stop(); a++) {
        if (first[a + 1] - first[a] < 2) continue;
        for (int64_t e = first[a]; e < first[a + 1]; e++) edge_to[graph.v[e]] = static_cast<int32_t>(e);
        for (int64_t e = first[a]; e < first[a + 1]; e++) {
            const int32_t b = graph.v[e];
            for (int64_t f = first[b]; f < first[b + 1]; f++) {
                const int32_t g = edge_to[graph.v[f]];
                if (g >= 0 && is_bad(rule, is_negative[e] + is_negative[f] + is_negative[g]))
                    found(static_cast<int32_t>(e), g, static_cast<int32_t>(f));
            }
        }
        for (int64_t e = first[a]; e < first[a + 1]; e++) edge_to[graph.v[e]] = -1;
    }
}

/// Adds the bad triangles; when there are more than `limit`, a uniform sample of between limit/2 and limit of
/// them.
template <class Stop>
void add_triangles(const DegreeOrdered &ordered, CycleRule rule, int64_t limit, CounterRng rng, Pool &pool,
                   Stop stop) {
    const int64_t before = pool.size();
    int halvings = 0; // a triangle is kept with probability 2^-halvings
    const auto chosen = [&](int times) {
        return times == 0 || (rng.next() & ((uint64_t{1} << times) - 1)) == 0;
    };
    for_each_bad_triangle(
        ordered, rule,
        [&](int32_t e, int32_t f, int32_t g) {
            if (!chosen(halvings)) return;
            while (pool.size() - before >= limit) {
                pool.retain([&](int64_t item) { return item < before || chosen(1); });
                halvings++;
                if (!chosen(1)) return;
            }
            pool.add(Kind::cycle, 1, std::array{e, f, g});
        },
        stop);
}

} // namespace icml::cclust
