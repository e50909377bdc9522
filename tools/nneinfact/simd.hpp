// Vectors of the width the including file is compiled for, with exp and log that need no fast-math.
//
// Included once per instruction set (isa_*.cpp) inside that set's own namespace, so that no code made for a
// wider set can be linked into a narrower one; for the same reason nothing here instantiates a template of
// std.
#ifndef ICML_ISA
#error "define ICML_ISA (namespace) and ICML_VECTOR_BYTES first"
#endif

namespace icml::einfact::ICML_ISA {

#define ICML_INLINE inline __attribute__((always_inline))

template <class T> struct Lanes;
template <> struct Lanes<float> {
    static constexpr int count = ICML_VECTOR_BYTES / 4;
    typedef float V __attribute__((vector_size(ICML_VECTOR_BYTES)));
    typedef float U __attribute__((vector_size(ICML_VECTOR_BYTES), aligned(4), may_alias));
    typedef std::int32_t I __attribute__((vector_size(ICML_VECTOR_BYTES)));
    typedef std::uint32_t W __attribute__((vector_size(ICML_VECTOR_BYTES)));
    typedef std::int32_t Int;
    static constexpr float round_magic =
        12582912.0f; // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
    static constexpr int mantissa = 23, bias = 127;
    static constexpr Int half_bits = 0x3f3504f3; // sqrt(1/2)
    static constexpr float largest_exp = 88.0f, smallest_exp = -87.0f;
    static constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
};
template <> struct Lanes<double> {
    static constexpr int count = ICML_VECTOR_BYTES / 8;
    typedef double V __attribute__((vector_size(ICML_VECTOR_BYTES)));
    typedef double U __attribute__((vector_size(ICML_VECTOR_BYTES), aligned(8), may_alias));
    typedef std::int64_t I __attribute__((vector_size(ICML_VECTOR_BYTES)));
    typedef std::uint64_t W __attribute__((vector_size(ICML_VECTOR_BYTES)));
    typedef std::int64_t Int;
    static constexpr double round_magic = 6755399441055744.0; // 1.5 * 2^52
    static constexpr int mantissa = 52, bias = 1023;
    static constexpr Int half_bits = 0x3fe6a09e667f3bcd;
    static constexpr double largest_exp = 709.0, smallest_exp = -708.0;
    static constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
};

template <class T> using V = typename Lanes<T>::V;
template <class T> using I = typename Lanes<T>::I;

template <class T> ICML_INLINE V<T> load(const T *p) {
    return *(const typename Lanes<T>::U *)p;
}
template <class T> ICML_INLINE void store(T *p, V<T> v) {
    *(typename Lanes<T>::U *)p = v;
}
template <class T> ICML_INLINE V<T> fill(T x) {
    return V<T>{} + x;
}
template <class T> ICML_INLINE V<T> max(V<T> a, V<T> b) {
    return a > b ? a : b;
}
template <class T> ICML_INLINE V<T> min(V<T> a, V<T> b) {
    return a < b ? a : b;
}

// Whether any lane of a comparison's result is set.
template <class T> ICML_INLINE bool any(I<T> mask) {
#if ICML_VECTOR_BYTES == 64
    return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask) != 0;
#elif ICML_VECTOR_BYTES == 32
    return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#else
    typedef std::int64_t W __attribute__((vector_size(16)));
    const W w = (W)mask;
    return (w[0] | w[1]) != 0;
#endif
}

template <class T> ICML_INLINE T sum(V<T> v) {
    T s = 0;
    for (int i = 0; i < Lanes<T>::count; ++i) s += v[i];
    return s;
}

// One stage of the sum of several vectors at once: blocks of 2H lanes of `a` folded in half, beside those of
// `b`.
template <class T, int H, int... Lane>
ICML_INLINE V<T> fold(V<T> a, V<T> b, std::integer_sequence<int, Lane...>) {
    constexpr int n = Lanes<T>::count;
    return __builtin_shufflevector(a, b,
                                   ((Lane % (2 * H) >= H ? n : 0) + Lane / (2 * H) * 2 * H + Lane % H)...) +
           __builtin_shufflevector(
               a, b, ((Lane % (2 * H) >= H ? n : 0) + Lane / (2 * H) * 2 * H + H + Lane % H)...);
}

