// Products with packed matrices for AVX2: as for AVX-512, 8 rows at a time.
//
// The bytes of the hash are first summed in pairs by ones (at most 510, so that nothing saturates) and then
// multiplied by the activation as pairs of 16 bits.
#if defined(__x86_64__)
#include "dispatch.hpp"

#include <immintrin.h>

#include "target_avx2.hpp"
#include "unroll.hpp"

namespace icml::quantize {

extern const Recursion<std::uint8_t> avx2_narrow;
extern const Recursion<std::uint16_t> avx2_wide[5];

namespace {

constexpr std::int64_t flush_tiles = 1024; // 16 * 1024 columns * 1020 * 127 < 2^31
constexpr int ahead = 32;                  // tiles prefetched

ICML_INLINE __m256i load(const std::uint32_t *p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p));
}

ICML_INLINE void prefetch(const void *p) {
    _mm_prefetch(static_cast<const char *>(p), _MM_HINT_T0);
}

struct Constants {
    __m256i mask, a, b;
};

Constants constants(const TrellisProduct &p) {
    const std::uint32_t mask = (1u << p.state_bits) - 1;
    const std::uint32_t a = p.generator.a, b = p.generator.family == Family::mul16 ? p.generator.b : a >> 16;
    if (p.bits == 2)
        return {_mm256_set1_epi16(short(mask)), _mm256_set1_epi16(short(a)), _mm256_set1_epi16(short(b))};
    return {_mm256_set1_epi32(int(mask)), _mm256_set1_epi32(int(a)), _mm256_setzero_si256()};
}

// Words of rows 0-7 and 8-15, each moved up by one row around the ring.
ICML_INLINE void turn(const __m256i (&rows)[2], __m256i (&out)[2]) {
    const __m256i up = _mm256_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6);
    const __m256i a = _mm256_permutevar8x32_epi32(rows[0], up), b = _mm256_permutevar8x32_epi32(rows[1], up);
    out[0] = _mm256_blend_epi32(a, b, 1);
    out[1] = _mm256_blend_epi32(b, a, 1);
}

// As in product_avx512.cpp; [part][half of the rows].
struct Words {
    __m256i now[2][2], before[2][2];
    ICML_INLINE explicit Words(const std::uint32_t *p) {
        for (int half = 0; half < 2; ++half) {
            const __m256 low = _mm256_castsi256_ps(load(p + 16 * half)),
                         high = _mm256_castsi256_ps(load(p + 16 * half + 8));
            now[0][half] =
                _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(low, high, 0x88)), 0xd8);
            now[1][half] =
                _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(low, high, 0xdd)), 0xd8);
            before[1][half] = now[0][half];
        }
        turn(now[1], before[0]);
    }
};

template <Family F, int Column> ICML_INLINE __m256i hashed(const Words &tile, int half, const Constants &c) {
    constexpr int part = Column / 8, shift = 28 - 4 * (Column % 8);
    __m256i w = tile.now[part][half];
    if constexpr (shift != 0)
        w = _mm256_or_si256(_mm256_srli_epi32(w, shift),
                            _mm256_slli_epi32(tile.before[part][half], 32 - shift));
    w = _mm256_mullo_epi32(_mm256_and_si256(w, c.mask), c.a);
    if constexpr (F == Family::mulx) w = _mm256_xor_si256(w, _mm256_srli_epi32(w, 15));
    return w;
}

struct Halves {
    __m256i now[2], before[2];
    ICML_INLINE explicit Halves(const std::uint32_t *p) : now{load(p), load(p + 8)} {
        __m256i previous[2];
        turn(now, previous);
        for (int half = 0; half < 2; ++half)
            before[half] =
                _mm256_or_si256(_mm256_srli_epi32(now[half], 16), _mm256_slli_epi32(previous[half], 16));
    }
};

