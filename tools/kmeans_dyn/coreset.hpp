// The layers as a weighted point set: every representative with members stands for them, give or take a
// slack.
//
// The last layer also holds the outliers, whose distance to a representative may be large. A division gives
// up the points beyond a threshold outright and leaves the rest of the budget to the static problem.
#pragma once

#include <cstdint>
#include <vector>

#include "distance.hpp"
#include "greedy.hpp"
#include "layers.hpp"

namespace icml::kcenter {

struct Division {
    double threshold;      // last-layer points farther than this from their representative are given up
    std::int64_t given_up; // how many those are
};

class Coreset {
  public:
    Coreset(const Points &points, const Layers &layers, const Space &space);

    int size() const { return blocks_.size(); }
    const Blocks &blocks() const { return blocks_; }
    const double *point(int i) const { return &rows_[static_cast<std::size_t>(i) * blocks_.width()]; }
    int depth(int i) const { return depth_[i]; }
    int rep(int i) const { return rep_[i]; }
    // The coreset point that stands for a representative, -1 if it has no members.
    std::int32_t number_of(int depth, int rep) const { return number_[depth][rep]; }

    // At most 1/eps + 2 thresholds, from nothing given up to all that is allowed.
    std::vector<Division> divisions(double eps, std::int64_t z, std::int64_t allowed) const;

    // Weights and slacks when a division has taken its share.
    void divide(const Division &division, std::vector<std::int32_t> &weight,
                std::vector<double> &slack) const;

  private:
    const Points &points_;
    const Layers &layers_;
    Blocks blocks_;
    std::vector<double> rows_;
    std::vector<std::int32_t> depth_, rep_;
    std::vector<std::vector<std::int32_t>> number_;
};

} // namespace icml::kcenter
