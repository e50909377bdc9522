// The heuristics by name: which moves, from which start, and how often.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "../random.hpp"
#include "annealing.hpp"
#include "arc_graph.hpp"
#include "budget.hpp"
#include "iterated_search.hpp"
#include "local_search.hpp"
#include "multilevel.hpp"
#include "pivot.hpp"

namespace icml::cclust {

enum class Heuristic { pivot, local, louvain, ils };

struct SearchOptions {
    Heuristic heuristic = Heuristic::ils;
    std::uint64_t seed = 0;
    int streams = 1; // independent searches, of which the best (then the first) counts
    Limits limits;
};

struct Found {
    std::vector<std::int32_t> labels;
    double cost = 0; // as the search kept it, move by move
    std::int64_t steps = 0;
};

// Below this gain a move is rounding noise; sums of whole numbers up to 2^53 have none.
inline double noise_level(std::span<const double> weight) {
    double total = 0;
    bool whole = true;
    for (double w : weight) {
        total += w;
        whole = whole && w == std::floor(w);
    }
    return whole && total < 0x1p52 ? 0 : 1e-12 * total;
}

// Whether all weights, and sums of up to `terms` of them, are exact in single precision.
inline bool fits_float(std::span<const double> weight, double terms) {
    for (double w : weight)
        if (w != std::floor(w) || (w + 1) * terms > 0x1p24) return false;
    return true;
}

// Runs search(stream, budget) for all streams, the first on the calling thread: only that one polls. An
// exception in any of them stops all, and is thrown once all have ended.
template <class Search>
std::int64_t run_streams(const SearchOptions &options, const Budget &spent, Search search) {
    std::atomic<bool> stop{spent.stopped()};
    Limits quiet = options.limits;
    quiet.poll = nullptr;
    std::vector<std::exception_ptr> failures(static_cast<std::size_t>(options.streams));
    std::int64_t steps = 0;
    const auto run = [&](int stream) noexcept {
        try {
            Budget budget(stream == 0 ? options.limits : quiet, stop, spent.start());
            search(stream, budget);
            if (stream == 0) steps = budget.steps();
        } catch (...) {
            failures[stream] = std::current_exception();
            stop = true;
        }
    };
    {
        std::vector<std::jthread> others; // joined at the end of the block
        try {
            for (int i = 1; i < options.streams; ++i) others.emplace_back(run, i);
        } catch (...) { // no more threads or memory
            failures[0] = std::current_exception();
            stop = true;
        }
        if (!failures[0]) run(0);
    }
    for (const std::exception_ptr &failure : failures)
        if (failure) std::rethrow_exception(failure);
    return steps;
}

// Clusters that positive arcs do not connect fall apart, which never costs anything; returns the gain.
template <class Weight>
double split_unconnected(const ArcGraph<Weight> &graph, std::vector<std::int32_t> &labels, bool complete) {
    std::vector<std::int32_t> part(labels.size(), -1), stack;
    for (std::int32_t root = 0; root < graph.n(); ++root) {
        if (part[root] >= 0) continue;
        part[root] = root;
        stack.assign(1, root);
        while (!stack.empty()) {
            const std::int32_t x = stack.back();
            stack.pop_back();
            for (const auto &arc : graph.of(x))
                if (arc.weight > 0 && part[arc.to] < 0 && labels[arc.to] == labels[x]) {
                    part[arc.to] = root;
                    stack.push_back(arc.to);
                }
        }
    }
    const double before = clustering_value(graph, std::span<const std::int32_t>(labels), complete);
    labels = std::move(part);
    return clustering_value(graph, std::span<const std::int32_t>(labels), complete) - before;
}

// Any number of clusters: `cc`, and `cc-complete` with Complete.
template <class Weight, bool Complete> class FreeSearch {
  public:
    FreeSearch(const Graph &edges, const SearchOptions &options)
        : options_(options), tolerance_(noise_level(edges.weight)), stop_(false),
          budget_(options.limits, stop_), rng_(options.seed, 0) {
        graph_ = make_arc_graph<Weight>(edges, [&](std::size_t e) {
            return Complete ? edges.weight[e] + 1 : edges.negative[e] ? -edges.weight[e] : edges.weight[e];
        });
        for (std::size_t e = 0; e < edges.u.size(); ++e)
            if (Complete || !edges.negative[e]) base_ += edges.weight[e];
    }

    // `start` is empty or holds labels in 0..n-1; the result is never worse.
    Found run(std::span<const std::int32_t> start) {
        set_start(start);
        const bool given = !start.empty();
        switch (options_.heuristic) {
        case Heuristic::pivot:
            if (!given && !budget_.stopped()) value_ = -std::numeric_limits<double>::infinity();
            best_pivot(graph_, labels_, value_, base_, Complete, rng_, budget_);
            break;
        case Heuristic::local:
            move_nodes();
            break;
        case Heuristic::louvain:
            offer_multilevel(labels_);
            if (!given) offer_multilevel(one_cluster());
            break;
        case Heuristic::ils:
            offer_multilevel(labels_);
            if (given) offer_multilevel(singletons());
            offer_multilevel(one_cluster());
            iterate();
            break;
        }
        value_ += split_unconnected(graph_, labels_, Complete);
        compact_labels(labels_);
        return {std::move(labels_), base_ - value_, steps_ + budget_.steps()};
    }

  private:
    std::vector<std::int32_t> singletons() const {
        std::vector<std::int32_t> labels(static_cast<std::size_t>(graph_.n()));
        std::iota(labels.begin(), labels.end(), 0);
        return labels;
    }

    std::vector<std::int32_t> one_cluster() const {
        return std::vector<std::int32_t>(static_cast<std::size_t>(graph_.n()), 0);
    }

    double value_of(const std::vector<std::int32_t> &labels) const {
        return clustering_value(graph_, std::span<const std::int32_t>(labels), Complete);
    }

    void set_start(std::span<const std::int32_t> start) {
        labels_ = start.empty() ? singletons() : std::vector<std::int32_t>(start.begin(), start.end());
        value_ = value_of(labels_);
        budget_.record(base_ - value_);
    }

    void move_nodes() {
        Partition<Weight, Complete> partition(graph_, labels_, tolerance_);
        partition.enqueue_all(rng_);
        value_ += partition.settle(budget_);
        labels_ = partition.labels();
    }

    void offer_multilevel(std::vector<std::int32_t> labels) {
        if (budget_.stopped()) return;
        double value = value_of(labels);
        value += multilevel<Complete>(graph_, labels, tolerance_, rng_, budget_);
        if (value > value_) {
            value_ = value;
            labels_ = std::move(labels);
        }
        budget_.record(base_ - value_);
    }

    void iterate() {
        std::vector<std::unique_ptr<IteratedSearch<Weight, Complete>>> searches;
        for (int i = 0; i < options_.streams; ++i)
            searches.push_back(std::make_unique<IteratedSearch<Weight, Complete>>(
                graph_, labels_, value_, base_, tolerance_, CounterRng(options_.seed, 1 + i)));
        steps_ = run_streams(options_, budget_, [&](int i, Budget &budget) { searches[i]->run(budget); });
        for (const auto &search : searches)
            if (base_ - search->cost() > value_) {
                value_ = base_ - search->cost();
                labels_ = search->labels();
            }
    }

    const SearchOptions &options_;
    const double tolerance_;
    std::atomic<bool> stop_;
    Budget budget_;
    CounterRng rng_;
    ArcGraph<Weight> graph_;
    double base_ = 0, value_ = 0; // cost = base - value
    std::vector<std::int32_t> labels_;
    std::int64_t steps_ = 0;
};

// At most two clusters: `frustration`, and `maxcut` with all edges negative. `start` is empty or holds 0s and
// 1s.
template <class Weight>
Found search_two_sides(const Graph &edges, const SearchOptions &options,
                       std::span<const std::int32_t> start) {
    const auto graph = make_arc_graph<Weight>(
        edges, [&](std::size_t e) { return edges.negative[e] ? -edges.weight[e] : edges.weight[e]; });
    std::vector<std::int8_t> sides(start.size());
    for (std::size_t x = 0; x < start.size(); ++x) sides[x] = start[x] == 0 ? 1 : -1;
    std::atomic<bool> stop{false};
    const Budget begun(options.limits, stop);
    std::vector<std::unique_ptr<AnnealingSearch<Weight>>> searches;
    for (int i = 0; i < options.streams; ++i) {
        const CounterRng rng(options.seed, 1 + i);
        searches.push_back(std::make_unique<AnnealingSearch<Weight>>(graph, noise_level(edges.weight), rng));
    }
    const std::int64_t steps = run_streams(options, begun, [&](int i, Budget &budget) {
        if (!sides.empty()) searches[i]->start_from(sides);
        searches[i]->polish(budget);
        if (options.heuristic == Heuristic::louvain) searches[i]->run_once(budget);
        if (options.heuristic == Heuristic::ils) searches[i]->run(budget);
    });
    const AnnealingSearch<Weight> *best = searches[0].get();
    for (const auto &search : searches)
        if (search->cost() < best->cost()) best = search.get();
    Found found{std::vector<std::int32_t>(graph.size.size()), best->cost(), steps};
    const std::vector<std::int8_t> reached = best->sides();
    for (std::size_t x = 0; x < reached.size(); ++x) found.labels[x] = reached[x] < 0;
    compact_labels(found.labels);
    return found;
}

inline Found search(const Graph &edges, bool two_clusters, bool complete, const SearchOptions &options,
                    std::span<const std::int32_t> start) {
    // Every node's gain is kept up to date by flips, whereas pulls are summed in double precision.
    const bool narrow =
        fits_float(edges.weight, two_clusters ? 2.0 * std::min<double>(edges.nodes, edges.u.size()) : 1.0);
    if (two_clusters)
        return narrow ? search_two_sides<float>(edges, options, start)
                      : search_two_sides<double>(edges, options, start);
    if (complete)
        return narrow ? FreeSearch<float, true>(edges, options).run(start)
                      : FreeSearch<double, true>(edges, options).run(start);
    return narrow ? FreeSearch<float, false>(edges, options).run(start)
                  : FreeSearch<double, false>(edges, options).run(start);
}

} // namespace icml::cclust
