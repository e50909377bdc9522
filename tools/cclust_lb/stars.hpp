// Wedges and stars, for graphs whose missing pairs are negative edges: a node v with t pairwise non-adjacent
// neighbours.
//
// Keeping j of the leaves with v costs t - j cut edges and C(j, 2) missing pairs inside, t - 1 at the least.
// There are too many to list; a first choice at random is followed by rounds of pricing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "../random.hpp"
#include "ascent.hpp"
#include "graph.hpp"
#include "monitor.hpp"
#include "pairs.hpp"
#include "pool.hpp"
#include "pricing.hpp"

namespace icml::cclust {

class StarPricer {
  public:
    struct Leaves {
        int32_t least, most;
    };

    StarPricer(const Graph &graph, Leaves leaves, CounterRng rng)
        : graph_(graph), adjacency_(graph), leaves_(leaves), rng_(rng) {}

    std::span<const NodePair> pairs() const { return pairs_.pairs(); }

    /// A first choice, in random order: disjoint stars around each node, and (if allowed) wedges of close
    /// leaves.
    template <class Stop> void add_first(int64_t limit, Pool &pool, Stop stop) {
        const auto free = [](const Leaf &, std::span<const Leaf>) { return 0.0; };
        for (int32_t centre = 0; centre < graph_.nodes && !stop(); centre++) {
            if (pool.size() >= limit) return;
            load(centre, [](int32_t) { return 0.0; });
            for (int copy = 0; copy < 2; copy++) {
                rng_.shuffle(std::span(row_));
                if (copy == 0 && leaves_.least == 2 && leaves_.most > 2) add_wedges(pool);
                pack_row(free, [&] { emit(pool); });
            }
        }
    }

    /// Adds stars that the prices leave uncovered, raising the prices on each at once.
    PricingRound round(int64_t limit, Pool &pool, Ascent &ascent, Monitor &monitor) {
        const int64_t before = pool.size();
        const auto price_of_leaf = [&](const Leaf &leaf, std::span<const Leaf> others) {
            double sum = leaf.price;
            for (const Leaf &other : others) sum += pair_price(leaf.node, other.node, ascent);
            return sum;
        };
        for (const int32_t centre : rng_.permutation(graph_.nodes)) {
            if (monitor.expired() || pool.size() >= limit) break;
            load(centre, [&](int32_t edge) { return ascent.price(edge); });
            std::erase_if(row_, [](const Leaf &leaf) { return leaf.price > dear; });
            for (Leaf &leaf : row_) leaf.price += jitter * rng_.unit();
            std::sort(row_.begin(), row_.end(),
                      [](const Leaf &a, const Leaf &b) { return a.price < b.price; });
            pack_row(price_of_leaf, [&] {
                emit(pool);
                while (ascent.elements() < graph_.edges() + pairs_.size()) ascent.add_element(1.0);
                ascent.add_item();
                ascent.update(pool, pool.size() - 1);
            });
        }
        const int64_t added = pool.size() - before;
        return {added, true, added == 0};
    }

  private:
    /// A leaf worth more than this adds less than it costs; a star must lack this much to count as uncovered.
    static constexpr double dear = 0.98, tolerance = 0.02;
    static constexpr double jitter = 1e-3; // breaks ties differently in every round
    static constexpr int most_tries = 40;  // leaves that are looked at for one star

    struct Leaf {
        int32_t node, edge;
        double price;
        bool used;
    };

    template <class Price> void load(int32_t centre, Price price) {
        row_.clear();
        for (const auto &[node, edge] : adjacency_.of(centre))
            row_.push_back({node, edge, price(edge), false});
    }

    double pair_price(int32_t a, int32_t b, const Ascent &ascent) const {
        const int32_t pair = pairs_.find(a, b);
        return pair < 0 ? 0.0 : ascent.price(graph_.edges() + pair);
    }

    /// Greedy stars with disjoint leaves from the row's order; `price(leaf, others)` is what a leaf adds to a
    /// star.
    template <class Price, class Found> void pack_row(Price price, Found found) {
        for (Leaf &leaf : row_) leaf.used = false;
        for (size_t first = 0; first + 1 < row_.size(); first++) {
            if (row_[first].used) continue;
            const double sum = gather(first, price);
            const auto size = static_cast<int32_t>(star_.size());
            if (size >= leaves_.least && sum < size - 1 - tolerance) found();
        }
    }

    /// Collects a star's leaves from position `first` on; returns the sum of its prices.
    template <class Price> double gather(size_t first, Price price) {
        star_.assign(1, row_[first]);
        double sum = row_[first].price;
        int tries = 0;
        for (size_t k = first + 1; k < row_.size() && tries < most_tries; k++) {
            if (static_cast<int32_t>(star_.size()) == leaves_.most) break;
            if (row_[k].used) continue;
            tries++;
            if (adjacent_to_star(row_[k].node)) continue;
            // The first two leaves must lack something together, each further one by itself.
            const double added = price(row_[k], star_);
            if (added + (star_.size() == 1 ? sum : 0.0) > dear) continue;
            sum += added;
            star_.push_back(row_[k]);
            row_[k].used = true;
        }
        return sum;
    }

    bool adjacent_to_star(int32_t node) const {
        return std::any_of(star_.begin(), star_.end(),
                           [&](const Leaf &leaf) { return adjacency_.edge_between(leaf.node, node) >= 0; });
    }

    /// Each neighbour with the next few of the row's order.
    void add_wedges(Pool &pool) {
        constexpr size_t partners = 4;
        for (size_t i = 0; i < row_.size(); i++)
            for (size_t j = i + 1; j < row_.size() && j <= i + partners; j++) {
                if (adjacency_.edge_between(row_[i].node, row_[j].node) >= 0) continue;
                star_.assign({row_[i], row_[j]});
                emit(pool);
            }
    }

    /// Adds the collected star to the pool.
    void emit(Pool &pool) {
        elements_.clear();
        for (const Leaf &leaf : star_) elements_.push_back(leaf.edge);
        for (size_t i = 0; i < star_.size(); i++)
            for (size_t j = i + 1; j < star_.size(); j++)
                elements_.push_back(graph_.edges() + pairs_.insert(star_[i].node, star_[j].node));
        pool.add(Kind::star, static_cast<int32_t>(star_.size()) - 1, elements_);
    }

    const Graph graph_;
    const Adjacency adjacency_;
    const Leaves leaves_;
    CounterRng rng_;
    PairTable pairs_;
    std::vector<Leaf> row_, star_;
    std::vector<int32_t> elements_;
};

} // namespace icml::cclust
