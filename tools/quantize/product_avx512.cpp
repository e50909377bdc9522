// Products with packed matrices for AVX-512 with VNNI: decoding is a shift, a multiply and one dot product of
// bytes.
//
// Lanes are the 16 rows of a tile. The dot product sums the four bytes of the hash and, with int8
// activations, multiplies by the activation in the same instruction; no table is ever read.
#if defined(__x86_64__)
#include "dispatch.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // in GCC 12's own header (bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include "target_avx512.hpp"
#include "unroll.hpp"

namespace icml::quantize {

extern const Recursion<std::uint8_t> avx512_narrow;
extern const Recursion<std::uint16_t> avx512_wide[5];

namespace {

constexpr std::int64_t flush_tiles = 1024; // 16 * 1024 columns * 255 * 4 * 127 < 2^31
constexpr int ahead = 48;                  // tiles prefetched

struct Constants {
    __m512i mask, a, b;
};

// K = 4: column c of a tile ends 28 - 4 (c mod 8) bits from the end of the 32 bits now[c / 8], which follow
// before[c / 8].
struct Words {
    __m512i now[2], before[2];
    ICML_INLINE explicit Words(const std::uint32_t *p) {
        const __m512i low = _mm512_loadu_si512(p), high = _mm512_loadu_si512(p + 16);
        const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        now[0] = _mm512_permutex2var_epi32(low, even, high);
        now[1] = _mm512_permutex2var_epi32(low, _mm512_add_epi32(even, _mm512_set1_epi32(1)), high);
        before[0] = _mm512_alignr_epi32(now[1], now[1], 15);
        before[1] = now[0];
    }
};

// Hash of the states of one column, all 16 rows.
template <Family F, int Column> ICML_INLINE __m512i hashed(const Words &tile, const Constants &c) {
    constexpr int part = Column / 8, shift = 28 - 4 * (Column % 8);
    __m512i w = shift == 0 ? tile.now[part] : _mm512_shrdi_epi32(tile.now[part], tile.before[part], shift);
    w = _mm512_mullo_epi32(_mm512_and_si512(w, c.mask), c.a);
    if constexpr (F == Family::mulx) w = _mm512_xor_si512(w, _mm512_srli_epi32(w, 15));
    return w;
}

// K = 2: the 32 lanes of 16 bits are half rows, 8 columns each; columns k (high halves) and 8 + k (low
// halves).
struct Halves {
    __m512i now, before;
    ICML_INLINE explicit Halves(const std::uint32_t *p) {
        now = _mm512_loadu_si512(p);
        // low half of row r follows its high half; high half of row r follows the low half of row r - 1
        const __m512i previous = _mm512_alignr_epi32(now, now, 15);
        before = _mm512_or_si512(_mm512_srli_epi32(now, 16), _mm512_slli_epi32(previous, 16));
    }
};

// The hashes of two columns' states, low and high 16 bits apart: multiplying 16 bits is one operation where
// 32 bits take two.
struct Hash {
    __m512i low, high;
};

template <Family F, bool Whole, int Column> ICML_INLINE Hash hashed(const Halves &tile, const Constants &c) {
    constexpr int shift = 14 - 2 * Column;
    __m512i w = shift == 0 ? tile.now : _mm512_shrdi_epi16(tile.now, tile.before, shift);
    if constexpr (!Whole) w = _mm512_and_si512(w, c.mask);
    const __m512i low = _mm512_mullo_epi16(w, c.a), other = _mm512_mullo_epi16(w, c.b);
    if constexpr (F == Family::mul16) return {low, other};
    const __m512i high = _mm512_add_epi16(_mm512_mulhi_epu16(w, c.a), other);
    if constexpr (F == Family::mul32) return {low, high};
    return {_mm512_xor_si512(low, _mm512_shldi_epi16(high, low, 1)),
            _mm512_xor_si512(high, _mm512_srli_epi16(high, 15))};
}

ICML_INLINE void add_to(std::int64_t *out, __m512i v) {
    _mm512_storeu_si512(
        out, _mm512_add_epi64(_mm512_loadu_si512(out), _mm512_cvtepi32_epi64(_mm512_castsi512_si256(v))));
    _mm512_storeu_si512(out + 8, _mm512_add_epi64(_mm512_loadu_si512(out + 8),
                                                  _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(v, 1))));
}

ICML_INLINE void prefetch(const std::uint32_t *p) {
    _mm_prefetch(reinterpret_cast<const char *>(p), _MM_HINT_T0);
}

Constants constants(const TrellisProduct &p) {
    const std::uint32_t mask = (1u << p.state_bits) - 1;
    const std::uint32_t a = p.generator.a, b = p.generator.family == Family::mul16 ? p.generator.b : a >> 16;
    if (p.bits == 2)
        return {_mm512_set1_epi16(short(mask)), _mm512_set1_epi16(short(a)), _mm512_set1_epi16(short(b))};
    return {_mm512_set1_epi32(int(mask)), _mm512_set1_epi32(int(a)), _mm512_setzero_si512()};
}

// One tile times V vectors of int8; x as in TrellisProduct::bytes, `apart` between vectors.
template <int K, Family F, bool Whole, int V, int N>
ICML_INLINE void integer_tile(const std::uint32_t *packed, const Constants &c, const std::int32_t *x,
                              std::int64_t apart, __m512i (&acc)[V][N]) {
    if constexpr (K == 2) {
        const Halves tile(packed);
        unroll(Eight{}, [&](auto k) __attribute__((always_inline)) {
            const Hash h = hashed<F, Whole, k.value>(tile, c);
            for (int v = 0; v < V; ++v) {
                const __m512i xk = _mm512_set1_epi32(x[v * apart + k.value]);
                constexpr int first = 2 * k.value % N, second = (2 * k.value + 1) % N;
                acc[v][first] = _mm512_dpbusd_epi32(acc[v][first], h.low, xk);
                acc[v][second] = _mm512_dpbusd_epi32(acc[v][second], h.high, xk);
            }
        });
    } else {
        const Words tile(packed);
        unroll(Sixteen{}, [&](auto k) __attribute__((always_inline)) {
            const __m512i h = hashed<F, k.value>(tile, c);
            for (int v = 0; v < V; ++v)
                acc[v][k.value % N] =
                    _mm512_dpbusd_epi32(acc[v][k.value % N], h, _mm512_set1_epi32(x[v * apart + k.value]));
        });
    }
}

template <int K, Family F, bool Whole, int V> void integer_stripes(const TrellisProduct &p) {
    constexpr int N = 4 / V; // accumulators a vector, enough to hide the latency
    constexpr int step = K == 2 ? 8 : 16;
    const Constants c = constants(p);
    const std::uint32_t *packed = p.packed + p.stripe0 * p.tiles * tile_words(K);
    for (std::int64_t stripe = p.stripe0; stripe < p.stripe1; ++stripe) {
        std::int64_t *out = p.sums + stripe * tile_side;
        for (int v = 0; v < V; ++v)
            for (int i = 0; i < tile_side; ++i) out[v * p.rows + i] = 0;
        for (std::int64_t tile = 0; tile < p.tiles;) {
            __m512i acc[V][N] = {};
            const std::int64_t flush = tile + flush_tiles < p.tiles ? tile + flush_tiles : p.tiles;
            for (; tile < flush; ++tile, packed += tile_words(K)) {
                prefetch(packed + ahead * tile_words(2));
                integer_tile<K, F, Whole, V, N>(packed, c, p.bytes + tile * step, p.tiles * step, acc);
            }
            for (int v = 0; v < V; ++v)
                for (int i = 0; i < N; ++i) add_to(out + v * p.rows, acc[v][i]);
        }
    }
}

// One column's centred byte sums as floats, for each of 16 rows: f(column, values).
template <int K, Family F, bool Whole, class Use>
ICML_INLINE void each_column(const std::uint32_t *packed, const Constants &c, const Use &use) {
    const __m512i ones = _mm512_set1_epi8(1);
    if constexpr (K == 2) {
        const Halves tile(packed);
        const __m512i centre = _mm512_set1_epi16(-byte_sum_centre);
        unroll(Eight{}, [&](auto k) __attribute__((always_inline)) {
            const Hash h = hashed<F, Whole, k.value>(tile, c);
            const __m512i sums =
                _mm512_add_epi16(centre, _mm512_add_epi16(_mm512_maddubs_epi16(h.low, ones),
                                                          _mm512_maddubs_epi16(h.high, ones)));
            use(Int<k.value>{}, _mm512_cvtepi32_ps(_mm512_srai_epi32(sums, 16)));
            use(Int<8 + k.value>{}, _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(sums, 16), 16)));
        });
    } else {
        const Words tile(packed);
        const __m512i centre = _mm512_set1_epi32(-byte_sum_centre);
        unroll(Sixteen{}, [&](auto k) __attribute__((always_inline)) {
            use(k, _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(centre, hashed<F, k.value>(tile, c), ones)));
        });
    }
}

