// The product with a packed 2-bit trellis matrix that a decoder with a table makes: as `icml.tools.quantize`, but
// every weight is looked up. Reference for bench/quantize.py: g++ -O3 -march=native -shared -fPIC.
#include <cstdint>
#include <immintrin.h>

// packed [stripes][tiles][16]: 16 rows, 16 columns of 2 bits in each; table [2^state_bits]; y [16 stripes] = W x.
extern "C" void product(const std::uint32_t *packed, std::int64_t stripes, std::int64_t tiles, int state_bits,
                        const float *table, const float *x, float *y) {
    const __m512i mask = _mm512_set1_epi32((1 << state_bits) - 1);
    const __m512i before = _mm512_set_epi32(14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 15);
    for (std::int64_t s = 0; s < stripes; ++s) {
        __m512 sum[4] = {};
        for (std::int64_t t = 0; t < tiles; ++t) {
            const __m512i v = _mm512_loadu_si512(packed + (s * tiles + t) * 16);
            const __m512i p = _mm512_permutexvar_epi32(before, v);
#pragma GCC unroll 16
            for (int c = 0; c < 16; ++c) {
                const __m512i shift = _mm512_set1_epi32(30 - 2 * c);
                const __m512i state = _mm512_and_si512(_mm512_shrdv_epi32(v, p, shift), mask);
                const __m512 w = _mm512_i32gather_ps(state, table, 4);
                sum[c % 4] = _mm512_fmadd_ps(w, _mm512_set1_ps(x[16 * t + c]), sum[c % 4]);
            }
        }
        _mm512_storeu_ps(y + 16 * s, _mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3])));
    }
}
