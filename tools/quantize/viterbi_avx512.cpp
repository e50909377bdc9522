// The Viterbi recursion for AVX-512 with byte permutes (VBMI: Ice Lake, Zen 4 and later).
//
// 64 (costs of 8 bits) or 32 (16 bits) groups at a time: the 2^K streams of predecessors are contiguous, the
// minimum is replicated to its 2^K successors by one permute, and which stream won is kept as the masks of a
// tournament.
#if defined(__x86_64__)
#include "dispatch.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // in GCC 12's own header (bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include "target_avx512.hpp"

namespace icml::quantize {

namespace {

struct alignas(64) Quarters {
    std::uint8_t lane[64];
    constexpr Quarters() : lane{} {
        for (int i = 0; i < 64; ++i) lane[i] = std::uint8_t(i / 4);
    }
};
struct alignas(64) Iota {
    std::uint16_t lane[32];
    constexpr Iota() : lane{} {
        for (int i = 0; i < 32; ++i) lane[i] = std::uint16_t(i);
    }
};
constexpr Quarters quarters;
constexpr Iota iota;

template <class Word, int K> std::uint32_t predecessor(const std::uint32_t *decisions, std::uint32_t group) {
    constexpr std::uint32_t lanes = 8 * sizeof(Word), matches = (1u << K) - 1;
    const Word *mask = reinterpret_cast<const Word *>(decisions) + group / lanes * matches;
    std::uint32_t p = 0, first = matches - 1; // the final is the last mask
    for (int round = K - 1; round >= 0; --round) {
        p = 2 * p + std::uint32_t(mask[first + p] >> (group % lanes) & 1);
        first -= 1u << (K - round);
    }
    return p;
}

// Distances of x to the 128 levels, 64 to a vector.
inline __m512i level_distances(__m512i x, const std::int16_t *value) {
    const __m512i a = _mm512_sub_epi16(x, _mm512_load_si512(value)),
                  b = _mm512_sub_epi16(x, _mm512_load_si512(value + 32));
    const __m512i packed = _mm512_packus_epi16(_mm512_mulhrs_epi16(a, a), _mm512_mulhrs_epi16(b, b));
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), packed);
}

inline std::uint32_t least_byte(__m512i v) {
    __m128i m = _mm_min_epu8(_mm_min_epu8(_mm512_castsi512_si128(v), _mm512_extracti32x4_epi32(v, 1)),
                             _mm_min_epu8(_mm512_extracti32x4_epi32(v, 2), _mm512_extracti32x4_epi32(v, 3)));
    m = _mm_min_epu8(m, _mm_srli_epi16(m, 8)); // the least is now in the low byte of some 16-bit lane
    return std::uint32_t(_mm_extract_epi16(_mm_minpos_epu16(_mm_and_si128(m, _mm_set1_epi16(255))), 0));
}

inline std::uint32_t least_word(__m512i v) {
    const __m128i m =
        _mm_min_epu16(_mm_min_epu16(_mm512_castsi512_si128(v), _mm512_extracti32x4_epi32(v, 1)),
                      _mm_min_epu16(_mm512_extracti32x4_epi32(v, 2), _mm512_extracti32x4_epi32(v, 3)));
    return std::uint32_t(_mm_extract_epi16(_mm_minpos_epu16(m), 0));
}

inline __m512i load(const std::uint8_t *p) {
    return _mm512_load_si512(p);
}

// Lane i of the k-th takes lane 16 k + i / 4.
struct Spread {
    __m512i lane[4];
    Spread() {
        for (int k = 0; k < 4; ++k)
            lane[k] = _mm512_add_epi8(_mm512_load_si512(quarters.lane), _mm512_set1_epi8(char(16 * k)));
    }
};

// Distances of one x to the 128 levels.
struct Distances {
    __m512i near, far;
    Distances(int x, const std::int16_t *level_value)
        : near(level_distances(_mm512_set1_epi16(short(x)), level_value)),
          far(level_distances(_mm512_set1_epi16(short(x)), level_value + 64)) {}
    // The least costs of 16 groups, by `spread`, plus the distances of their 64 successors.
    __m512i add(__m512i least, __m512i spread, const std::uint8_t *level) const {
        return _mm512_adds_epu8(_mm512_permutexvar_epi8(spread, least),
                                _mm512_permutex2var_epi8(near, load(level), far));
    }
};

template <bool Keep> inline __m512i least_of_four(const __m512i *c, std::uint64_t *won) {
    const __m512i low = _mm512_min_epu8(c[0], c[1]), high = _mm512_min_epu8(c[2], c[3]);
    if constexpr (Keep) {
        won[0] = _mm512_cmplt_epu8_mask(c[1], c[0]);
        won[1] = _mm512_cmplt_epu8_mask(c[3], c[2]);
        won[2] = _mm512_cmplt_epu8_mask(high, low);
    }
    return _mm512_min_epu8(low, high);
}

