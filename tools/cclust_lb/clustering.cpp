// Bindings of the clustering heuristics (search.hpp).
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "search.hpp"

namespace nb = nanobind;

namespace icml::cclust {
namespace {

template <class T> using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T> std::span<const T> view(const In<T> &array) {
    return {array.data(), array.shape(0)};
}

nb::ndarray<nb::numpy, std::int32_t, nb::ndim<1>> to_numpy(std::vector<std::int32_t> &&values) {
    auto owned = std::make_unique<std::vector<std::int32_t>>(std::move(values));
    std::vector<std::int32_t> *data = owned.get();
    nb::capsule owner(data, [](void *p) noexcept { delete static_cast<std::vector<std::int32_t> *>(p); });
    owned.release();
    return {data->data(), {data->size()}, owner};
}

// Also lets Ctrl-C through, which Python would see only after the search.
bool ask(const nb::object &poll, double cost, std::int64_t steps) {
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    return !poll.is_none() && nb::cast<bool>(poll(cost, steps));
}

nb::tuple search_clusters(std::int32_t nodes, const In<std::int32_t> &u, const In<std::int32_t> &v,
                          const In<double> &weight, const In<std::uint8_t> &negative, bool two_clusters,
                          bool complete, Heuristic heuristic, const In<std::int32_t> &start, double seconds,
                          std::int64_t steps, double target, int streams, std::uint64_t seed,
                          const nb::object &poll) {
    const Graph edges{nodes, view(u), view(v), view(weight), view(negative)};
    SearchOptions options{heuristic, seed, streams, {seconds, steps, target, {}}};
    options.limits.poll = [&](double cost, std::int64_t done) { return ask(poll, cost, done); };
    Found found;
    {
        nb::gil_scoped_release release;
        found = search(edges, two_clusters, complete, options, view(start));
    }
    return nb::make_tuple(to_numpy(std::move(found.labels)), found.cost, found.steps);
}

} // namespace

void bind_clustering(nb::module_ &m) {
    nb::enum_<Heuristic>(m, "Heuristic", "How a clustering is looked for.")
        .value("pivot", Heuristic::pivot)
        .value("local", Heuristic::local)
        .value("louvain", Heuristic::louvain)
        .value("ils", Heuristic::ils);
    m.def("search_clusters", &search_clusters, nb::arg("nodes"), nb::arg("u"), nb::arg("v"),
          nb::arg("weight"), nb::arg("negative"), nb::arg("two_clusters"), nb::arg("complete"),
          nb::arg("heuristic"), nb::arg("start"), nb::arg("seconds"), nb::arg("steps"), nb::arg("target"),
          nb::arg("streams"), nb::arg("seed"), nb::arg("poll").none(),
          "Looks for a clustering with few disagreements; returns (labels, cost as the moves added up, "
          "steps).");
}

} // namespace icml::cclust
