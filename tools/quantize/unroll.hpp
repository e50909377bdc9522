// Loops over compile-time constants, without a template of std (code for a wide instruction set must not be
// linked into a narrower one's).
#pragma once

#define ICML_INLINE inline __attribute__((always_inline))

namespace icml::quantize {
namespace {

template <int I> struct Int {
    static constexpr int value = I;
};
template <int... I> struct Ints {};
using Eight = Ints<0, 1, 2, 3, 4, 5, 6, 7>;
using Sixteen = Ints<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>;

// Calls f with each number as a compile-time constant.
template <int... I, class F> ICML_INLINE void unroll(Ints<I...>, const F &f) {
    (f(Int<I>{}), ...);
}

} // namespace
} // namespace icml::quantize