// Sums of the hashes' bytes, in lanes of 16 bits: column k in the high, 8 + k in the low half of a word.
template <Family F, bool Whole, int Column>
ICML_INLINE __m256i byte_sums(const Halves &tile, int half, const Constants &c) {
    constexpr int shift = 14 - 2 * Column;
    __m256i w = tile.now[half];
    if constexpr (shift != 0)
        w = _mm256_or_si256(_mm256_srli_epi16(w, shift), _mm256_slli_epi16(tile.before[half], 16 - shift));
    if constexpr (!Whole) w = _mm256_and_si256(w, c.mask);
    __m256i low = _mm256_mullo_epi16(w, c.a), high = _mm256_mullo_epi16(w, c.b);
    if constexpr (F != Family::mul16) high = _mm256_add_epi16(_mm256_mulhi_epu16(w, c.a), high);
    if constexpr (F == Family::mulx) {
        low = _mm256_xor_si256(low, _mm256_or_si256(_mm256_slli_epi16(high, 1), _mm256_srli_epi16(low, 15)));
        high = _mm256_xor_si256(high, _mm256_srli_epi16(high, 15));
    }
    const __m256i ones = _mm256_set1_epi8(1);
    return _mm256_add_epi16(_mm256_maddubs_epi16(low, ones), _mm256_maddubs_epi16(high, ones));
}

template <int K, Family F, bool Whole, int V>
ICML_INLINE void integer_tile(const std::uint32_t *packed, const Constants &c, const std::int32_t *x,
                              std::int64_t apart, __m256i (&acc)[V][2]) {
    if constexpr (K == 2) {
        const Halves tile(packed);
        unroll(Eight{}, [&](auto k) __attribute__((always_inline)) {
            for (int half = 0; half < 2; ++half) {
                const __m256i sums = byte_sums<F, Whole, k.value>(tile, half, c);
                for (int v = 0; v < V; ++v)
                    acc[v][half] = _mm256_add_epi32(
                        acc[v][half], _mm256_madd_epi16(sums, _mm256_set1_epi32(x[v * apart + k.value])));
            }
        });
    } else {
        const Words tile(packed);
        const __m256i ones = _mm256_set1_epi8(1);
        unroll(Sixteen{}, [&](auto k) __attribute__((always_inline)) {
            for (int half = 0; half < 2; ++half) {
                const __m256i sums = _mm256_maddubs_epi16(hashed<F, k.value>(tile, half, c), ones);
                for (int v = 0; v < V; ++v)
                    acc[v][half] = _mm256_add_epi32(
                        acc[v][half], _mm256_madd_epi16(sums, _mm256_set1_epi32(x[v * apart + k.value])));
            }
        });
    }
}

ICML_INLINE void add_to(std::int64_t *out, __m256i v) {
    const auto add = [](std::int64_t *p, __m128i low) __attribute__((always_inline)) {
        auto *at = reinterpret_cast<__m256i *>(p);
        _mm256_storeu_si256(at, _mm256_add_epi64(_mm256_loadu_si256(at), _mm256_cvtepi32_epi64(low)));
    };
    add(out, _mm256_castsi256_si128(v));
    add(out + 4, _mm256_extracti128_si256(v, 1));
}

template <int K, Family F, bool Whole, int V> void integer_stripes(const TrellisProduct &p) {
    constexpr int step = K == 2 ? 8 : 16;
    const Constants c = constants(p);
    const std::uint32_t *packed = p.packed + p.stripe0 * p.tiles * tile_words(K);
    for (std::int64_t stripe = p.stripe0; stripe < p.stripe1; ++stripe) {
        std::int64_t *out = p.sums + stripe * tile_side;
        for (int v = 0; v < V; ++v)
            for (int i = 0; i < tile_side; ++i) out[v * p.rows + i] = 0;
        for (std::int64_t tile = 0; tile < p.tiles;) {
            __m256i acc[V][2] = {};
            const std::int64_t flush = tile + flush_tiles < p.tiles ? tile + flush_tiles : p.tiles;
            for (; tile < flush; ++tile, packed += tile_words(K)) {
                prefetch(packed + ahead * tile_words(2));
                integer_tile<K, F, Whole, V>(packed, c, p.words + tile * step, p.tiles * step, acc);
            }
            for (int v = 0; v < V; ++v)
                for (int half = 0; half < 2; ++half) add_to(out + v * p.rows + 8 * half, acc[v][half]);
        }
    }
}

