#include <nanobind/nanobind.h>
namespace icml::cclust {
void bind_packing(nanobind::module_ &) {}
} // namespace icml::cclust
