// The compiled part of `nneinfact`: the dense and the sparse pass (dense.cpp, sparse.cpp).
//
// isa_*.cpp hold the same routines for each instruction set, dispatch.cpp chooses among them.
#include "dispatch.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace icml::einfact {
void bind_dense(nb::module_ &m);
void bind_sparse(nb::module_ &m);
} // namespace icml::einfact

NB_MODULE(_kernel, m) {
    m.doc() = "Kernels of nneinfact: one pass over dense or sparse data.";
    m.def("instruction_sets", &icml::einfact::instruction_sets);
    m.def("use_instruction_set", &icml::einfact::use_instruction_set, nb::arg("name"));
    icml::einfact::bind_dense(m);
    icml::einfact::bind_sparse(m);
}