// use(column, half, centred byte sums as floats)
template <int K, Family F, bool Whole, class Use>
ICML_INLINE void each_column(const std::uint32_t *packed, const Constants &c, const Use &use) {
    const __m256i centre = _mm256_set1_epi32(byte_sum_centre);
    if constexpr (K == 2) {
        const Halves tile(packed);
        unroll(Eight{}, [&](auto k) __attribute__((always_inline)) {
            for (int half = 0; half < 2; ++half) {
                const __m256i sums = byte_sums<F, Whole, k.value>(tile, half, c);
                const __m256i high = _mm256_srli_epi32(sums, 16),
                              low = _mm256_and_si256(sums, _mm256_set1_epi32(0xffff));
                use(Int<k.value>{}, half, _mm256_cvtepi32_ps(_mm256_sub_epi32(high, centre)));
                use(Int<8 + k.value>{}, half, _mm256_cvtepi32_ps(_mm256_sub_epi32(low, centre)));
            }
        });
    } else {
        const Words tile(packed);
        const __m256i bytes = _mm256_set1_epi8(1), words = _mm256_set1_epi16(1);
        unroll(Sixteen{}, [&](auto k) __attribute__((always_inline)) {
            for (int half = 0; half < 2; ++half) {
                const __m256i sums =
                    _mm256_madd_epi16(_mm256_maddubs_epi16(hashed<F, k.value>(tile, half, c), bytes), words);
                use(k, half, _mm256_cvtepi32_ps(_mm256_sub_epi32(sums, centre)));
            }
        });
    }
}

template <int K, Family F, bool Whole, int V> void exact_stripes(const TrellisProduct &p) {
    constexpr int N = 4 / V;
    const Constants c = constants(p);
    const std::uint32_t *packed = p.packed + p.stripe0 * p.tiles * tile_words(K);
    for (std::int64_t stripe = p.stripe0; stripe < p.stripe1; ++stripe) {
        __m256 acc[V][2][N] = {};
        for (std::int64_t tile = 0; tile < p.tiles; ++tile, packed += tile_words(K)) {
            prefetch(packed + ahead * tile_words(2));
            const float *x = p.x + tile * tile_side;
            each_column<K, F, Whole>(
                packed, c, [&](auto k, int half, __m256 value) __attribute__((always_inline)) {
                    for (int v = 0; v < V; ++v)
                        acc[v][half][k.value % N] =
                            _mm256_fmadd_ps(value, _mm256_set1_ps(x[v * p.tiles * tile_side + k.value]),
                                            acc[v][half][k.value % N]);
                });
        }
        for (int v = 0; v < V; ++v)
            for (int half = 0; half < 2; ++half) {
                __m256 sum = acc[v][half][0];
                for (int i = 1; i < N; ++i) sum = _mm256_add_ps(sum, acc[v][half][i]);
                _mm256_storeu_ps(p.products + v * p.rows + stripe * tile_side + 8 * half, sum);
            }
    }
}

template <int K, Family F, bool Whole>
void decode_stripes(const TrellisProduct &p, float *out, std::int64_t out_stride) {
    const Constants c = constants(p);
    for (std::int64_t stripe = p.stripe0; stripe < p.stripe1; ++stripe) {
        const std::uint32_t *packed = p.packed + stripe * p.tiles * tile_words(K);
        float *to = out + (stripe - p.stripe0) * tile_side;
        for (std::int64_t tile = 0; tile < p.tiles;
             ++tile, packed += tile_words(K), to += tile_side * out_stride)
            each_column<K, F, Whole>(packed, c,
                                     [&](auto k, int half, __m256 value) __attribute__((always_inline)) {
                                         _mm256_storeu_ps(to + k.value * out_stride + 8 * half, value);
                                     });
    }
}

#include "product_entry.hpp"

// Eight rows of one group: products of the 2-bit codes with x.
struct TernaryGroup {
    const std::uint8_t *packed; // first tile's eight rows
    std::int64_t tiles;
};

ICML_INLINE __m256i load_rows(const std::uint8_t *p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p));
}

