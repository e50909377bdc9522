// The hot loops of distance.hpp, compiled once for each instruction set: the file that includes this one sets
// the target, ICML_SCAN_SET, the namespace of the result, and ICML_SCAN_BYTES, the size of a vector. Nothing
// here may call an inline function that other files share.
//
// Multiply and add stay two operations: a fused one would round differently where it exists.

#if ICML_SCAN_BYTES > 16
#include <immintrin.h>
#endif

namespace icml::kcenter::ICML_SCAN_SET {

constexpr int vector_bytes = ICML_SCAN_BYTES;
constexpr int per_vector = vector_bytes / 8;
constexpr int vectors = lanes / per_vector;

typedef double Vec __attribute__((vector_size(vector_bytes), aligned(8), may_alias));
typedef float Floats __attribute__((vector_size(vector_bytes), aligned(4), may_alias));
typedef std::int32_t Ints __attribute__((vector_size(vector_bytes), aligned(4), may_alias));

#define ICML_INLINE static inline __attribute__((always_inline))

// Bit i: whether a[i] <= limit.
ICML_INLINE unsigned at_most(const Vec &a, double limit) {
#if ICML_SCAN_BYTES == 64
    return _mm512_cmp_pd_mask(a, _mm512_set1_pd(limit), _CMP_LE_OQ);
#elif ICML_SCAN_BYTES == 32
    return static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(a, _mm256_set1_pd(limit), _CMP_LE_OQ)));
#else
    return static_cast<unsigned>(a[0] <= limit) | static_cast<unsigned>(a[1] <= limit) << 1;
#endif
}

// The sixteen raw distances of a block.
struct Lanes {
    Vec v[vectors];
};

struct Euclidean {
    static constexpr bool squared = true;
    ICML_INLINE void add(Vec &sum, Vec t) {
        const Vec square = t * t;
        sum = sum + square;
    }
};
struct Manhattan {
    static constexpr bool squared = false;
    ICML_INLINE void add(Vec &sum, Vec t) { sum = sum + (t < 0 ? -t : t); }
};
struct Chebyshev {
    static constexpr bool squared = false;
    ICML_INLINE void add(Vec &sum, Vec t) {
        const Vec size = t < 0 ? -t : t;
        sum = size > sum ? size : sum;
    }
};

template <class Rule> struct Coordinatewise {
    static constexpr bool squared = Rule::squared;
    ICML_INLINE Lanes block(const Space &space, const double *x, const double *block) {
        Lanes sum{};
        for (int j = 0; j < space.width; ++j) {
            const double at = x[j];
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v)
                Rule::add(sum.v[v], at - *reinterpret_cast<const Vec *>(block + j * lanes + v * per_vector));
        }
        return sum;
    }
};

struct Hamming {
    static constexpr bool squared = false;
    ICML_INLINE Lanes block(const Space &space, const double *x, const double *block) {
        std::int64_t count[lanes] = {};
        for (int j = 0; j < space.width; ++j)
            for (int i = 0; i < lanes; ++i) {
                std::uint64_t a, b;
                __builtin_memcpy(&a, x + j, sizeof a);
                __builtin_memcpy(&b, block + j * lanes + i, sizeof b);
                count[i] += __builtin_popcountll(a ^ b);
            }
        Lanes sum;
        for (int i = 0; i < lanes; ++i) sum.v[i / per_vector][i % per_vector] = static_cast<double>(count[i]);
        return sum;
    }
};

struct Precomputed {
    static constexpr bool squared = false;
    ICML_INLINE Lanes block(const Space &space, const double *x, const double *block) {
        const double *row = space.matrix + static_cast<std::int64_t>(x[0]) * space.rows;
        Lanes sum;
        for (int i = 0; i < lanes; ++i)
            sum.v[i / per_vector][i % per_vector] = row[static_cast<std::int64_t>(block[i])];
        return sum;
    }
};

ICML_INLINE unsigned at_most(const Lanes &raw, double limit, int valid) {
    unsigned mask = 0;
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) mask |= at_most(raw.v[v], limit) << (v * per_vector);
    return valid >= lanes ? mask : mask & ((1U << valid) - 1);
}

template <class Rule>
Hit first_within(const Space &space, const double *x, const double *blocks, int count, double limit) {
    const std::int64_t step = static_cast<std::int64_t>(lanes) * space.width;
    for (int begin = 0; begin < count; begin += lanes, blocks += step) {
        const Lanes raw = Rule::block(space, x, blocks);
        if (const unsigned mask = at_most(raw, limit, count - begin)) {
            const int i = __builtin_ctz(mask);
            return {begin + i, reinterpret_cast<const double *>(&raw)[i]};
        }
    }
    return {-1, limit};
}

