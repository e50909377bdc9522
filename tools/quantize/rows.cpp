// Products with rows of 8-bit codes on uniform grids, decoded as they are multiplied: every group of columns
// of a row has a scale and a zero, and its weights are scale * code + zero.
#include "../arrays.hpp"
#include "dispatch.hpp"
#include "ranges.hpp"

#include "clones.hpp"

#include <algorithm>
#include <string_view>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // in GCC 12's own header (bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace icml::quantize {

namespace {

constexpr std::int64_t lanes = 16;
constexpr std::int64_t chunk = 2048; // codes widened at a time
typedef float V __attribute__((vector_size(64), may_alias));
typedef float U __attribute__((vector_size(64), aligned(4), may_alias));

struct Rows {
    const std::uint8_t *codes;
    const float *scale, *zero; // [rows, groups]
    std::int64_t columns, group, groups;
    float centre;
    void (*widen)(const std::uint8_t *codes, std::int64_t count, float centre, float *out);
};

// Sums are of code - centre and so do not grow with the codes: the weights are scale * (code - centre) +
// middle.
inline float middle(const Rows &w, std::int64_t at) {
    return w.zero[at] + w.centre * w.scale[at];
}

// out[k] = codes[k] - centre. By hand, because compilers widen bytes in more steps than the instructions
// need.
using Widen = void (*)(const std::uint8_t *codes, std::int64_t count, float centre, float *out);

void widen_portable(const std::uint8_t *codes, std::int64_t count, float centre, float *out) {
    for (std::int64_t k = 0; k < count; ++k) out[k] = float(codes[k]) - centre;
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void widen_avx512(const std::uint8_t *codes, std::int64_t count,
                                                     float centre, float *out) {
    const __m512 middle = _mm512_set1_ps(centre);
    std::int64_t k = 0;
    for (; k + 16 <= count; k += 16) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(codes + k));
        _mm512_storeu_ps(out + k, _mm512_sub_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)), middle));
    }
    widen_portable(codes + k, count - k, centre, out + k);
}

__attribute__((target("avx2"))) void widen_avx2(const std::uint8_t *codes, std::int64_t count, float centre,
                                                float *out) {
    const __m256 middle = _mm256_set1_ps(centre);
    std::int64_t k = 0;
    for (; k + 8 <= count; k += 8) {
        const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(codes + k));
        _mm256_storeu_ps(out + k, _mm256_sub_ps(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)), middle));
    }
    widen_portable(codes + k, count - k, centre, out + k);
}
#endif

Widen chosen_widen() {
    [[maybe_unused]] const std::string_view set = instruction_set("").name;
#if defined(__x86_64__)
    if (set == "avx512") return widen_avx512;
    if (set == "avx2") return widen_avx2;
#endif
    return widen_portable;
}

inline float sum(const V &v) {
    float total = 0;
    for (std::int64_t i = 0; i < lanes; ++i) total += v[i];
    return total;
}

// out[v][r] for rows first <= r < last and 1 to 4 vectors x [vectors, columns]; totals [vectors, groups] are
// the sums of x over each group. The order of additions depends on the columns alone.
template <int vectors>
inline __attribute__((always_inline)) void multiply(const Rows &w, const float *x, const float *totals,
                                                    std::int64_t first, std::int64_t last, float *out,
                                                    std::int64_t stride) {
    alignas(64) float wide[chunk];
    for (std::int64_t r = first; r < last; ++r) {
        V whole[vectors] = {};
        float rest[vectors] = {};
        for (std::int64_t g = 0; g < w.groups; ++g) {
            const float scale = w.scale[r * w.groups + g], offset = middle(w, r * w.groups + g);
            const std::int64_t end = std::min(w.columns, (g + 1) * w.group);
            for (std::int64_t from = g * w.group; from < end; from += chunk) {
                const std::uint8_t *codes = w.codes + r * w.columns + from;
                const std::int64_t count = std::min(chunk, end - from);
                w.widen(codes, count, w.centre, wide);
                for (int v = 0; v < vectors; ++v) {
                    const float *y = x + v * w.columns + from;
                    V even = {}, odd = {};
                    std::int64_t k = 0;
                    for (; k + 2 * lanes <= count; k += 2 * lanes) {
                        even += *reinterpret_cast<const V *>(wide + k) * *reinterpret_cast<const U *>(y + k);
                        odd += *reinterpret_cast<const V *>(wide + k + lanes) *
                               *reinterpret_cast<const U *>(y + k + lanes);
                    }
                    float tail = 0;
                    for (; k < count; ++k) tail += wide[k] * y[k];
                    whole[v] += scale * (even + odd);
                    rest[v] += scale * tail;
                }
            }
            for (int v = 0; v < vectors; ++v) rest[v] += offset * totals[v * w.groups + g];
        }
        for (int v = 0; v < vectors; ++v) out[v * stride + r] = sum(whole[v]) + rest[v];
    }
}