// 2-bit codes times int8: pairs stay within 2 * 2 * 127, four planes within 16 bits.
ICML_INLINE __m256i integer_group(const TernaryGroup &g, const std::int32_t *x) {
    const __m256i three = _mm256_set1_epi8(3), ones = _mm256_set1_epi16(1);
    __m256i acc = _mm256_setzero_si256();
    for (std::int64_t tile = 0; tile < g.tiles; ++tile, x += 4) {
        const __m256i w = load_rows(g.packed + tile * 64);
        prefetch(g.packed + (tile + ahead) * 64);
        __m256i sum = _mm256_maddubs_epi16(_mm256_and_si256(w, three), _mm256_set1_epi32(x[0]));
        sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(w, 2), three),
                                                         _mm256_set1_epi32(x[1])));
        sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(w, 4), three),
                                                         _mm256_set1_epi32(x[2])));
        sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(w, 6), three),
                                                         _mm256_set1_epi32(x[3])));
        acc = _mm256_add_epi32(acc, _mm256_madd_epi16(sum, ones));
    }
    return acc;
}

ICML_INLINE __m256 exact_group(const TernaryGroup &g, const float *x) {
    const __m256i three = _mm256_set1_epi32(3), one = _mm256_set1_epi32(1);
    __m256 acc[4] = {};
    for (std::int64_t tile = 0; tile < g.tiles; ++tile, x += tile_side) {
        const __m256i w = load_rows(g.packed + tile * 64);
        unroll(Sixteen{}, [&](auto c) __attribute__((always_inline)) {
            constexpr int shift = 8 * (c.value % 4) + 2 * (c.value / 4);
            const __m256i t = _mm256_sub_epi32(_mm256_and_si256(_mm256_srli_epi32(w, shift), three), one);
            acc[c.value % 4] =
                _mm256_fmadd_ps(_mm256_cvtepi32_ps(t), _mm256_set1_ps(x[c.value]), acc[c.value % 4]);
        });
    }
    return _mm256_add_ps(_mm256_add_ps(acc[0], acc[1]), _mm256_add_ps(acc[2], acc[3]));
}

// sum(group, index) for all groups of all rows, eight at a time.
template <class Sum> ICML_INLINE void ternary_rows(const TernaryProduct &p, const Sum &sum) {
    for (std::int64_t stripe = p.stripe0; stripe < p.stripe1; ++stripe)
        for (int half = 0; half < 2; ++half) {
            const std::uint8_t *packed = p.packed + stripe * p.tiles * 64 + 32 * half;
            __m256 total = _mm256_setzero_ps();
            for (std::int64_t group = 0; group < p.groups; ++group) {
                const std::int64_t first = group * p.group_tiles, rest = p.tiles - first;
                const TernaryGroup g{packed + first * 64, rest < p.group_tiles ? rest : p.group_tiles};
                const std::int64_t at = (stripe * p.groups + group) * tile_side + 8 * half;
                total = _mm256_fmadd_ps(_mm256_loadu_ps(p.alpha + at), sum(g, group), total);
                total =
                    _mm256_fmadd_ps(_mm256_loadu_ps(p.mu + at), _mm256_set1_ps(p.group_total[group]), total);
            }
            _mm256_storeu_ps(p.products + stripe * tile_side + 8 * half, total);
        }
}

void ternary_integer(const TernaryProduct &p) {
    ternary_rows(p, [&](const TernaryGroup &g, std::int64_t group) __attribute__((always_inline)) {
        const __m256i sum = _mm256_sub_epi32(integer_group(g, p.bytes + group * p.group_tiles * 4),
                                             _mm256_set1_epi32(p.group_sum[group]));
        return _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps(p.scale));
    });
}

void ternary_exact(const TernaryProduct &p) {
    ternary_rows(p, [&](const TernaryGroup &g, std::int64_t group) __attribute__((always_inline)) {
        return exact_group(g, p.x + group * p.group_tiles * tile_side);
    });
}

bool usable() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

} // namespace

extern const InstructionSet avx2_set{"avx2",  usable, &avx2_narrow, avx2_wide,       covers,
                                     integer, exact,  decode,       ternary_integer, ternary_exact};

} // namespace icml::quantize
#include "target_end.hpp"
#endif
