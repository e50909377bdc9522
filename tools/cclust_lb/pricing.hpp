// What a round of pricing reports, whatever it looks for.
#pragma once

#include <cstdint>

namespace icml::cclust {

struct PricingRound {
    int64_t added = 0;
    bool pass_ended = true; // everything has been looked at once since the last such round
    bool exhausted = false; // a whole pass that left nothing out has found nothing
    bool last_stage = true; // it will not look further afield in later passes
};

} // namespace icml::cclust
