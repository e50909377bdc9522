// In-place orthogonal transforms of rows: Hadamard on power-of-two blocks, and a small dense matrix across
// blocks.
#include "../arrays.hpp"

#include "ranges.hpp"

#include "clones.hpp"

#include <algorithm>
#include <cmath>

namespace icml::quantize {

namespace {

typedef float V __attribute__((vector_size(64)));
typedef float U __attribute__((vector_size(64), aligned(4), may_alias));

// Butterflies of distance 1, 2, 4 and 8 within 16 values.
#define ICML_FLIP(h)                                                                                         \
    __builtin_shufflevector(v, v, 0 ^ h, 1 ^ h, 2 ^ h, 3 ^ h, 4 ^ h, 5 ^ h, 6 ^ h, 7 ^ h, 8 ^ h, 9 ^ h,      \
                            10 ^ h, 11 ^ h, 12 ^ h, 13 ^ h, 14 ^ h, 15 ^ h)
inline __attribute__((always_inline)) void sixteen(float *x) {
    V v = *reinterpret_cast<U *>(x);
    v = ICML_FLIP(1) + v * V{1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1};
    v = ICML_FLIP(2) + v * V{1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1};
    v = ICML_FLIP(4) + v * V{1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1};
    *reinterpret_cast<U *>(x) = ICML_FLIP(8) + v * V{1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1};
}
#undef ICML_FLIP

// x <- Had x / sqrt(n), n a power of two.
ICML_CLONES void hadamard_block(float *x, std::int64_t n) {
    std::int64_t done = 1;
    if (n >= 16) {
        for (std::int64_t i = 0; i < n; i += 16) sixteen(x + i);
        done = 16;
    }
    for (std::int64_t h = done; h < n; h *= 2)
        for (std::int64_t i = 0; i < n; i += 2 * h) {
            float *a = x + i, *b = a + h;
#pragma GCC ivdep
            for (std::int64_t j = 0; j < h; ++j) {
                const float sum = a[j] + b[j], difference = a[j] - b[j];
                a[j] = sum;
                b[j] = difference;
            }
        }
    const float scale = float(1 / std::sqrt(double(n)));
    for (std::int64_t i = 0; i < n; ++i) x[i] *= scale;
}

// out[i] = sum_k q[i, k] x[k] (or q[k, i]) for blocks of `width` values.
ICML_CLONES void mix_row(const float *x, const float *q, std::int64_t count, std::int64_t width,
                         bool transpose, float *out) {
    for (std::int64_t i = 0; i < count; ++i) {
        float *to = out + i * width;
        std::fill_n(to, width, 0.0f);
        for (std::int64_t k = 0; k < count; ++k) {
            const float factor = transpose ? q[k * count + i] : q[i * count + k];
            const float *from = x + k * width;
#pragma GCC ivdep
            for (std::int64_t j = 0; j < width; ++j) to[j] += factor * from[j];
        }
    }
}

bool is_power_of_two(std::int64_t n) {
    return n > 0 && (n & (n - 1)) == 0;
}

// Columns [first, first + width * count) of every row, a block of `width` at a time.
void hadamard(InOut<float, 2> x, std::int64_t first, std::int64_t width, int threads) {
    const auto rows = std::int64_t(x.shape(0)), columns = std::int64_t(x.shape(1));
    require(is_power_of_two(width) && first >= 0 && first + width <= columns,
            "a block of a power of two of columns");
    const std::int64_t count = first == 0 && columns % width == 0 ? columns / width : 1;
    nb::gil_scoped_release release;
    in_ranges(rows, rows * columns * 2, threads, [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t r = from; r < to; ++r)
            for (std::int64_t i = 0; i < count; ++i)
                hadamard_block(x.data() + r * columns + first + i * width, width);
    });
}

void mix(InOut<float, 2> x, In<float, 2> q, bool transpose, int threads) {
    const auto rows = std::int64_t(x.shape(0)), columns = std::int64_t(x.shape(1)),
               count = std::int64_t(q.shape(0));
    require(count >= 1 && q.shape(1) == q.shape(0) && columns % count == 0,
            "a square matrix that divides the columns");
    nb::gil_scoped_release release;
    in_ranges(rows, rows * columns * count / 4, threads, [&](std::int64_t from, std::int64_t to) {
        std::vector<float> mixed(static_cast<std::size_t>(columns));
        for (std::int64_t r = from; r < to; ++r) {
            float *row = x.data() + r * columns;
            mix_row(row, q.data(), count, columns / count, transpose, mixed.data());
            std::copy(mixed.begin(), mixed.end(), row);
        }
    });
}

} // namespace

void bind_rotate(nb::module_ &m) {
    m.def("hadamard", &hadamard, nb::arg("x"), nb::arg("first"), nb::arg("width"), nb::arg("threads"));
    m.def("mix", &mix, nb::arg("x"), nb::arg("q"), nb::arg("transpose"), nb::arg("threads"));
}

} // namespace icml::quantize
