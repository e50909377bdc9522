// The Viterbi recursion for AVX2: as for AVX-512, 32 groups at a time, distances always computed in 16 bits.
#if defined(__x86_64__)
#include "dispatch.hpp"

#include <immintrin.h>

#include "target_avx2.hpp"

namespace icml::quantize {

namespace {

template <int K> std::uint32_t predecessor(const std::uint32_t *decisions, std::uint32_t group) {
    constexpr std::uint32_t matches = (1u << K) - 1;
    const std::uint32_t *mask = decisions + group / 32 * matches;
    std::uint32_t p = 0, first = matches - 1; // the final is the last mask
    for (int round = K - 1; round >= 0; --round) {
        p = 2 * p + (mask[first + p] >> (group % 32) & 1);
        first -= 1u << (K - round);
    }
    return p;
}

inline __m256i load(const void *p) {
    return _mm256_load_si256(static_cast<const __m256i *>(p));
}
inline void store(void *p, __m256i v) {
    _mm256_store_si256(static_cast<__m256i *>(p), v);
}

// 16 bytes, in both halves.
inline __m256i twice(const void *p) {
    return _mm256_broadcastsi128_si256(_mm_load_si128(static_cast<const __m128i *>(p)));
}

inline std::uint32_t least_word(__m256i v) {
    const __m128i m = _mm_min_epu16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    return std::uint32_t(_mm_extract_epi16(_mm_minpos_epu16(m), 0));
}

inline std::uint32_t least_byte(__m256i v) {
    return least_word(_mm256_min_epu16(_mm256_and_si256(v, _mm256_set1_epi16(255)), _mm256_srli_epi16(v, 8)));
}

// Minimum of two, and the mask of where the second is strictly less.
inline __m256i match(__m256i a, __m256i b, std::uint32_t &second) {
    const __m256i least = _mm256_min_epu8(a, b);
    second = ~std::uint32_t(_mm256_movemask_epi8(_mm256_cmpeq_epi8(least, a)));
    return least;
}

struct Words { // 32 costs of 16 bits
    __m256i low, high;
};

inline Words match(const Words &a, const Words &b, std::uint32_t &second) {
    const Words least{_mm256_min_epu16(a.low, b.low), _mm256_min_epu16(a.high, b.high)};
    const __m256i kept = _mm256_permute4x64_epi64(
        _mm256_packs_epi16(_mm256_cmpeq_epi16(least.low, a.low), _mm256_cmpeq_epi16(least.high, a.high)),
        0xd8);
    second = ~std::uint32_t(_mm256_movemask_epi8(kept));
    return least;
}

std::uint32_t step_narrow(const StepArguments<std::uint8_t> &a) {
    const std::uint32_t groups = a.code->groups();
    const __m256i x = _mm256_set1_epi16(short(a.x[0])), floor = _mm256_set1_epi8(char(a.floor));
    const __m256i fours = _mm256_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5,
                                           5, 5, 6, 6, 6, 6, 7, 7, 7, 7);
    const __m256i later = _mm256_add_epi8(fours, _mm256_set1_epi8(8));
    __m256i smallest = _mm256_set1_epi8(-1);
    std::uint32_t *won = a.decisions[0];
    for (std::uint32_t j = 0; j < groups; j += 32, won += 3) {
        const __m256i low = match(load(a.cost + j), load(a.cost + groups + j), won[0]);
        const __m256i high = match(load(a.cost + 2 * groups + j), load(a.cost + 3 * groups + j), won[1]);
        const __m256i least = _mm256_subs_epu8(match(low, high, won[2]), floor);
        smallest = _mm256_min_epu8(smallest, least);
        const __m256i first = _mm256_permute2x128_si256(least, least, 0x00),
                      second = _mm256_permute2x128_si256(least, least, 0x11);
        const std::int16_t *value = a.code->value10_turned + 4 * j;
        std::uint8_t *next = a.next + 4 * j;
        for (int k = 0; k < 4; ++k) {
            const __m256i u = _mm256_sub_epi16(x, load(value + 32 * k)),
                          v = _mm256_sub_epi16(x, load(value + 32 * k + 16));
            const __m256i distance =
                _mm256_packus_epi16(_mm256_mulhrs_epi16(u, u), _mm256_mulhrs_epi16(v, v));
            const __m256i before = _mm256_shuffle_epi8(k < 2 ? first : second, k % 2 ? later : fours);
            store(next + 32 * k, _mm256_adds_epu8(before, distance));
        }
    }
    return least_byte(smallest);
}

template <int K> std::uint32_t step_wide(const StepArguments<std::uint16_t> &a) {
    constexpr int ways = 1 << K, each = 16 >> K; // groups that one result vector succeeds
    const std::uint32_t groups = a.code->groups();
    const __m256i x = _mm256_set1_epi16(short(a.x[0])), floor = _mm256_set1_epi16(short(a.floor));
    constexpr int patterns = 8 / each;
    alignas(32) std::uint8_t pattern[patterns][32]; // where in 8 minima a result's lanes are
    for (int k = 0; k < patterns; ++k)
        for (int lane = 0; lane < 16; ++lane) {
            const int group = k * each + (lane >> K);
            pattern[k][2 * lane] = std::uint8_t(2 * (group % 8));
            pattern[k][2 * lane + 1] = std::uint8_t(2 * (group % 8) + 1);
        }
    alignas(32) std::uint16_t minima[32];
    __m256i smallest = _mm256_set1_epi16(-1);
    std::uint32_t *won = a.decisions[0];
    for (std::uint32_t j = 0; j < groups; j += 32) {
        Words c[ways];
        for (int p = 0; p < ways; ++p)
            c[p] = {load(a.cost + p * groups + j), load(a.cost + p * groups + j + 16)};
        for (int players = ways / 2; players >= 1; players /= 2)
            for (int i = 0; i < players; ++i) c[i] = match(c[2 * i], c[2 * i + 1], *won++);
        const __m256i low = _mm256_subs_epu16(c[0].low, floor), high = _mm256_subs_epu16(c[0].high, floor);
        smallest = _mm256_min_epu16(smallest, _mm256_min_epu16(low, high));
        store(minima, low);
        store(minima + 16, high);
        for (int k = 0; k < 2 * ways; ++k) {
            const std::uint32_t s = (j << K) + 16 * k;
            const __m256i from = twice(minima + k * each / 8 * 8);
            const __m256i before = _mm256_shuffle_epi8(from, load(pattern[k % patterns]));
            const __m256i d = _mm256_subs_epi16(x, load(a.code->value13 + s));
            store(a.next + s, _mm256_adds_epu16(before, _mm256_mulhrs_epi16(d, d)));
        }
    }
    return least_word(smallest);
}

template <int K> constexpr Recursion<std::uint16_t> wide{step_wide<K>, predecessor<K>, 32, (1u << K) - 1};

} // namespace

extern const Recursion<std::uint8_t> avx2_narrow{step_narrow, predecessor<2>, 32, 3};
extern const Recursion<std::uint16_t> avx2_wide[5]{{}, wide<1>, wide<2>, wide<3>, wide<4>};

} // namespace icml::quantize
#include "target_end.hpp"
#endif
