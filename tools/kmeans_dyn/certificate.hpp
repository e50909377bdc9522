// What is certain about an answer: a radius, and which points to discard so that it holds for all others.
//
// A point's distance to its representative plus the representative's distance to the centres bounds its
// distance to the centres; where that could decide the radius, the distance itself is computed, as far as a
// fixed amount of work goes. The radius is the (allowed + 1)-th largest of these numbers. Points whose
// representative cannot matter are never looked at, so that the cost does not grow with their number.
#pragma once

#include <cstdint>
#include <vector>

#include "coreset.hpp"
#include "distance.hpp"
#include "layers.hpp"

namespace icml::kcenter {

struct Certificate {
    double radius = 0;
    std::vector<std::int64_t> sizes;    // points within the radius that each centre answers for
    std::vector<std::int32_t> outliers; // slots of all other points
};

// For centres that are live points; also tightens what the layers know of their farthest members.
Certificate certify(const Points &points, Layers &layers, const Coreset &coreset, const Space &space,
                    const Scans &scans, const std::vector<std::int32_t> &centers, std::int64_t allowed);

} // namespace icml::kcenter
