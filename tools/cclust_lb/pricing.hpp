// What a round of pricing reports, whatever it looks for.
#pragma once

#include <cstdint>

namespace icml::cclust {

struct PricingRound {
    int64_t added = 0;
    bool complete = true; // nothing was left out, so that a round without additions means that there are none
};

} // namespace icml::cclust
