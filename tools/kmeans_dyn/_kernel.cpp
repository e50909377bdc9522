// The compiled part of `kcenter-dyn`: the layered structure, the reader of streams, and the greedy for
// matrices.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>

#include "../../formats/parallel.hpp"

namespace nb = nanobind;

namespace icml::kcenter {
void bind_structure(nb::module_ &m);
void bind_reader(nb::module_ &m);
void bind_static(nb::module_ &m);
} // namespace icml::kcenter

NB_MODULE(_kernel, m) {
    m.doc() = "Kernels of kcenter-dyn: layers of samples under insertions and deletions, and the answers "
              "they give.";
    icml::formats::watch_forks();
    icml::kcenter::bind_structure(m);
    icml::kcenter::bind_reader(m);
    icml::kcenter::bind_static(m);
}
