// The Viterbi recursion in plain C++; states the arithmetic that the other sets must reproduce bit for bit.
#include "dispatch.hpp"
#include "portable.hpp"

namespace icml::quantize {

namespace {

// Which predecessor won, a byte a group.
std::uint32_t predecessor(const std::uint32_t *decisions, std::uint32_t group) {
    return reinterpret_cast<const std::uint8_t *>(decisions)[group];
}

// (x - value)² in units of the costs: d saturates at 16 bits, d² is rounded to units of 2^15.
inline int distance(int x, int value) {
    const int d = x - value, low = d < -32768 ? -32768 : d, in_range = low > 32767 ? 32767 : low;
    return (in_range * in_range + (1 << 14)) >> 15;
}

template <class Cost> inline Cost least_of(Cost a, Cost b) {
    return a < b ? a : b;
}

// Groups [j, j + N); N is constant so that a compiler can vectorize the loops. Returns the least of the
// minima.
template <class Cost, int K, std::uint32_t N>
Cost block(const Cost *cost, const std::int16_t *value, std::uint32_t groups, int x, Cost floor, Cost *next,
           std::uint8_t *won) {
    constexpr std::uint32_t ways = 1u << K;
    constexpr int most = Cost(-1);
    Cost least[N], from[N], before[N * ways], smallest = Cost(most);
    for (std::uint32_t i = 0; i < N; ++i) least[i] = cost[i];
    for (std::uint32_t i = 0; i < N; ++i) from[i] = 0;
    for (std::uint32_t p = 1; p < ways; ++p) {
        const Cost *other = cost + p * groups;
        for (std::uint32_t i = 0; i < N; ++i) {
            from[i] = other[i] < least[i] ? Cost(p) : from[i];
            least[i] = least_of(other[i], least[i]);
        }
    }
    for (std::uint32_t i = 0; i < N; ++i) won[i] = std::uint8_t(from[i]);
    for (std::uint32_t i = 0; i < N; ++i) least[i] = Cost(least[i] - least_of(least[i], floor));
    for (std::uint32_t i = 0; i < N; ++i) smallest = least_of(smallest, least[i]);
    for (std::uint32_t i = 0; i < N; ++i)
        for (std::uint32_t b = 0; b < ways; ++b) before[i * ways + b] = least[i];
    for (std::uint32_t s = 0; s < N * ways; ++s) {
        const int sum = before[s] + distance(x, value[s]);
        next[s] = Cost(sum < most ? sum : most);
    }
    return smallest;
}

template <class Cost, int K> std::uint32_t step(const StepArguments<Cost> &a) {
    constexpr std::uint32_t many = 64;
    const std::uint32_t groups = a.code->groups();
    const std::int16_t *value = sizeof(Cost) == 1 ? a.code->value10 : a.code->value13;
    auto *won = reinterpret_cast<std::uint8_t *>(a.decisions[0]);
    Cost smallest = Cost(-1);
    std::uint32_t j = 0;
    for (; j + many <= groups; j += many)
        smallest = least_of(smallest, block<Cost, K, many>(a.cost + j, value + (j << K), groups, a.x[0],
                                                           Cost(a.floor), a.next + (j << K), won + j));
    for (; j < groups; ++j)
        smallest = least_of(smallest, block<Cost, K, 1>(a.cost + j, value + (j << K), groups, a.x[0],
                                                        Cost(a.floor), a.next + (j << K), won + j));
    return smallest;
}

bool always() {
    return true;
}

constexpr Recursion<std::uint8_t> narrow{step<std::uint8_t, 2>, predecessor, 1, 8};
template <int K> constexpr Recursion<std::uint16_t> each{step<std::uint16_t, K>, predecessor, 1, 8};
constexpr Recursion<std::uint16_t> wide[5]{{}, each<1>, each<2>, each<3>, each<4>};

} // namespace

extern const InstructionSet portable_set{"portable",
                                         always,
                                         &narrow,
                                         wide,
                                         portable_covers,
                                         portable_integer,
                                         portable_exact,
                                         portable_decode,
                                         portable_ternary_integer,
                                         portable_ternary_exact};

} // namespace icml::quantize
