// The compiled part of `quantize`: trellis search (encode.cpp), products with packed matrices (product.cpp)
// and with rows of bytes (rows.cpp), rotations (rotate.cpp) and column-wise error feedback (walk.cpp).
//
// *_portable.cpp, *_avx2.cpp and *_avx512.cpp hold the same routines for each instruction set; dispatch.cpp
// chooses.
#include "../../formats/parallel.hpp"
#include "../arrays.hpp"
#include "dispatch.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace icml::quantize {
void bind_encode(nb::module_ &m);
void bind_product(nb::module_ &m);
void bind_rotate(nb::module_ &m);
void bind_rows(nb::module_ &m);
void bind_walk(nb::module_ &m);
} // namespace icml::quantize

NB_MODULE(_kernel, m) {
    m.doc() =
        "Kernels of quantize: trellis search, products with packed matrices, rotations, error feedback.";
    icml::formats::watch_forks();
    m.def("instruction_sets", &icml::quantize::instruction_sets);
    icml::quantize::bind_encode(m);
    icml::quantize::bind_product(m);
    icml::quantize::bind_rotate(m);
    icml::quantize::bind_rows(m);
    icml::quantize::bind_walk(m);
}
