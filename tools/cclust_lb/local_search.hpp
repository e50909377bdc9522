// Queue-driven node moves for any number of clusters: what every heuristic but pivot is made of.
//
// A clustering's value is the weight of the arcs inside clusters, minus (complete graphs) the node pairs
// inside. With arc weights +-w (`cc`) or w + 1 (`cc-complete`) the cost is the total positive weight minus
// that value: maximising the value minimises the disagreements, and a move changes it by what the moved node
// sees.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "../random.hpp"
#include "arc_graph.hpp"
#include "budget.hpp"

namespace icml::cclust {

template <class Weight, bool Complete> class Partition {
  public:
    Partition(const ArcGraph<Weight> &graph, std::span<const std::int32_t> labels, double tolerance)
        : graph_(graph), tolerance_(tolerance), labels_(labels.begin(), labels.end()),
          clusters_(labels.size()), queue_(labels.size()), queued_(labels.size(), 0) {
        std::int64_t widest = 0;
        for (std::int32_t x = 0; x < n(); ++x) widest = std::max(widest, graph_.degree(x));
        touched_.resize(static_cast<std::size_t>(widest) + 1);
        count_clusters();
    }

    std::int32_t n() const { return graph_.n(); }
    const std::vector<std::int32_t> &labels() const { return labels_; }
    std::int32_t label(std::int32_t x) const { return labels_[x]; }

    void assign(std::span<const std::int32_t> labels) {
        std::copy(labels.begin(), labels.end(), labels_.begin());
        log_.clear();
        count_clusters();
    }

    void enqueue(std::int32_t x) {
        if (queued_[x]) return;
        queued_[x] = 1;
        queue_[tail_] = x;
        tail_ = tail_ + 1 == queue_.size() ? 0 : tail_ + 1;
        ++waiting_;
    }

    void enqueue_all(CounterRng &rng) {
        for (std::int32_t x : rng.permutation(n())) enqueue(x);
    }

    // Moves queued nodes to their best cluster until none wants to move; returns what the value gained.
    double settle(Budget &budget) {
        double gain = 0;
        while (waiting_ > 0) {
            const std::int32_t x = dequeue();
            gain += improve(x);
            if (budget.spend(graph_.degree(x) + 1)) clear_queue();
        }
        return gain;
    }

    // Moves x to `target` or, with `fresh`, to a cluster of its own, come what may; returns the change.
    static constexpr std::int32_t fresh = -1;
    double force(std::int32_t x, std::int32_t target) {
        const std::int32_t own = labels_[x];
        if (target == own || (target == fresh && clusters_[own].count == 1)) return 0;
        double to_own = 0, to_target = 0;
        for (const auto &arc : graph_.of(x)) {
            if (labels_[arc.to] == own)
                to_own += arc.weight;
            else if (labels_[arc.to] == target)
                to_target += arc.weight;
        }
        const double before = to_own - crowd(x, own, true);
        const double after = target == fresh ? 0 : to_target - crowd(x, target, false);
        place(x, target == fresh ? take_free_label() : target);
        return after - before;
    }

    // The undo log: what moved since the last `commit`.
    void commit() { log_.clear(); }
    void undo() {
        while (!log_.empty()) {
            const auto [x, label] = log_.back();
            log_.pop_back();
            relabel(x, label);
        }
    }

  private:
    struct Cluster {
        double pull = 0; // weight of the arcs from the node at hand; zero between moves
        double size = 0;
        std::int32_t count = 0;
        bool listed = false; // in free_labels_
    };

    void count_clusters() {
        std::fill(clusters_.begin(), clusters_.end(), Cluster{});
        free_labels_.clear();
        for (std::int32_t x = 0; x < n(); ++x) {
            clusters_[labels_[x]].size += graph_.size[x];
            ++clusters_[labels_[x]].count;
        }
        for (std::int32_t c = n() - 1; c >= 0; --c)
            if (clusters_[c].count == 0) list_free(c);
    }

    void list_free(std::int32_t c) {
        if (clusters_[c].listed) return;
        clusters_[c].listed = true;
        free_labels_.push_back(c);
    }

    // Labels may have been filled again by `undo` while they were listed.
    std::int32_t take_free_label() {
        for (;;) {
            assert(!free_labels_.empty());
            const std::int32_t c = free_labels_.back();
            free_labels_.pop_back();
            clusters_[c].listed = false;
            if (clusters_[c].count == 0) return c;
        }
    }

    std::int32_t dequeue() {
        const std::int32_t x = queue_[head_];
        head_ = head_ + 1 == queue_.size() ? 0 : head_ + 1;
        --waiting_;
        queued_[x] = 0;
        return x;
    }

    void clear_queue() {
        while (waiting_ > 0) dequeue();
    }

    // Missing-pair weight between x and cluster c, of which x is a member or not.
    double crowd(std::int32_t x, std::int32_t c, bool member) const {
        if constexpr (!Complete) return 0;
        const double size = graph_.size[x];
        return size * (clusters_[c].size - (member ? size : 0));
    }

    double improve(std::int32_t x) {
        const std::int32_t own = labels_[x];
        std::size_t touched = 0;
        for (const auto &arc : graph_.of(x)) { // hot: one random read of labels_ and clusters_ an arc
            const std::int32_t c = labels_[arc.to];
            touched_[touched] = c; // a pull back at zero lists its cluster twice, which is harmless
            touched += clusters_[c].pull == 0;
            clusters_[c].pull += arc.weight;
        }
        const double current = clusters_[own].pull - crowd(x, own, true);
        double best = current + tolerance_;
        std::int32_t target = own;
        if (clusters_[own].count > 1 && best < 0) {
            best = 0;
            target = fresh;
        }
        for (std::size_t i = 0; i < touched; ++i) {
            const std::int32_t c = touched_[i];
            const double value = clusters_[c].pull - crowd(x, c, false);
            if (value > best && c != own) {
                best = value;
                target = c;
            }
        }
        for (std::size_t i = 0; i < touched; ++i) clusters_[touched_[i]].pull = 0;
        if (target == own) return 0;
        place(x, target == fresh ? take_free_label() : target);
        wake_neighbours(x);
        return best - current;
    }

    void place(std::int32_t x, std::int32_t label) {
        log_.emplace_back(x, labels_[x]);
        relabel(x, label);
    }

    void relabel(std::int32_t x, std::int32_t label) {
        Cluster &from = clusters_[labels_[x]], &to = clusters_[label];
        from.size -= graph_.size[x];
        to.size += graph_.size[x];
        ++to.count;
        if (--from.count == 0) list_free(labels_[x]);
        labels_[x] = label;
    }

    // A neighbour that x has just joined, and likes, has no new reason to move.
    void wake_neighbours(std::int32_t x) {
        for (const auto &arc : graph_.of(x))
            if (arc.weight < 0 || labels_[arc.to] != labels_[x]) enqueue(arc.to);
    }

    const ArcGraph<Weight> &graph_;
    const double tolerance_; // what counts as no gain: 0 for whole-number weights, rounding noise otherwise
    std::vector<std::int32_t> labels_;
    std::vector<Cluster> clusters_;
    std::vector<std::int32_t> free_labels_, touched_;
    std::vector<std::pair<std::int32_t, std::int32_t>> log_; // (node, label it had)
    std::vector<std::int32_t> queue_;                        // ring buffer
    std::vector<char> queued_;
    std::size_t head_ = 0, tail_ = 0, waiting_ = 0;
};

// The value of a clustering, from scratch (see the top of this file).
template <class Weight>
double clustering_value(const ArcGraph<Weight> &graph, std::span<const std::int32_t> labels, bool complete) {
    double inside = 0, pairs = 0;
    std::vector<double> size(labels.size(), 0);
    for (std::int32_t x = 0; x < graph.n(); ++x) {
        pairs += graph.size[x] * size[labels[x]];
        size[labels[x]] += graph.size[x];
        for (const auto &arc : graph.of(x))
            if (arc.to < x && labels[arc.to] == labels[x]) inside += arc.weight;
    }
    return inside - (complete ? pairs : 0);
}

// Renames labels to 0..k-1 in order of first appearance; returns k. Labels must lie in 0..n-1.
inline std::int32_t compact_labels(std::span<std::int32_t> labels) {
    std::vector<std::int32_t> renamed(labels.size(), -1);
    std::int32_t k = 0;
    for (std::int32_t &label : labels) {
        if (renamed[label] < 0) renamed[label] = k++;
        label = renamed[label];
    }
    return k;
}

} // namespace icml::cclust
