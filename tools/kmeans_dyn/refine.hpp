// Centres that are live points: from representatives, which may have been deleted, to members near the middle
// of each cluster, as long as the radius over the coreset shrinks.
#pragma once

#include <cstdint>
#include <vector>

#include "coreset.hpp"
#include "distance.hpp"
#include "layers.hpp"

namespace icml::kcenter {

struct RefineProblem {
    const Points &points;
    const Layers &layers;
    const Coreset &coreset;
    const Space &space;
    const Scans &scans;
    const std::vector<std::int32_t> &weight; // of the coreset's points
    const std::vector<double> &slack;
    std::int64_t budget;
};

// Improves centres (slots of live points).
void refine(const RefineProblem &problem, std::vector<std::int32_t> &centers);

} // namespace icml::kcenter
