// One group of columns quantized in order, each column's error pushed on to the columns not yet decided
// (GPTQ).
#include "../arrays.hpp"

#include "ranges.hpp"

#include "clones.hpp"

#include <nanobind/stl/pair.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace icml::quantize {

namespace {

struct Grid { // values scale * code + zero, lowest <= code <= highest
    float scale, zero, lowest, highest;
};

// w [columns] is overwritten by the errors divided by the factor's diagonal.
ICML_CLONES void walk_row(float *w, std::int64_t columns, const float *factor, const Grid &grid,
                          std::int8_t *code) {
    for (std::int64_t j = 0; j < columns; ++j) {
        float c = 0;
        if (grid.scale != 0)
            c = std::clamp(std::nearbyint((w[j] - grid.zero) / grid.scale), grid.lowest, grid.highest);
        code[j] = std::int8_t(c);
        const float *row = factor + j * columns;
        const float error = (w[j] - (grid.scale * c + grid.zero)) / row[j];
        w[j] = error;
        for (std::int64_t k = j + 1; k < columns; ++k) w[k] -= error * row[k];
    }
}

// Codes [rows, columns] and errors / diagonal [rows, columns]; `factor` is upper triangular.
std::pair<Out<std::int8_t>, Out<float>> walk(In<float, 2> w, In<float, 2> factor, In<float, 1> scale,
                                             In<float, 1> zero, int lowest, int highest, int threads) {
    const std::size_t rows = w.shape(0), columns = w.shape(1);
    require(factor.shape(0) == columns && factor.shape(1) == columns, "a factor of the group's columns");
    require(scale.shape(0) == rows && zero.shape(0) == rows, "a scale and a zero for each row");
    require(lowest >= -128 && highest <= 127, "codes of 8 bits");
    Result<std::int8_t> codes{rows, columns};
    Result<float> errors{rows, columns};
    {
        nb::gil_scoped_release release;
        std::copy_n(w.data(), rows * columns, errors.data());
        const auto width = std::int64_t(columns);
        in_ranges(std::int64_t(rows), std::int64_t(rows) * width * width / 8, threads,
                  [&](std::int64_t from, std::int64_t to) {
                      for (std::int64_t r = from; r < to; ++r) {
                          const Grid grid{scale.data()[r], zero.data()[r], float(lowest), float(highest)};
                          walk_row(errors.data() + r * width, width, factor.data(), grid,
                                   codes.data() + r * width);
                      }
                  });
    }
    return {codes.release(), errors.release()};
}

} // namespace

void bind_walk(nb::module_ &m) {
    m.def("walk", &walk, nb::arg("w"), nb::arg("factor"), nb::arg("scale"), nb::arg("zero"),
          nb::arg("lowest"), nb::arg("highest"), nb::arg("threads"));
}

} // namespace icml::quantize
