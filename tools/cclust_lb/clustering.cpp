#include <nanobind/nanobind.h>
namespace icml::cclust {
void bind_clustering(nanobind::module_ &) {}
} // namespace icml::cclust
