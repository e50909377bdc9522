#include "distance.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>

namespace icml::kcenter {

namespace portable {
extern const Scans table;
}

#if defined(__x86_64__) && !defined(__clang__)
namespace avx2 {
extern const Scans table;
}
namespace avx512 {
extern const Scans table;
}

const Scans &scans(std::string_view instruction_set) {
    const bool has_avx512 = __builtin_cpu_supports("avx512f"), has_avx2 = __builtin_cpu_supports("avx2");
    const bool best = instruction_set == "auto";
    if (has_avx512 && (best || instruction_set == "avx512")) return avx512::table;
    if (has_avx2 && (best || instruction_set == "avx2")) return avx2::table;
    if (best || instruction_set == "portable") return portable::table;
    throw std::invalid_argument("no " + std::string(instruction_set) + " on this processor");
}
#else
const Scans &scans(std::string_view instruction_set) {
    if (instruction_set == "auto" || instruction_set == "portable") return portable::table;
    throw std::invalid_argument("no " + std::string(instruction_set) + " on this processor");
}
#endif

#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif

bool Space::holds(const double *words) const {
    if (metric == Metric::hamming) return true;
    if (metric == Metric::precomputed)
        return words[0] >= 0 && words[0] < static_cast<double>(rows) && words[0] == std::floor(words[0]);
    const double most = rounded(largest_coordinate, storage);
    return std::all_of(words, words + width, [&](double x) { return std::abs(x) <= most; });
}

double Space::raw_distance(const double *a, const double *b) const {
    double sum = 0;
    switch (metric) {
    case Metric::euclidean:
        for (int j = 0; j < width; ++j) {
            const double t = a[j] - b[j];
            const double square = t * t;
            sum += square;
        }
        break;
    case Metric::manhattan:
        for (int j = 0; j < width; ++j) sum += std::abs(a[j] - b[j]);
        break;
    case Metric::chebyshev:
        for (int j = 0; j < width; ++j) sum = std::max(sum, std::abs(a[j] - b[j]));
        break;
    case Metric::hamming:
        for (int j = 0; j < width; ++j)
            sum += std::popcount(std::bit_cast<std::uint64_t>(a[j]) ^ std::bit_cast<std::uint64_t>(b[j]));
        break;
    case Metric::precomputed:
        sum = matrix[static_cast<std::int64_t>(a[0]) * rows + static_cast<std::int64_t>(b[0])];
        break;
    }
    return sum;
}

} // namespace icml::kcenter
