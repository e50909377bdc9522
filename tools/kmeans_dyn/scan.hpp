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

ICML_INLINE bool any_at_most(const Floats &a, float limit) {
#if ICML_SCAN_BYTES == 64
    return _mm512_cmp_ps_mask(a, _mm512_set1_ps(limit), _CMP_LE_OQ) != 0;
#elif ICML_SCAN_BYTES == 32
    return _mm256_movemask_ps(_mm256_cmp_ps(a, _mm256_set1_ps(limit), _CMP_LE_OQ)) != 0;
#else
    return a[0] <= limit || a[1] <= limit || a[2] <= limit || a[3] <= limit;
#endif
}

// Coordinates of consecutive lanes, in double precision however they are stored.
ICML_INLINE Vec load(const double *from) {
    return *reinterpret_cast<const Vec *>(from);
}
ICML_INLINE Vec load(const float *from) {
    typedef float Half __attribute__((vector_size(vector_bytes / 2), aligned(4), may_alias));
    return __builtin_convertvector(*reinterpret_cast<const Half *>(from), Vec);
}

// The sixteen raw distances of a block.
struct Lanes {
    Vec v[vectors];
};

// How a difference in one coordinate adds to a distance. By value: a reference to a deduced vector type would
// claim more alignment than the types above have.
struct Euclidean {
    static constexpr bool squared = true;
    template <class V> ICML_INLINE V add(V sum, V t) {
        const V square = t * t;
        return sum + square;
    }
};
struct Manhattan {
    static constexpr bool squared = false;
    template <class V> ICML_INLINE V add(V sum, V t) { return sum + (t < 0 ? -t : t); }
};
struct Chebyshev {
    static constexpr bool squared = false;
    template <class V> ICML_INLINE V add(V sum, V t) {
        const V size = t < 0 ? -t : t;
        return size > sum ? size : sum;
    }
};

template <class Rule> struct Coordinatewise {
    static constexpr bool squared = Rule::squared;
    template <class T> ICML_INLINE Lanes block(const Space &space, const double *x, const T *block) {
        Lanes sum{};
        for (int j = 0; j < space.width; ++j) {
            const double at = x[j];
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v)
                sum.v[v] = Rule::add(sum.v[v], at - load(block + j * lanes + v * per_vector));
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

// Spares most blocks of float32 their distances in double precision. The distance over the first coordinates,
// in single precision, is too large by a factor of at most 1 + (coordinates + 3) / 2^24, and by far less than
// 1e-37 where it underflows; if that says that a point is too far, it is. Limits near the largest float pass
// all.
template <class Rule, class T> class Sieve {
  public:
    Sieve(const Space &, const double *) {}
    bool passes(const T *, double) const { return true; }
};

template <class R> class Sieve<Coordinatewise<R>, float> {
  public:
    Sieve(const Space &space, const double *x)
        : coordinates_(space.width < most ? space.width : most), factor_(1 + (coordinates_ + 8) * 0x1p-23) {
        for (int j = 0; j < coordinates_; ++j) x_[j] = static_cast<float>(x[j]);
    }

    // Whether any point of the block may be within the limit.
    bool passes(const float *block, double limit) const {
        if (!(limit < 1e37)) return true;
        constexpr int step = vector_bytes / 4;
        Floats sum[lanes / step] = {};
        for (int j = 0; j < coordinates_; ++j)
#pragma GCC unroll 4
            for (int v = 0; v < lanes / step; ++v)
                sum[v] =
                    R::add(sum[v], x_[j] - *reinterpret_cast<const Floats *>(block + j * lanes + v * step));
        const auto bound = static_cast<float>(limit * factor_ + 1e-37);
        bool any = false;
#pragma GCC unroll 4
        for (int v = 0; v < lanes / step; ++v) any |= any_at_most(sum[v], bound);
        return any;
    }

  private:
    static constexpr int most = 1024;
    int coordinates_;
    double factor_;
    float x_[most];
};

template <class Rule, class T>
Hit first_within(const Space &space, const double *x, const T *blocks, int count, double limit) {
    const Sieve<Rule, T> sieve(space, x);
    const std::int64_t step = static_cast<std::int64_t>(lanes) * space.width;
    for (int begin = 0; begin < count; begin += lanes, blocks += step) {
        if (!sieve.passes(blocks, limit)) continue;
        const Lanes raw = Rule::block(space, x, blocks);
        if (const unsigned mask = at_most(raw, limit, count - begin)) {
            const int i = __builtin_ctz(mask);
            return {begin + i, reinterpret_cast<const double *>(&raw)[i]};
        }
    }
    return {-1, limit};
}

template <class Rule, class T> Hit nearest(const Space &space, const double *x, const T *blocks, int count) {
    const std::int64_t step = static_cast<std::int64_t>(lanes) * space.width;
    const Sieve<Rule, T> sieve(space, x);
    Hit best{-1, __builtin_inf()};
    for (int begin = 0; begin < count; begin += lanes, blocks += step) {
        if (!sieve.passes(blocks, best.raw)) continue;
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

template <class Rule, class T>
void row(const Space &space, const double *x, const T *blocks, int count, float *out) {
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

// Picks the scan for the space's metric and the storage of the blocks; bits and row numbers are never narrow.
template <class Scan>
ICML_INLINE auto dispatch(const Space &space, const BlockView &blocks, const Scan &scan) {
    const auto either = [&]<class Rule>(Rule rule) {
        return blocks.narrow ? scan(rule, blocks.narrow) : scan(rule, blocks.wide);
    };
    switch (space.metric) {
    case Metric::manhattan:
        return either(Coordinatewise<Manhattan>());
    case Metric::chebyshev:
        return either(Coordinatewise<Chebyshev>());
    case Metric::hamming:
        return scan(Hamming(), blocks.wide);
    case Metric::precomputed:
        return scan(Precomputed(), blocks.wide);
    default:
        return either(Coordinatewise<Euclidean>());
    }
}

static Hit any_first_within(const Space &space, const double *x, const BlockView &blocks, double limit) {
    return dispatch(space, blocks, [&]<class Rule>(Rule, const auto *begin) {
        return first_within<Rule>(space, x, begin, blocks.count, limit);
    });
}
static Hit any_nearest(const Space &space, const double *x, const BlockView &blocks) {
    return dispatch(space, blocks, [&]<class Rule>(Rule, const auto *begin) {
        return nearest<Rule>(space, x, begin, blocks.count);
    });
}
static void any_row(const Space &space, const double *x, const BlockView &blocks, float *out) {
    dispatch(space, blocks,
             [&]<class Rule>(Rule, const auto *begin) { row<Rule>(space, x, begin, blocks.count, out); });
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
