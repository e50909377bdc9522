// Python's door to the solver: arrays in, a dict of arrays out.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "graph.hpp"
#include "monitor.hpp"
#include "pairs.hpp"
#include "solver.hpp"

namespace nb = nanobind;

namespace icml::cclust {

namespace {

template <class T> using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Out = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <class T> std::span<const T> view(const In<T> &array) {
    return {array.data(), array.size()};
}

/// Hands a vector's memory over to numpy.
template <class T> Out<T> to_numpy(std::vector<T> &&values) {
    auto owned = std::make_unique<std::vector<T>>(std::move(values));
    T *data = owned->data();
    const size_t size = owned->size();
    nb::capsule owner(owned.get(), [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
    owned.release();
    return Out<T>(data, {size}, owner);
}

/// The best packing in the caller's numbers of edges and nodes; missing pairs are numbered as they come.
struct PackingArrays {
    std::vector<uint8_t> kind;
    std::vector<int64_t> begin{0}, rhs, y;
    std::vector<int32_t> elements, pair_u, pair_v;

    PackingArrays(const BestPacking &best, const DegreeOrdered &ordered, std::span<const NodePair> pairs) {
        const int32_t edges = ordered.graph().edges();
        const auto node = ordered.original_node();
        std::unordered_map<int32_t, int32_t> number;
        for (int64_t item = 0; item < best.items.size(); item++) {
            for (const int32_t e : best.items.elements(item)) {
                if (e < edges) {
                    elements.push_back(ordered.original_edge()[e]);
                    continue;
                }
                const auto [at, fresh] = number.try_emplace(e, edges + static_cast<int32_t>(pair_u.size()));
                if (fresh) {
                    const int32_t a = node[pairs[e - edges].a], b = node[pairs[e - edges].b];
                    pair_u.push_back(std::min(a, b));
                    pair_v.push_back(std::max(a, b));
                }
                elements.push_back(at->second);
            }
            begin.push_back(static_cast<int64_t>(elements.size()));
            kind.push_back(static_cast<uint8_t>(best.items.kind(item)));
            rhs.push_back(best.items.rhs(item));
        }
        y = best.y;
    }
};

nb::dict to_dict(PackingArrays &&arrays) {
    nb::dict result;
    result["kind"] = to_numpy(std::move(arrays.kind));
    result["ptr"] = to_numpy(std::move(arrays.begin));
    result["elements"] = to_numpy(std::move(arrays.elements));
    result["rhs"] = to_numpy(std::move(arrays.rhs));
    result["y"] = to_numpy(std::move(arrays.y));
    result["pair_u"] = to_numpy(std::move(arrays.pair_u));
    result["pair_v"] = to_numpy(std::move(arrays.pair_v));
    return result;
}

std::vector<double> cover_of_edges(const Cover &cover, const DegreeOrdered &ordered) {
    std::vector<double> x(ordered.graph().edges(), 0.0);
    for (size_t e = 0; e < x.size() && e < cover.x.size(); e++)
        x[ordered.original_edge()[e]] = std::min(1.0, cover.x[e]);
    return x;
}

nb::list to_list(const std::vector<TracePoint> &trace) {
    nb::list points;
    for (const TracePoint &point : trace)
        points.append(nb::make_tuple(point.seconds, point.lower, point.lp_upper));
    return points;
}

const char *name_of(Finish finish) {
    return finish == Finish::converged ? "converged" : finish == Finish::time ? "time" : "stopped";
}

/// Asks Python whether to stop; also lets Ctrl-C through.
bool ask(const nb::object &should_stop) {
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    return !should_stop.is_none() && nb::cast<bool>(should_stop());
}

nb::dict pack(int32_t nodes, const In<int32_t> &u, const In<int32_t> &v, const In<double> &weight,
              const In<uint8_t> &negative, const Options &options, double seconds,
              const nb::object &should_stop, const nb::object &on_certify) {
    std::unique_ptr<DegreeOrdered> ordered;
    std::unique_ptr<Solver> solver;
    std::unique_ptr<PackingArrays> arrays;
    Monitor monitor(seconds, [&] { return ask(should_stop); });
    const auto report = [&](const TracePoint &point, int64_t pool) {
        if (on_certify.is_none()) return;
        nb::gil_scoped_acquire gil;
        on_certify(point.seconds, point.lower, point.lp_upper, pool);
    };
    {
        nb::gil_scoped_release release;
        ordered =
            std::make_unique<DegreeOrdered>(Graph{nodes, view(u), view(v), view(weight), view(negative)});
        solver = std::make_unique<Solver>(*ordered, options, monitor, report);
        solver->run();
        arrays = std::make_unique<PackingArrays>(solver->best(), *ordered, solver->pairs());
    }
    nb::dict result = to_dict(std::move(*arrays));
    result["value"] = solver->best().value;
    result["integer"] = solver->best().integer;
    result["lp_upper"] = solver->cover().cost;
    result["cover"] = to_numpy(cover_of_edges(solver->cover(), *ordered));
    result["pool"] = solver->largest_pool();
    result["finished"] = name_of(monitor.reason());
    result["trace"] = to_list(solver->trace());
    nb::dict phases;
    for (const auto &[phase, spent] : solver->seconds()) phases[phase.c_str()] = spent;
    result["seconds"] = phases;
    return result;
}

} // namespace

void bind_packing(nb::module_ &m) {
    nb::enum_<CycleRule>(m, "CycleRule", "Which cycles are obstructions.")
        .value("one_negative", CycleRule::one_negative)
        .value("odd_negative", CycleRule::odd_negative);
    nb::class_<Options>(m, "PackingOptions", "How the packing is made.")
        .def(nb::init<>())
        .def_rw("rule", &Options::rule)
        .def_rw("triangles", &Options::triangles)
        .def_rw("cycles", &Options::cycles)
        .def_rw("cliques", &Options::cliques)
        .def_rw("wedges", &Options::wedges)
        .def_rw("stars", &Options::stars)
        .def_rw("garg_koenemann", &Options::garg_koenemann)
        .def_rw("tol", &Options::tol)
        .def_rw("sweeps", &Options::sweeps)
        .def_rw("mu", &Options::mu)
        .def_rw("max_cycle", &Options::max_cycle)
        .def_rw("star", &Options::star)
        .def_rw("max_pool", &Options::max_pool)
        .def_rw("seed", &Options::seed)
        .def_rw("integral", &Options::integral)
        .def_rw("scale_bits", &Options::scale_bits)
        .def_rw("target", &Options::target);
    m.def("pack", &pack, nb::arg("nodes"), nb::arg("u"), nb::arg("v"), nb::arg("weight"), nb::arg("negative"),
          nb::arg("options"), nb::arg("seconds"), nb::arg("should_stop").none(), nb::arg("on_certify").none(),
          "Packs obstructions of a simple graph with u < v; see solver.hpp.");
}

} // namespace icml::cclust
