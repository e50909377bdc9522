// Pricing of longer bad cycles: find those that the current prices leave uncovered, by short paths.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "../random.hpp"
#include "ascent.hpp"
#include "graph.hpp"
#include "monitor.hpp"
#include "path_search.hpp"
#include "pool.hpp"
#include "pricing.hpp"
#include "triangles.hpp"
#include "two_sides.hpp"

namespace icml::cclust {

/// Cuts the closed walk `path` + `closing` down to a simple bad cycle.
///
/// A walk with an odd number of negative edges splits at its repeated nodes into loops, one of which has an
/// odd number too; an edge walked twice is a loop of length two and drops out as an even one.
class LoopCutter {
  public:
    LoopCutter(const Graph &graph, CycleRule rule) : graph_(graph), rule_(rule), position_(graph.nodes, -1) {}

    std::span<const int32_t> simple_cycle(const EdgePath &path, int32_t closing) {
        walk_.assign(path.begin(), path.end());
        walk_.push_back(closing);
        nodes_.assign(1, graph_.u[closing]);
        position_[nodes_[0]] = 0;
        edges_.clear();
        cycle_.clear();
        for (const int32_t edge : walk_) {
            const int32_t node = graph_.u[edge] + graph_.v[edge] - nodes_.back();
            edges_.push_back(edge);
            if (position_[node] < 0) {
                position_[node] = static_cast<int32_t>(nodes_.size());
                nodes_.push_back(node);
            } else if (cut_loop(position_[node])) {
                break;
            }
        }
        for (const int32_t node : nodes_) position_[node] = -1;
        return cycle_;
    }

  private:
    /// Removes the loop that starts at a position of the walk; true if it is a bad cycle.
    bool cut_loop(int32_t start) {
        int negatives = 0;
        for (size_t k = start; k < edges_.size(); k++) negatives += graph_.negative[edges_[k]];
        if (is_bad(rule_, negatives)) {
            cycle_.assign(edges_.begin() + start, edges_.end());
            return true;
        }
        edges_.resize(start);
        for (size_t k = start + 1; k < nodes_.size(); k++) position_[nodes_[k]] = -1;
        nodes_.resize(start + 1);
        return false;
    }

    const Graph graph_;
    const CycleRule rule_;
    std::vector<int32_t> position_; // of a node on the walk, or -1
    EdgePath walk_;
    std::vector<int32_t> nodes_, edges_, cycle_;
};

class CyclePricer {
  public:
    CyclePricer(const Graph &graph, CycleRule rule, int32_t max_cycle, CounterRng rng)
        : graph_(graph), search_(graph, rule), cutter_(graph, rule), max_cycle_(max_cycle), rng_(rng),
          asleep_until_(graph.edges(), 0), nap_(graph.edges(), 1) {
        for (int32_t e = 0; e < graph.edges(); e++)
            if (graph.negative[e]) candidates_.push_back(e);
        if (rule == CycleRule::odd_negative) two_sides_ = std::make_unique<TwoSides>(graph);
        next_ = candidates_.size();
        choose_hops();
    }

    /// Adds cycles that the prices leave uncovered, a few through each candidate, raising the prices on each
    /// at once so that the next search takes another way. Ends after scanning about `work` arcs; the next
    /// round goes on from there.
    PricingRound round(int64_t work, int64_t limit, Pool &pool, Ascent &ascent, Monitor &monitor) {
        const bool new_pass = next_ == candidates_.size();
        if (new_pass) next_hop();
        search_.set_lengths([&](int32_t e) { return length(ascent.price(e)); });
        if (new_pass) start_pass();
        const int per_edge = pass_ == 1 ? 3 : 2;
        const int64_t last_arc = search_.scanned() + work;
        PricingRound result;
        for (; next_ < candidates_.size() && search_.scanned() < last_arc; next_++) {
            const int32_t edge = candidates_[next_];
            if (asleep_until_[edge] > pass_) {
                left_out_ = true;
                continue;
            }
            if (monitor.expired() || pool.size() >= limit) break;
            result.added += price_edge(edge, per_edge, pool, ascent);
        }
        added_in_pass_ += result.added;
        result.pass_ended = next_ == candidates_.size();
        if (result.pass_ended && added_in_pass_ == 0) {
            if (!left_out_ && hops_.empty() && hop_ > free_hop)
                hops_ = {free_hop};
            else
                result.exhausted = !left_out_ && hops_.empty();
            wake_all();
        }
        result.last_stage = hops_.empty();
        if (pool.size() >= limit) result = {result.added, true, true};
        return result;
    }

