// Answers: k live points as centres, a certified radius, and which points to discard.
//
// The layers are a small weighted point set; the static problem on it is solved once for each way of dividing
// the outliers between what the last layer gives up outright and what the greedy leaves uncovered.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "certificate.hpp"
#include "coreset.hpp"
#include "distance.hpp"
#include "greedy.hpp"
#include "layers.hpp"
#include "state.hpp"

namespace icml::kcenter {

struct Answer {
    std::vector<std::int32_t> centers;  // slots
    std::vector<std::int64_t> sizes;    // points that each centre answers for
    std::vector<std::int32_t> outliers; // slots of what is discarded
    double radius = 0; // all other points are this near to a centre: an upper bound, rounded up
    double lower = 0;  // no k centres discarding z points have a smaller radius; 0 if nothing is known
    int layers = 0, coreset = 0;
    int recourse = 0; // centres that were none in the answer before
};

class Solver {
  public:
    Solver(Points &points, Layers &layers, const Space &space, const Settings &settings, const Scans &scans,
           Poll poll);

    // sticky: keep the centres of the answer before while their radius is at most 1 + sticky times the new
    // one.
    Answer answer(int k, std::int64_t z, double sticky);

    void save(Arrays &arrays) const;
    void load(const Arrays &arrays);

  private:
    struct Solution {
        std::vector<std::int32_t> centers; // slots
        Certificate certificate;
        double failed = 0, lower = 0;
        int coreset = 0;
        bool exact = false; // every point represents itself

        double decay() const { return certificate.radius / std::max(failed, 1e-300); }
    };
    struct Try; // the static problem for one division

    Solution solve(int k, std::int64_t z, std::int64_t allowed);
    Try attempt(const Coreset &coreset, const Division &division, int k, std::int64_t z,
                std::int64_t allowed);
    Try best_attempt(const Coreset &coreset, int k, std::int64_t z, std::int64_t allowed, double &lower);
    std::vector<std::int32_t> live_centers(const Coreset &coreset, const Try &attempt);
    void keep_previous(Solution &solution, std::int64_t allowed, double sticky);
    bool is_stale(int k, const Solution &solution) const;
    void remember(int k, const Solution &solution, bool fresh);

    Points &points_;
    Layers &layers_;
    const Space &space_;
    const Settings &settings_;
    const Scans &scans_;
    Poll poll_;
    DistanceMatrix matrix_; // kept for its memory

    Guess guess_;      // radius of the last greedy
    int division_ = 0; // which division was best
    std::map<int, double>
        reference_; // by k: certified / failed radius at the first answer after a full build
    std::int64_t reference_build_ = -1;
    std::vector<std::string> previous_; // ids of the centres before
};

} // namespace icml::kcenter