ICML_CLONES void multiply_one(const Rows &w, const float *x, const float *totals, std::int64_t first,
                              std::int64_t last, float *out, std::int64_t stride) {
    multiply<1>(w, x, totals, first, last, out, stride);
}

ICML_CLONES void multiply_four(const Rows &w, const float *x, const float *totals, std::int64_t first,
                               std::int64_t last, float *out, std::int64_t stride) {
    multiply<4>(w, x, totals, first, last, out, stride);
}

ICML_CLONES void decode_rows(const Rows &w, std::int64_t first, std::int64_t last, float *out) {
    for (std::int64_t r = first; r < last; ++r)
        for (std::int64_t g = 0; g < w.groups; ++g) {
            const float scale = w.scale[r * w.groups + g], zero = w.zero[r * w.groups + g];
            const std::int64_t end = std::min(w.columns, (g + 1) * w.group);
            for (std::int64_t k = g * w.group; k < end; ++k)
                out[(r - first) * w.columns + k] = scale * float(w.codes[r * w.columns + k]) + zero;
        }
}

Rows checked(const In<std::uint8_t, 2> &codes, const In<float, 2> &scale, const In<float, 2> &zero,
             std::int64_t group, int bits) {
    require(bits >= 1 && bits <= 8, "codes of 1 to 8 bits");
    const auto columns = std::int64_t(codes.shape(1));
    require(group >= 1, "groups of at least one column");
    const std::int64_t groups = (columns + group - 1) / group;
    for (const auto &grid : {scale, zero})
        require(grid.shape(0) == codes.shape(0) && std::int64_t(grid.shape(1)) == groups,
                "a scale and a zero for each row and group");
    return {codes.data(), scale.data(),           zero.data(),   columns, group,
            groups,       float(1 << (bits - 1)), chosen_widen()};
}

// x W^T, [vectors, rows].
Out<float> rows_product(In<std::uint8_t, 2> codes, In<float, 2> scale, In<float, 2> zero, std::int64_t group,
                        int bits, In<float, 2> x, int threads) {
    const Rows w = checked(codes, scale, zero, group, bits);
    const auto rows = std::int64_t(codes.shape(0)), vectors = std::int64_t(x.shape(0));
    require(std::int64_t(x.shape(1)) == w.columns, "an activation for each column");
    Result<float> out{std::size_t(vectors), std::size_t(rows)};
    {
        nb::gil_scoped_release release;
        std::vector<float> totals(std::size_t(vectors * w.groups));
        for (std::int64_t v = 0; v < vectors; ++v)
            for (std::int64_t g = 0; g < w.groups; ++g) {
                double total = 0;
                for (std::int64_t k = g * group; k < std::min(w.columns, (g + 1) * group); ++k)
                    total += double(x.data()[v * w.columns + k]);
                totals[std::size_t(v * w.groups + g)] = float(total);
            }
        in_ranges(rows, rows * w.columns * vectors, threads, [&](std::int64_t first, std::int64_t last) {
            std::int64_t v = 0;
            for (; v + 4 <= vectors; v += 4)
                multiply_four(w, x.data() + v * w.columns, totals.data() + v * w.groups, first, last,
                              out.data() + v * rows, rows);
            for (; v < vectors; ++v)
                multiply_one(w, x.data() + v * w.columns, totals.data() + v * w.groups, first, last,
                             out.data() + v * rows, rows);
        });
    }
    return out.release();
}

// Weights of rows [first, last).
Out<float> rows_decode(In<std::uint8_t, 2> codes, In<float, 2> scale, In<float, 2> zero, std::int64_t group,
                       int bits, std::int64_t first, std::int64_t last, int threads) {
    const Rows w = checked(codes, scale, zero, group, bits);
    require(0 <= first && first <= last && last <= std::int64_t(codes.shape(0)), "rows of the matrix");
    Result<float> out{std::size_t(last - first), std::size_t(w.columns)};
    {
        nb::gil_scoped_release release;
        in_ranges(last - first, (last - first) * w.columns, threads, [&](std::int64_t from, std::int64_t to) {
            decode_rows(w, first + from, first + to, out.data() + from * w.columns);
        });
    }
    return out.release();
}

} // namespace

void bind_rows(nb::module_ &m) {
    m.def("rows_product", &rows_product, nb::arg("codes"), nb::arg("scale"), nb::arg("zero"),
          nb::arg("group"), nb::arg("bits"), nb::arg("x"), nb::arg("threads"));
    m.def("rows_decode", &rows_decode, nb::arg("codes"), nb::arg("scale"), nb::arg("zero"), nb::arg("group"),
          nb::arg("bits"), nb::arg("first"), nb::arg("last"), nb::arg("threads"));
}

} // namespace icml::quantize