template <class T, int H> ICML_INLINE void fold_all(V<T> *v) {
    for (int i = 0; i < H; ++i)
        v[i] = fold<T, H>(v[i], v[i + H], std::make_integer_sequence<int, Lanes<T>::count>{});
}

// Lane i of the result is the sum of the lanes of v[i], i < count.
template <class T> ICML_INLINE V<T> sums(V<T> *v) {
    if constexpr (Lanes<T>::count >= 16) fold_all<T, 8>(v);
    if constexpr (Lanes<T>::count >= 8) fold_all<T, 4>(v);
    if constexpr (Lanes<T>::count >= 4) fold_all<T, 2>(v);
    fold_all<T, 1>(v);
    return v[0];
}

// Natural logarithm of a positive normal number, error below 1 ulp (reduction and polynomials as in Cephes /
// fdlibm).
template <class T> ICML_INLINE V<T> log(V<T> x) {
    using L = Lanes<T>;
    typedef typename L::W W; // whose arithmetic wraps
    const W bits = (W)x;
    const I<T> exponent = (I<T>)(bits - (W)(I<T>{} + L::half_bits)) >> L::mantissa;
    const V<T> f = (V<T>)(bits - ((W)exponent << L::mantissa)) - T(1);
    const V<T> e = (V<T>)((W)fill<T>(L::round_magic) + (W)exponent) - L::round_magic;
    if constexpr (sizeof(T) == 4) {
        const V<T> z = f * f;
        V<T> p = fill<T>(7.0376836292e-2f);
        p = p * f - 1.1514610310e-1f;
        p = p * f + 1.1676998740e-1f;
        p = p * f - 1.2420140846e-1f;
        p = p * f + 1.4249322787e-1f;
        p = p * f - 1.6668057665e-1f;
        p = p * f + 2.0000714765e-1f;
        p = p * f - 2.4999993993e-1f;
        p = p * f + 3.3333331174e-1f;
        return (f + (p * f * z + (e * L::ln2_low - z * 0.5f))) + e * L::ln2_high;
    } else {
        const V<T> s = f / (f + 2.0), z = s * s, w = z * z, half = f * f * 0.5;
        const V<T> even =
            w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
        const V<T> odd =
            z *
            (6.666666666666735130e-01 +
             w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
        return e * L::ln2_high - ((half - (s * (half + even + odd) + e * L::ln2_low)) - f);
    }
}

// e^x, saturating at the ends of the normal range; error below 2 ulp.
template <class T> ICML_INLINE V<T> exp(V<T> x) {
    using L = Lanes<T>;
    x = min<T>(max<T>(x, fill<T>(L::smallest_exp)), fill<T>(L::largest_exp));
    const V<T> shifted = x * T(1.44269504088896340736) + L::round_magic;
    const V<T> n = shifted - L::round_magic;
    const V<T> r = (x - n * L::ln2_high) - n * L::ln2_low;
    V<T> p;
    if constexpr (sizeof(T) == 4) {
        p = fill<T>(1.9875691500e-4f);
        p = p * r + 1.3981999507e-3f;
        p = p * r + 8.3334519073e-3f;
        p = p * r + 4.1665795894e-2f;
        p = p * r + 1.6666665459e-1f;
        p = p * r + 5.0000001201e-1f;
    } else {
        p = fill<T>(1.0 / 6227020800.0);
        p = p * r + 1.0 / 479001600.0;
        p = p * r + 1.0 / 39916800.0;
        p = p * r + 1.0 / 3628800.0;
        p = p * r + 1.0 / 362880.0;
        p = p * r + 1.0 / 40320.0;
        p = p * r + 1.0 / 5040.0;
        p = p * r + 1.0 / 720.0;
        p = p * r + 1.0 / 120.0;
        p = p * r + 1.0 / 24.0;
        p = p * r + 1.0 / 6.0;
        p = p * r + 0.5;
    }
    const V<T> m = p * r * r + r + T(1);
    const I<T> k = (I<T>)shifted - (I<T>)fill<T>(L::round_magic);
    return m * (V<T>)((k + L::bias) << L::mantissa);
}

} // namespace icml::einfact::ICML_ISA
