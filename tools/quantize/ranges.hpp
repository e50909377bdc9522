// A loop over rows or stripes, in one stretch for each thread.
#pragma once

#include "../../formats/parallel.hpp"

#include <algorithm>
#include <cstdint>

namespace icml::quantize {

// f(first, last) on stretches of [0, count); a thread for every 64 K of `work` (additions, say) at least.
template <class F> void in_ranges(std::int64_t count, std::int64_t work, int threads, const F &f) {
    const std::int64_t most = std::min<std::int64_t>(count, formats::usable_threads(std::max(threads, 1)));
    const std::int64_t used = std::clamp<std::int64_t>(work / 65536 + 1, 1, std::max<std::int64_t>(most, 1));
    if (used == 1) return f(std::int64_t(0), count);
    formats::parallel_for(std::size_t(used), int(used), [&](std::size_t i) {
        const auto part = std::int64_t(i);
        f(count * part / used, count * (part + 1) / used);
    });
}

} // namespace icml::quantize
