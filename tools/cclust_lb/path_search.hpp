// Short paths of a given parity between two nodes: bidirectional Dijkstra over small integer lengths in
// buckets.
//
// A state is (node, parity): parity counts the negative edges used so far, modulo 2 or, where a cycle may
// have only one negative edge, at most one. State numbers are node + parity * nodes, so that searches over
// positive edges alone stay within the first half. Lengths sit beside the neighbour, both directions'
// distances in one record: a scanned arc costs two cache lines.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "graph.hpp"
#include "triangles.hpp"

namespace icml::cclust {

/// A path as edge numbers; empty when none was found.
using EdgePath = std::vector<int32_t>;

class PathSearch {
  public:
    /// Lengths and radii are below this.
    static constexpr int32_t max_length = 512;
    static constexpr int32_t barred = 1 << 20;

    PathSearch(const Graph &graph, CycleRule rule)
        : graph_(graph), rule_(rule), first_(graph.nodes + 1, 0), middle_(graph.nodes, 0),
          arcs_(2 * graph.u.size()), edge_of_arc_(arcs_.size()), arcs_of_edge_(graph.u.size()),
          state_(2 * static_cast<size_t>(graph.nodes)) {
        std::vector<int64_t> positives(graph.nodes, 0);
        for (int32_t e = 0; e < graph.edges(); e++)
            for (const int32_t a : {graph.u[e], graph.v[e]}) {
                first_[a + 1]++;
                positives[a] += !graph.negative[e];
            }
        std::partial_sum(first_.begin(), first_.end(), first_.begin());
        for (int32_t a = 0; a < graph.nodes; a++) middle_[a] = first_[a] + positives[a];
        std::vector<int64_t> next_positive(first_.begin(), first_.end() - 1), next_negative(middle_);
        for (int32_t e = 0; e < graph.edges(); e++)
            for (const int side : {0, 1}) {
                const int32_t from = side == 0 ? graph.u[e] : graph.v[e],
                              to = side == 0 ? graph.v[e] : graph.u[e];
                const int64_t arc = (graph.negative[e] ? next_negative : next_positive)[from]++;
                arcs_[arc] = {to, 0};
                edge_of_arc_[arc] = e;
                arcs_of_edge_[e][side] = arc;
            }
    }

    /// Sets the length of every edge.
    template <class Length> void set_lengths(Length length) {
        for (size_t arc = 0; arc < arcs_.size(); arc++) arcs_[arc].length = length(edge_of_arc_[arc]);
    }

    int32_t length(int32_t edge) const { return arcs_[arcs_of_edge_[edge][0]].length; }
    void set_length(int32_t edge, int32_t length) {
        for (const int64_t arc : arcs_of_edge_[edge]) arcs_[arc].length = length;
    }

    /// A path shorter than `radius` that closes a bad cycle with `edge`, from u to v, not using the edge.
    ///
    /// It stops at the first path that is at most `slack` longer than what both searches have ruled out; the
    /// path may visit a node twice. An empty result means that no such path exists.
    EdgePath close_cycle(int32_t edge, int32_t radius, int32_t slack) {
        const bool negative = graph_.negative[edge];
        layered_ = rule_ == CycleRule::odd_negative || !negative;
        const int32_t source = graph_.u[edge], target = graph_.v[edge] + (negative ? 0 : graph_.nodes);
        const int32_t saved = length(edge);
        set_length(edge, barred);
        const int32_t meeting = search(source, target, radius, slack);
        set_length(edge, saved);
        EdgePath path;
        if (meeting >= 0) {
            follow(meeting, forward, path);
            std::reverse(path.begin(), path.end());
            follow(meeting, backward, path);
        }
        clear();
        return path;
    }

    /// Arcs scanned so far, over all searches.
    int64_t scanned() const { return scanned_; }

  private:
    static constexpr int32_t unseen = 1 << 29;
    static constexpr int forward = 0, backward = 1;

    struct SearchArc {
        int32_t node;
        int32_t length;
    };
    struct State {
        std::array<int32_t, 2> distance{unseen, unseen};
        std::array<uint32_t, 2> edge{no_edge, no_edge}; // by which it was reached
    };
    static constexpr uint32_t no_edge = ~uint32_t{0};

    /// Buckets of states by distance, with a bit set of those that may hold any.
    struct Frontier {
        std::array<std::vector<int32_t>, max_length> bucket;
        std::array<uint64_t, max_length / 64> occupied{};
        int32_t at = 0; // no state below this distance is left
        int64_t work = 0;

        void push(int32_t distance, int32_t state) {
            bucket[distance].push_back(state);
            occupied[distance / 64] |= uint64_t{1} << (distance % 64);
        }
        /// Moves `at` to the next bucket that is not empty, or to `limit`.
        void advance(int32_t limit) {
            while (at < limit) {
                const uint64_t here = occupied[at / 64] >> (at % 64);
                if (here == 0) {
                    at = (at / 64 + 1) * 64;
                } else {
                    at += std::countr_zero(here);
                    if (at < limit && !bucket[at].empty()) return;
                    if (at < limit) occupied[at / 64] &= ~(uint64_t{1} << (at % 64));
                }
            }
            at = limit;
        }
        void reset() {
            for (size_t word = 0; word < occupied.size(); word++)
                for (uint64_t bits = std::exchange(occupied[word], 0); bits; bits &= bits - 1)
                    bucket[word * 64 + std::countr_zero(bits)].clear();
            at = 0;
            work = 0;
        }
    };