template <bool Keep> std::uint32_t one_step(const StepArguments<std::uint8_t> &a) {
    const std::uint32_t groups = a.code->groups();
    const Distances distances(a.x[0], a.code->level_value);
    const Spread spread;
    const __m512i floor = _mm512_set1_epi8(char(a.floor));
    const std::uint8_t *const cost = a.cost, *const level = a.code->level;
    std::uint8_t *const next = a.next;
    auto *won = reinterpret_cast<std::uint64_t *>(a.decisions[0]);
    __m512i smallest = _mm512_set1_epi8(-1);
    for (std::uint32_t j = 0; j < groups; j += 64, won += 3) {
        const __m512i c[4]{load(cost + j), load(cost + groups + j), load(cost + 2 * groups + j),
                           load(cost + 3 * groups + j)};
        const __m512i least = _mm512_subs_epu8(least_of_four<Keep>(c, won), floor);
        smallest = _mm512_min_epu8(smallest, least);
        for (int k = 0; k < 4; ++k)
            _mm512_store_si512(next + 4 * j + 64 * k,
                               distances.add(least, spread.lane[k], level + 4 * j + 64 * k));
    }
    return least_byte(smallest);
}

// With states as (p, q, j), p and q of 2 bits: 64 j at a time, the first step leads from all p to groups (q,
// j), the second from all q to groups (j, b); the states between stay in registers.
template <bool Keep> std::uint32_t two_steps(const StepArguments<std::uint8_t> &a) {
    const std::uint32_t groups = a.code->groups(), part = groups / 4;
    const Distances first(a.x[0], a.code->level_value), second(a.x[1], a.code->level_value);
    const Spread spread;
    const __m512i floor = _mm512_set1_epi8(char(a.floor));
    const std::uint8_t *const cost = a.cost, *const level = a.code->level;
    std::uint8_t *const next = a.next;
    auto *const won_first = reinterpret_cast<std::uint64_t *>(a.decisions[0]);
    auto *won_second = reinterpret_cast<std::uint64_t *>(a.decisions[1]);
    __m512i smallest = _mm512_set1_epi8(-1);
    for (std::uint32_t j = 0; j < part; j += 64) {
        __m512i between[4];
        for (std::uint32_t q = 0; q < 4; ++q) {
            const std::uint32_t group = q * part + j;
            const __m512i c[4]{load(cost + group), load(cost + groups + group),
                               load(cost + 2 * groups + group), load(cost + 3 * groups + group)};
            between[q] = _mm512_subs_epu8(least_of_four<Keep>(c, won_first + group / 64 * 3), floor);
        }
        for (std::uint32_t k = 0; k < 4; ++k, won_second += 3) {
            __m512i c[4];
            for (std::uint32_t q = 0; q < 4; ++q)
                c[q] = first.add(between[q], spread.lane[k], level + 4 * (q * part + j) + 64 * k);
            const __m512i least = least_of_four<Keep>(c, won_second);
            smallest = _mm512_min_epu8(smallest, least);
            const std::uint32_t to = 16 * j + 256 * k;
            for (int i = 0; i < 4; ++i)
                _mm512_store_si512(next + to + 64 * i,
                                   second.add(least, spread.lane[i], level + to + 64 * i));
        }
    }
    return least_byte(smallest);
}

std::uint32_t step_narrow(const StepArguments<std::uint8_t> &a) {
    return a.keep ? one_step<true>(a) : one_step<false>(a);
}

std::uint32_t two_steps_narrow(const StepArguments<std::uint8_t> &a) {
    return a.keep ? two_steps<true>(a) : two_steps<false>(a);
}

template <int K> std::uint32_t step_wide(const StepArguments<std::uint16_t> &a) {
    constexpr int ways = 1 << K;
    const std::uint32_t groups = a.code->groups();
    const __m512i x = _mm512_set1_epi16(short(a.x[0])), floor = _mm512_set1_epi16(short(a.floor));
    const __m512i lane = _mm512_load_si512(iota.lane);
    __m512i spread[ways];
    for (int k = 0; k < ways; ++k)
        spread[k] = _mm512_srli_epi16(_mm512_add_epi16(lane, _mm512_set1_epi16(short(32 * k))), K);
    __m512i smallest = _mm512_set1_epi16(-1);
    std::uint32_t *won = a.decisions[0];
    for (std::uint32_t j = 0; j < groups; j += 32) {
        __m512i c[ways];
        for (int p = 0; p < ways; ++p) c[p] = _mm512_load_si512(a.cost + p * groups + j);
        for (int players = ways / 2; players >= 1; players /= 2)
            for (int i = 0; i < players; ++i) {
                *won++ = _mm512_cmplt_epu16_mask(c[2 * i + 1], c[2 * i]);
                c[i] = _mm512_min_epu16(c[2 * i], c[2 * i + 1]);
            }
        const __m512i least = _mm512_subs_epu16(c[0], floor);
        smallest = _mm512_min_epu16(smallest, least);
        for (int k = 0; k < ways; ++k) {
            const std::uint32_t s = (j << K) + 32 * k;
            const __m512i d = _mm512_subs_epi16(x, _mm512_load_si512(a.code->value13 + s));
            _mm512_store_si512(a.next + s, _mm512_adds_epu16(_mm512_permutexvar_epi16(spread[k], least),
                                                             _mm512_mulhrs_epi16(d, d)));
        }
    }
    return least_word(smallest);
}

template <int K>
constexpr Recursion<std::uint16_t> wide{step_wide<K>, predecessor<std::uint32_t, K>, 32, (1u << K) - 1};

} // namespace

extern const Recursion<std::uint8_t> avx512_narrow{
    step_narrow, predecessor<std::uint64_t, 2>, 64, 3, two_steps_narrow, 256};
extern const Recursion<std::uint16_t> avx512_wide[5]{{}, wide<1>, wide<2>, wide<3>, wide<4>};

} // namespace icml::quantize
#include "target_end.hpp"
#endif
