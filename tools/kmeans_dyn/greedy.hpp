// The static problem: k centres among weighted points, all but a given weight covered (M. Charikar, S.
// Khuller, D. Mount, G. Narasimhan: Algorithms for Facility Location Problems with Outliers, 2001).
//
// For a radius r, k times: take the point whose disk of radius r holds most uncovered weight, cover
// everything within 3r. If some k disks of radius r leave at most the budget uncovered, so does this; the
// smallest r that works is found by bisection.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "distance.hpp"
#include "layers.hpp"

namespace icml::kcenter {

// Pairwise distances, rounded to float, in rows padded with infinities.
class DistanceMatrix {
  public:
    // Both throw std::length_error for a matrix that takes more than half of the memory.
    void compute(const Space &space, const Blocks &points, const Scans &scans, int threads, const Poll &poll);
    void copy(const double *square, int size, const Scans &scans); // from a full matrix

    int size() const { return size_; }
    int stride() const { return stride_; }
    const float *row(int a) const { return &entries_[static_cast<std::size_t>(a) * stride_]; }
    float least() const { return least_; } // smallest entry above zero; infinite without one
    float greatest() const { return greatest_; }
    const Scans &scans() const { return *scans_; }

  private:
    void resize(int size, const Scans &scans);
    void find_range(int threads);

    int size_ = 0, stride_ = 0;
    float least_ = 0, greatest_ = 0;
    std::vector<float> entries_;
    const Scans *scans_ = nullptr;
};

struct StaticProblem {
    const DistanceMatrix &distance;
    std::vector<std::int32_t> weight; // padded with zeros to the stride
    std::vector<float> slack;         // how far a point's members may lie from it
    int k;
    std::int64_t budget; // weight that may stay uncovered
    std::int64_t strict; // the outliers of the optimum that failures speak of
    int threads;

    std::int64_t total() const;
};

struct Disks {
    std::vector<std::int32_t> centers;
    float radius = 0;    // smallest for which the greedy stayed within the budget
    float failed = 0;    // largest below it that left more than the budget
    float disproved = 0; // largest that left more than `strict`: no k disks of this radius do better
};

// Where the bisection starts: 0 for anywhere, and by what factor that may well be wrong.
struct Guess {
    float radius = 0;
    float doubt = 1.01F;
};

Disks smallest_disks(const StaticProblem &problem, const Guess &guess, const Poll &poll);

struct Assignment {
    std::vector<std::int32_t> owner; // which centre, -1 for what is given up
    float radius = 0;                // largest distance plus slack of what is not
    std::int32_t farthest = -1;      // whose that is
};

// Every point to its nearest centre; the farthest are given up as far as the budget goes.
Assignment assign(const StaticProblem &problem, std::span<const std::int32_t> centers);

// Adds centres at the farthest points while there are fewer than k, then moves each centre to the point of
// its cluster that is nearest to all of it, as long as the radius shrinks.
Assignment polish(const StaticProblem &problem, std::vector<std::int32_t> &centers, const Poll &poll);

} // namespace icml::kcenter
