// The usual way to k-center with outliers on a stream, for comparison: one clustering for every radius guess.
//
// Guesses grow geometrically from the smallest to the largest distance there may be. At each a new point joins the first
// centre within twice the guess, or becomes a centre while there are at most k + z. Deletions are not charged at all, a
// favour: the textbook re-inserts the points of a deleted centre at every guess.
#pragma once

#include <cstdint>
#include <vector>

#include "distance.hpp"

namespace icml::kcenter {

class RadiusLadder {
  public:
    RadiusLadder(int dimension, int k, std::int64_t z, double eps, double smallest, double largest)
        : space_{Metric::euclidean, dimension, nullptr, 0}, capacity_(k + z + 1), scans_(scans("auto")) {
        for (double r = smallest; r <= largest; r *= 1 + eps) limits_.push_back(4 * r * r);
        centers_.assign(limits_.size(), Blocks(dimension));
    }

    int guesses() const { return static_cast<int>(limits_.size()); }
    std::int64_t distances() const { return distances_; }

    void insert(const double *x) {
        for (std::size_t g = 0; g < limits_.size(); ++g) {
            Blocks &centers = centers_[g];
            const Hit hit = scans_.first_within(space_, x, centers.data(), centers.size(), limits_[g]);
            distances_ += hit.index >= 0 ? hit.index + 1 : centers.size();
            if (hit.index < 0 && centers.size() < capacity_) centers.push(x);
        }
    }

  private:
    Space space_;
    std::int64_t capacity_, distances_ = 0;
    const Scans &scans_;
    std::vector<double> limits_; // squared
    std::vector<Blocks> centers_;
};

} // namespace icml::kcenter