    /// The state where the two halves meet, or -1.
    int32_t search(int32_t source, int32_t target, int32_t radius, int32_t slack) {
        assert(radius < max_length);
        best_ = radius;
        meeting_ = -1;
        slack_ = slack;
        start(forward, source);
        start(backward, target);
        while (true) {
            for (Frontier &side : frontier_) {
                side.advance(best_);
                if (side.at < best_) prefer_small(side.bucket[side.at]);
            }
            if (closed()) return meeting_;
            expand(cost(forward) <= cost(backward) ? forward : backward);
        }
    }

    /// The work of one side once its next state is expanded; hubs wait until the other side has done as much.
    int64_t cost(int side) const {
        const Frontier &frontier = frontier_[side];
        if (frontier.at >= best_) return std::numeric_limits<int64_t>::max();
        const int32_t state = frontier.bucket[frontier.at].back();
        return frontier.work + degree(state);
    }

    int64_t degree(int32_t state) const {
        const int32_t node = state >= graph_.nodes ? state - graph_.nodes : state;
        return (layered_ ? first_[node + 1] : middle_[node]) - first_[node];
    }

    /// Moves the state of least degree among the last few to the end: a meeting found before the hubs is
    /// cheap.
    void prefer_small(std::vector<int32_t> &bucket) const {
        constexpr size_t few = 16;
        size_t best = bucket.size() - 1;
        for (size_t k = bucket.size() - std::min(bucket.size(), few); k + 1 < bucket.size(); k++)
            if (degree(bucket[k]) < degree(bucket[best])) best = k;
        std::swap(bucket[best], bucket.back());
    }

    bool closed() const {
        return best_ <= frontier_[forward].at + frontier_[backward].at + (meeting_ >= 0 ? slack_ : 0);
    }

    void start(int side, int32_t state) {
        touched_.push_back(state);
        state_[state].distance[side] = 0;
        state_[state].edge[side] = no_edge;
        frontier_[side].push(0, state);
    }

    void expand(int side) {
        Frontier &frontier = frontier_[side];
        const int32_t distance = frontier.at;
        const int32_t state = frontier.bucket[distance].back();
        frontier.bucket[distance].pop_back();
        if (state_[state].distance[side] < distance) return;
        const int32_t nodes = graph_.nodes;
        const bool odd = state >= nodes;
        const int32_t node = odd ? state - nodes : state;
        const int64_t first = first_[node], middle = middle_[node], last = first_[node + 1];
        frontier.work += middle - first + 8;
        if (scan(side, first, middle, odd ? nodes : 0, distance)) return;
        // Where one negative edge is all a cycle may have, the forward side goes from parity 0 to 1, the
        // other back.
        const bool may_flip = layered_ && (rule_ == CycleRule::odd_negative || odd == (side == backward));
        if (!may_flip) return;
        frontier.work += last - middle;
        scan(side, middle, last, odd ? 0 : nodes, distance);
    }

    /// Relaxes the arcs first..last-1, whose heads have the parity of `offset`. True when the search is over.
    bool scan(int side, int64_t first, int64_t last, int32_t offset, int32_t distance) {
        const int32_t opposite = frontier_[1 - side].at;
        scanned_ += last - first;
        for (int64_t arc = first; arc < last; arc++) {
            const int32_t reached = distance + arcs_[arc].length;
            if (reached >= best_) continue;
            const int32_t head = arcs_[arc].node + offset;
            State &state = state_[head];
            if (reached >= state.distance[side]) continue;
            const int32_t rest = state.distance[1 - side];
            if (state.distance[side] == unseen && rest == unseen) touched_.push_back(head);
            state.distance[side] = reached;
            state.edge[side] = static_cast<uint32_t>(edge_of_arc_[arc]);
            if (reached + rest < best_) {
                best_ = reached + rest;
                meeting_ = head;
                if (closed()) return true;
            }
            if (reached + opposite < best_) frontier_[side].push(reached, head);
        }
        return false;
    }

    /// Appends the edges from `state` back to the start of one side.
    void follow(int32_t state, int side, EdgePath &path) const {
        for (uint32_t edge = state_[state].edge[side]; edge != no_edge; edge = state_[state].edge[side]) {
            path.push_back(static_cast<int32_t>(edge));
            const bool odd = state >= graph_.nodes;
            const int32_t node = graph_.u[edge] + graph_.v[edge] - (odd ? state - graph_.nodes : state);
            state = node + (odd != static_cast<bool>(graph_.negative[edge]) ? graph_.nodes : 0);
        }
    }

    void clear() {
        for (const int32_t state : touched_) state_[state] = State{};
        touched_.clear();
        for (Frontier &side : frontier_) side.reset();
    }

    const Graph graph_;
    const CycleRule rule_;
    std::vector<int64_t> first_,
        middle_; // arcs of a node: positive ones from first_, negative ones from middle_
    std::vector<SearchArc> arcs_;
    std::vector<int32_t> edge_of_arc_;
    std::vector<std::array<int64_t, 2>> arcs_of_edge_;
    std::vector<State> state_;
    std::vector<int32_t> touched_;
    std::array<Frontier, 2> frontier_;
    bool layered_ = false;
    int32_t best_ = 0, slack_ = 0, meeting_ = -1;
    int64_t scanned_ = 0;
};

} // namespace icml::cclust