template <int K, Family F, bool Whole, int V> void exact_stripes(const TrellisProduct &p) {
    constexpr int N = 4 / V;
    const Constants c = constants(p);
    const std::uint32_t *packed = p.packed + p.stripe0 * p.tiles * tile_words(K);
    for (std::int64_t stripe = p.stripe0; stripe < p.stripe1; ++stripe) {
        __m512 acc[V][N] = {};
        for (std::int64_t tile = 0; tile < p.tiles; ++tile, packed += tile_words(K)) {
            prefetch(packed + ahead * tile_words(2));
            const float *x = p.x + tile * tile_side;
            each_column<K, F, Whole>(packed, c, [&](auto k, __m512 value) __attribute__((always_inline)) {
                for (int v = 0; v < V; ++v)
                    acc[v][k.value % N] = _mm512_fmadd_ps(
                        value, _mm512_set1_ps(x[v * p.tiles * tile_side + k.value]), acc[v][k.value % N]);
            });
        }
        for (int v = 0; v < V; ++v) {
            __m512 sum = acc[v][0];
            for (int i = 1; i < N; ++i) sum = _mm512_add_ps(sum, acc[v][i]);
            _mm512_storeu_ps(p.products + v * p.rows + stripe * tile_side, sum);
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
            each_column<K, F, Whole>(packed, c, [&](auto k, __m512 value) __attribute__((always_inline)) {
                _mm512_storeu_ps(to + k.value * out_stride, value);
            });
    }
}

#include "product_entry.hpp"

// Rows' sums of one group are scaled by alpha, and mu times the group's sum of x is added.
ICML_INLINE __m512 finish_group(const TernaryProduct &p, std::int64_t at, __m512 sum, float group_total,
                                __m512 total) {
    total = _mm512_fmadd_ps(_mm512_loadu_ps(p.alpha + at), sum, total);
    return _mm512_fmadd_ps(_mm512_loadu_ps(p.mu + at), _mm512_set1_ps(group_total), total);
}

void ternary_integer(const TernaryProduct &p) {
    const __m512i three = _mm512_set1_epi8(3);
    for (std::int64_t stripe = p.stripe0; stripe < p.stripe1; ++stripe) {
        const std::uint8_t *packed = p.packed + stripe * p.tiles * 64;
        __m512 total = _mm512_setzero_ps();
        for (std::int64_t group = 0; group < p.groups; ++group) {
            const std::int64_t first = group * p.group_tiles;
            const std::int64_t last = first + p.group_tiles < p.tiles ? first + p.group_tiles : p.tiles;
            __m512i a0 = _mm512_set1_epi32(-p.group_sum[group]), a1 = _mm512_setzero_si512(), a2 = a1,
                    a3 = a1;
            for (std::int64_t tile = first; tile < last; ++tile) {
                const __m512i w = _mm512_loadu_si512(packed + tile * 64);
                _mm_prefetch(reinterpret_cast<const char *>(packed + (tile + ahead) * 64), _MM_HINT_T0);
                const std::int32_t *xt = p.bytes + tile * 4;
                a0 = _mm512_dpbusd_epi32(a0, _mm512_and_si512(w, three), _mm512_set1_epi32(xt[0]));
                a1 = _mm512_dpbusd_epi32(a1, _mm512_and_si512(_mm512_srli_epi16(w, 2), three),
                                         _mm512_set1_epi32(xt[1]));
                a2 = _mm512_dpbusd_epi32(a2, _mm512_and_si512(_mm512_srli_epi16(w, 4), three),
                                         _mm512_set1_epi32(xt[2]));
                a3 = _mm512_dpbusd_epi32(a3, _mm512_and_si512(_mm512_srli_epi16(w, 6), three),
                                         _mm512_set1_epi32(xt[3]));
            }
            const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(a0, a1), _mm512_add_epi32(a2, a3));
            total = finish_group(p, (stripe * p.groups + group) * tile_side,
                                 _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(p.scale)),
                                 p.group_total[group], total);
        }
        _mm512_storeu_ps(p.products + stripe * tile_side, total);
    }
}

