// The compiled part of `cclust-lb`: lower bounds (packing.cpp) and clusterings (clustering.cpp).
#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace icml::cclust {
void bind_packing(nb::module_ &m);
void bind_clustering(nb::module_ &m);
} // namespace icml::cclust

NB_MODULE(_kernel, m) {
    m.doc() = "Kernels of cclust-lb: obstruction packings and local search over clusterings.";
    icml::cclust::bind_packing(m);
    icml::cclust::bind_clustering(m);
}