template <class Rule> Hit nearest(const Space &space, const double *x, const double *blocks, int count) {
    const std::int64_t step = static_cast<std::int64_t>(lanes) * space.width;
    Hit best{-1, __builtin_inf()};
    for (int begin = 0; begin < count; begin += lanes, blocks += step) {
        const Lanes raw = Rule::block(space, x, blocks);
        unsigned mask = at_most(raw, best.raw, count - begin);
        for (; mask; mask &= mask - 1) {
            const int i = __builtin_ctz(mask);
            const double value = reinterpret_cast<const double *>(&raw)[i];
            if (value < best.raw || best.index < 0) best = {begin + i, value};
        }
    }
    return best;
}

template <class Rule>
void row(const Space &space, const double *x, const double *blocks, int count, float *out) {
    const std::int64_t step = static_cast<std::int64_t>(lanes) * space.width;
    for (int begin = 0; begin < count; begin += lanes, blocks += step) {
        const Lanes raw = Rule::block(space, x, blocks);
        double real[lanes];
        __builtin_memcpy(real, &raw, sizeof real);
        if constexpr (Rule::squared)
            for (int i = 0; i < lanes; ++i) real[i] = __builtin_sqrt(real[i]);
        for (int i = 0; i < lanes; ++i) out[begin + i] = static_cast<float>(real[i]);
    }
    for (int i = count; i % lanes != 0; ++i) out[i] = __builtin_inff();
}

// Picks the scan for the space's metric.
template <template <class> class Scan, class... Arguments>
ICML_INLINE auto dispatch(const Space &space, Arguments... rest) {
    switch (space.metric) {
    case Metric::manhattan:
        return Scan<Coordinatewise<Manhattan>>::run(space, rest...);
    case Metric::chebyshev:
        return Scan<Coordinatewise<Chebyshev>>::run(space, rest...);
    case Metric::hamming:
        return Scan<Hamming>::run(space, rest...);
    case Metric::precomputed:
        return Scan<Precomputed>::run(space, rest...);
    default:
        return Scan<Coordinatewise<Euclidean>>::run(space, rest...);
    }
}

template <class Rule> struct FirstWithin {
    static Hit run(const Space &s, const double *x, const double *b, int n, double r) {
        return first_within<Rule>(s, x, b, n, r);
    }
};
template <class Rule> struct Nearest {
    static Hit run(const Space &s, const double *x, const double *b, int n) {
        return nearest<Rule>(s, x, b, n);
    }
};
template <class Rule> struct Row {
    static void run(const Space &s, const double *x, const double *b, int n, float *out) {
        row<Rule>(s, x, b, n, out);
    }
};

static Hit any_first_within(const Space &space, const double *x, const double *blocks, int count,
                            double limit) {
    return dispatch<FirstWithin>(space, x, blocks, count, limit);
}
static Hit any_nearest(const Space &space, const double *x, const double *blocks, int count) {
    return dispatch<Nearest>(space, x, blocks, count);
}
static void any_row(const Space &space, const double *x, const double *blocks, int count, float *out) {
    dispatch<Row>(space, x, blocks, count, out);
}

static std::int32_t sum_within(const float *row, const std::int32_t *weight, int padded, float r) {
    constexpr int step = vector_bytes / 4;
    const Floats limit = Floats{} + r;
    Ints sum{};
    for (int a = 0; a < padded; a += step) {
        const Ints inside = *reinterpret_cast<const Floats *>(row + a) <= limit;
        sum += inside & *reinterpret_cast<const Ints *>(weight + a);
    }
    std::int32_t total = 0;
    for (int i = 0; i < step; ++i) total += sum[i];
    return total;
}

static void subtract_within(const float *row, std::int32_t *counts, int padded, float r,
                            std::int32_t weight) {
    constexpr int step = vector_bytes / 4;
    const Floats limit = Floats{} + r;
    const Ints w = Ints{} + weight;
    for (int a = 0; a < padded; a += step) {
        const Ints inside = *reinterpret_cast<const Floats *>(row + a) <= limit;
        *reinterpret_cast<Ints *>(counts + a) -= inside & w;
    }
}

extern const Scans table;
const Scans table{any_first_within, any_nearest, any_row, sum_within, subtract_within};

} // namespace icml::kcenter::ICML_SCAN_SET