void ternary_exact(const TernaryProduct &p) {
    const __m512i three = _mm512_set1_epi32(3), one = _mm512_set1_epi32(1);
    for (std::int64_t stripe = p.stripe0; stripe < p.stripe1; ++stripe) {
        const std::uint8_t *packed = p.packed + stripe * p.tiles * 64;
        __m512 total = _mm512_setzero_ps();
        for (std::int64_t group = 0; group < p.groups; ++group) {
            const std::int64_t first = group * p.group_tiles;
            const std::int64_t last = first + p.group_tiles < p.tiles ? first + p.group_tiles : p.tiles;
            __m512 acc[4] = {};
            for (std::int64_t tile = first; tile < last; ++tile) {
                const __m512i w = _mm512_loadu_si512(packed + tile * 64);
                const float *x = p.x + tile * tile_side;
                unroll(Sixteen{}, [&](auto c) __attribute__((always_inline)) {
                    constexpr int shift = 8 * (c.value % 4) + 2 * (c.value / 4);
                    const __m512i t =
                        _mm512_sub_epi32(_mm512_and_si512(_mm512_srli_epi32(w, shift), three), one);
                    acc[c.value % 4] =
                        _mm512_fmadd_ps(_mm512_cvtepi32_ps(t), _mm512_set1_ps(x[c.value]), acc[c.value % 4]);
                });
            }
            const __m512 sum = _mm512_add_ps(_mm512_add_ps(acc[0], acc[1]), _mm512_add_ps(acc[2], acc[3]));
            total =
                finish_group(p, (stripe * p.groups + group) * tile_side, sum, p.group_total[group], total);
        }
        _mm512_storeu_ps(p.products + stripe * tile_side, total);
    }
}

bool usable() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
           __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("fma");
}

} // namespace

extern const InstructionSet avx512_set{"avx512", usable, &avx512_narrow, avx512_wide,     covers,
                                       integer,  exact,  decode,         ternary_integer, ternary_exact};

} // namespace icml::quantize
#include "target_end.hpp"
#endif
