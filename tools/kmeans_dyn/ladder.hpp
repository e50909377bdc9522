// The usual way to k-center with outliers under insertions and deletions, for comparison: one clustering for
// every radius guess (T-H. H. Chan, A. Guerquin, M. Sozio: Fully Dynamic k-Center Clustering, 2018; k + z + 1
// centres a guess, as for outliers).
//
// Guesses grow geometrically from the smallest to the largest distance there may be. At each a new point
// joins the first centre within twice the guess, or becomes a centre while there are at most k + z, or stays
// aside. When a centre leaves, its points and those that stayed aside come again, in random order, so that a
// centre is a random one of its points.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "../random.hpp"
#include "distance.hpp"

namespace icml::kcenter {

class RadiusLadder {
  public:
    RadiusLadder(int dimension, int k, std::int64_t z, double eps, double smallest, double largest)
        : space_{Metric::euclidean, dimension}, scans_(scans("auto")) {
        for (double r = smallest; r <= largest; r *= 1 + eps)
            guesses_.emplace_back(space_, k + z + 1, 4 * r * r);
    }

    int guesses() const { return static_cast<int>(guesses_.size()); }
    std::int64_t distances() const { return distances_; }

    // Slots are numbers from 0 on that the caller hands out, and may use again.
    void insert(std::int32_t slot, const double *x) {
        const auto width = static_cast<std::size_t>(space_.width);
        if (words_.size() < (slot + 1) * width) words_.resize((slot + 1) * width);
        std::copy_n(x, width, &words_[slot * width]);
        for (Guess &guess : guesses_) {
            if (guess.owner.size() <= static_cast<std::size_t>(slot)) {
                guess.owner.resize(slot + 1, aside);
                guess.position.resize(slot + 1);
            }
            place(guess, slot);
        }
    }

    void erase(std::int32_t slot) {
        for (Guess &guess : guesses_) {
            const std::int32_t owner = guess.owner[slot];
            leave(guess, slot);
            if (owner != aside && guess.center[owner] == slot) replace(guess, owner);
        }
    }

    // Chooses all centres anew, at random, as if deletions had gone on for long.
    void recluster(std::int32_t slots) {
        for (Guess &guess : guesses_) {
            std::vector<std::int32_t> all(slots);
            for (std::int32_t slot = 0; slot < slots; ++slot) all[slot] = slot;
            Guess fresh(space_, guess.capacity, guess.limit);
            fresh.owner.resize(slots);
            fresh.position.resize(slots);
            guess = std::move(fresh);
            place_all(guess, all);
        }
    }

  private:
    static constexpr std::int32_t aside = -1;

    struct Guess {
        Guess(const Space &space, std::int64_t capacity, double limit)
            : limit(limit), capacity(capacity), centers(space) {}

        double limit; // raw
        std::int64_t capacity;
        Blocks centers;
        std::vector<std::int32_t> center;               // their slots
        std::vector<std::vector<std::int32_t>> members; // of each centre, itself included
        std::vector<std::int32_t> unclustered;
        std::vector<std::int32_t> owner, position; // by slot

        std::vector<std::int32_t> &list(std::int32_t of) { return of == aside ? unclustered : members[of]; }
    };

    void place(Guess &guess, std::int32_t slot) {
        const double *x = &words_[static_cast<std::size_t>(slot) * space_.width];
        const Hit hit = scans_.first_within(space_, x, guess.centers.view(), guess.limit);
        distances_ += hit.index >= 0 ? hit.index + 1 : guess.centers.size();
        std::int32_t owner = hit.index;
        if (owner < 0 && guess.centers.size() < guess.capacity) {
            owner = guess.centers.size();
            guess.centers.push(x);
            guess.center.push_back(slot);
            guess.members.emplace_back();
        }
        guess.owner[slot] = owner;
        guess.position[slot] = static_cast<std::int32_t>(guess.list(owner).size());
        guess.list(owner).push_back(slot);
    }

    void leave(Guess &guess, std::int32_t slot) {
        std::vector<std::int32_t> &list = guess.list(guess.owner[slot]);
        guess.position[list.back()] = guess.position[slot];
        list[guess.position[slot]] = list.back();
        list.pop_back();
    }

    void replace(Guess &guess, std::int32_t gone) {
        std::vector<std::int32_t> again = std::move(guess.members[gone]);
        again.insert(again.end(), guess.unclustered.begin(), guess.unclustered.end());
        guess.unclustered.clear();
        const std::int32_t last = guess.centers.size() - 1;
        if (gone != last) {
            guess.centers.set(gone, &words_[static_cast<std::size_t>(guess.center[last]) * space_.width]);
            guess.center[gone] = guess.center[last];
            guess.members[gone] = std::move(guess.members[last]);
            for (const std::int32_t slot : guess.members[gone]) guess.owner[slot] = gone;
        }
        guess.centers.pop();
        guess.center.pop_back();
        guess.members.pop_back();
        place_all(guess, again);
    }

    void place_all(Guess &guess, std::vector<std::int32_t> &slots) {
        rng_.shuffle(std::span<std::int32_t>(slots));
        for (const std::int32_t slot : slots) place(guess, slot);
    }

    Space space_;
    const Scans &scans_;
    CounterRng rng_{0};
    std::vector<double> words_;
    std::vector<Guess> guesses_;
    std::int64_t distances_ = 0;
};

} // namespace icml::kcenter