  private:
    static constexpr int32_t units = 256; // length of an edge with price 1
    static constexpr int32_t tolerance =
        3; // a cycle counts as uncovered when it lacks more than this many units
    static constexpr int32_t longest_nap = 16;
    static constexpr int32_t free_hop = 0; // the last stage: cycles of more edges than there are units

    /// Where cycles are long, as in random graphs, the first rounds count hops dearly: short cycles first.
    void choose_hops() {
        constexpr int samples = 64;
        constexpr double long_way = 5;
        search_.set_lengths([](int32_t) { return 1; });
        int64_t hops = 0, found = 0;
        for (int k = 0; k < samples && !candidates_.empty(); k++) {
            const int32_t edge = candidates_[rng_.below(static_cast<int32_t>(candidates_.size()))];
            const EdgePath path = search_.close_cycle(edge, units, 0);
            hops += static_cast<int64_t>(path.size());
            found += !path.empty();
        }
        if (static_cast<double>(hops) > long_way * static_cast<double>(found))
            hops_ = {2, 3, 4, 6, 10, 16, 24, 40, 56};
    }

    void start_pass() {
        pass_++;
        next_ = 0;
        added_in_pass_ = 0;
        left_out_ = false;
        if (two_sides_)
            candidates_ = two_sides_->unsatisfied([&](int32_t e) { return search_.length(e) - hop_; }, rng_);
        rng_.shuffle(std::span(candidates_));
    }

    /// Takes the next cost of a hop from the schedule; 1 when it has run out.
    void next_hop() {
        const int32_t hop = hops_.empty() ? std::min(hop_, 1) : hops_.back();
        if (!hops_.empty()) hops_.pop_back();
        if (hop != hop_) wake_all();
        hop_ = hop;
    }

    void wake_all() {
        std::fill(asleep_until_.begin(), asleep_until_.end(), 0);
        std::fill(nap_.begin(), nap_.end(), 1);
    }

    /// A longer path than the shortest will do; most when every hop counts.
    int32_t slack() const { return hop_ == 1 ? 6 : std::max(2, hop_ * 3 / 4); }

    int32_t length(double price) const { return hop_ + static_cast<int32_t>(units * std::min(1.0, price)); }

    int64_t price_edge(int32_t edge, int per_edge, Pool &pool, Ascent &ascent) {
        for (int found = 0; found < per_edge; found++) {
            const int32_t radius = units - tolerance - search_.length(edge) + 1;
            if (radius <= 2) return found;
            const EdgePath path = search_.close_cycle(edge, radius, slack());
            if (path.empty()) {
                asleep_until_[edge] = pass_ + nap_[edge];
                nap_[edge] = std::min(2 * nap_[edge], longest_nap);
                return found;
            }
            nap_[edge] = 1;
            const auto cycle = cutter_.simple_cycle(path, edge);
            if (cycle.empty() || static_cast<int32_t>(cycle.size()) > max_cycle_ ||
                ascent.price_sum(cycle) >= 1)
                return found;
            pool.add(Kind::cycle, 1, cycle);
            ascent.add_item();
            ascent.update(pool, pool.size() - 1);
            for (const int32_t e : cycle) search_.set_length(e, length(ascent.price(e)));
        }
        return per_edge;
    }

    const Graph graph_;
    PathSearch search_;
    LoopCutter cutter_;
    const int32_t max_cycle_;
    CounterRng rng_;
    std::unique_ptr<TwoSides> two_sides_;
    std::vector<int32_t> candidates_;
    std::vector<int32_t> asleep_until_, nap_; // by edge: the pass it sleeps to, and how long its next nap is
    std::vector<int32_t> hops_;               // schedule, last first
    size_t next_ = 0;                         // candidate
    int64_t added_in_pass_ = 0;
    bool left_out_ = false; // some candidate was asleep in this pass
    int32_t pass_ = 0, hop_ = 1;
};

} // namespace icml::cclust
