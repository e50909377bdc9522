#include "binding.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../formats/parallel.hpp"
#include "ladder.hpp"
#include "structure.hpp"

namespace icml::kcenter {

namespace {

nb::list id_list(const Points &points, const std::vector<std::int32_t> &slots) {
    nb::list ids;
    for (const std::int32_t slot : slots) ids.append(to_str(points[slot].id));
    return ids;
}

// Coordinates of slots, decoded; with precomputed distances none.
nb::object coordinates_of(const Structure &structure, const std::vector<std::int32_t> &slots) {
    const auto dimension = static_cast<std::size_t>(structure.encoding().dimension());
    std::vector<double> coordinates(slots.size() * dimension), x(structure.space().width);
    for (std::size_t i = 0; i < slots.size(); ++i)
        structure.encoding().decode(structure.points().at(slots[i], x.data()),
                                    coordinates.data() + i * dimension);
    return to_numpy(std::move(coordinates), dimension);
}

nb::object words_of(const Structure &structure, const std::vector<std::int32_t> &slots) {
    const auto width = static_cast<std::size_t>(structure.space().width);
    std::vector<double> words(slots.size() * width), x(width);
    for (std::size_t i = 0; i < slots.size(); ++i)
        std::copy_n(structure.points().at(slots[i], x.data()), width, words.data() + i * width);
    return to_numpy(std::move(words), width);
}

std::vector<std::int32_t> live_slots(const Points &points) {
    std::vector<std::int32_t> slots;
    for (std::int32_t slot = points.oldest(); slot >= 0; slot = points[slot].newer) slots.push_back(slot);
    return slots;
}

nb::dict answer(Structure &structure, int k, std::int64_t z, double sticky) {
    Answer answer;
    {
        const nb::gil_scoped_release release;
        answer = structure.answer(k, z, sticky);
    }
    nb::dict result;
    result["radius"] = structure.encoding().report(answer.radius);
    result["lower"] = structure.encoding().report(answer.lower);
    result["ids"] = id_list(structure.points(), answer.centers);
    result["coordinates"] = coordinates_of(structure, answer.centers);
    result["words"] = words_of(structure, answer.centers);
    result["sizes"] = to_numpy(std::move(answer.sizes));
    result["outliers"] = id_list(structure.points(), answer.outliers);
    result["layers"] = answer.layers;
    result["coreset"] = answer.coreset;
    result["recourse"] = answer.recourse;
    return result;
}

// For every row of points the number of the nearest center and the distance to it.
nb::tuple nearest(const Structure &structure, const Rows &centers, const Rows &points) {
    const Space &space = structure.space();
    if (static_cast<int>(centers.shape(1)) != space.width)
        throw std::invalid_argument("centers of another space");
    Blocks blocks(space);
    for (std::size_t j = 0; j < centers.shape(0); ++j) {
        const double *const center = centers.data() + j * centers.shape(1);
        if (!space.holds(center)) throw std::invalid_argument("a center is no point");
        blocks.push(center);
    }
    std::vector<std::int64_t> index(points.shape(0));
    std::vector<double> distance(points.shape(0)), words(space.width);
    for (std::size_t i = 0; i < points.shape(0); ++i) {
        structure.encoding().encode(points.data() + i * points.shape(1), words.data());
        const Hit hit = scans("auto").nearest(space, words.data(), blocks.view());
        index[i] = hit.index;
        distance[i] = structure.encoding().report(space.real(hit.raw));
    }
    return nb::make_tuple(to_numpy(std::move(index)), to_numpy(std::move(distance)));
}

nb::dict save(const Structure &structure) {
    Arrays arrays;
    structure.save(arrays);
    nb::dict result;
    for (auto &[name, values] : arrays.reals) result[name.c_str()] = to_numpy(std::move(values));
    for (auto &[name, values] : arrays.singles) result[name.c_str()] = to_numpy(std::move(values));
    for (auto &[name, values] : arrays.integers) result[name.c_str()] = to_numpy(std::move(values));
    for (auto &[name, text] : arrays.texts)
        result[name.c_str()] = to_numpy(std::vector<std::uint8_t>(text.begin(), text.end()));
    return result;
}

template <class T> bool copy_if(nb::handle value, auto store) {
    nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu> array;
    if (!nb::try_cast(value, array, false)) return false;
    store(array.data(), array.data() + array.shape(0));
    return true;
}

void load(Structure &structure, const nb::dict &saved) {
    Arrays arrays;
    for (const auto &[key, value] : saved) {
        const auto name = nb::cast<std::string>(key);
        const bool known =
            copy_if<double>(value, [&](auto a, auto b) { arrays.reals[name].assign(a, b); }) ||
            copy_if<float>(value, [&](auto a, auto b) { arrays.singles[name].assign(a, b); }) ||
            copy_if<std::int64_t>(value, [&](auto a, auto b) { arrays.integers[name].assign(a, b); }) ||
            copy_if<std::uint8_t>(value, [&](auto a, auto b) { arrays.texts[name].assign(a, b); });
        if (!known) throw BadState("array '" + name + "' has another type");
    }
    for (const auto &[name, text] : arrays.texts) {
        PyObject *const decoded = PyUnicode_DecodeUTF8(text.data(), std::ssize(text), "strict");
        if (!decoded) throw nb::python_error();
        Py_DECREF(decoded);
    }
    structure.load(arrays);
}

nb::dict counters(const Structure &structure) {
    const Layers &layers = structure.layers();
    nb::dict result;
    nb::list live;
    for (int d = 0; d < layers.depth(); ++d) live.append(layers.at(d).live);
    result["layers"] = live;
    result["rebuilds"] = layers.rebuilds();
    result["full_rebuilds"] = layers.full_rebuilds();
    result["distances"] = layers.distances();
    result["sample"] = structure.settings().sample_size();
    result["fine_sample"] = structure.settings().fine_sample_size();
    result["slots"] = structure.points().slots();
    return result;
}

// Holds what the structure only points to.
struct PyStructure {
    std::optional<Rows> matrix;
    std::unique_ptr<Structure> structure;

    Structure &operator*() const { return *structure; }
};

void construct(PyStructure *self, std::string_view metric, int dimension, int k, double z, bool z_is_share,
               double eps, bool strict, std::uint64_t seed, int threads, std::string_view instruction_set,
               std::optional<Rows> matrix, bool single) {
    if (k < 1) throw std::invalid_argument("k must be at least 1");
    if (!(z >= 0)) throw std::invalid_argument("z must not be negative");
    if (!(eps > 0 && eps <= 1)) throw std::invalid_argument("eps must be in (0, 1]");
    if (matrix && matrix->shape(0) != matrix->shape(1))
        throw std::invalid_argument("the matrix is not square");
    if ((metric == "precomputed") != matrix.has_value())
        throw std::invalid_argument("a matrix goes with metric precomputed and nothing else");
    const Settings settings{k, z, z_is_share, eps, strict, seed, formats::usable_threads(threads)};
    const Matrix entries =
        matrix ? Matrix{matrix->data(), static_cast<std::int64_t>(matrix->shape(0))} : Matrix{};
    const Storage storage = single ? Storage::float32 : Storage::float64;
    auto structure = std::make_unique<Structure>(Encoding(metric, dimension, storage), settings,
                                                 instruction_set, entries, poll_signals());
    new (self) PyStructure{std::move(matrix), std::move(structure)};
}

std::int64_t insert(PyStructure &self, nb::handle ids, const std::optional<Rows> &points, int conflict) {
    const Ids names(ids);
    const auto dimension = static_cast<std::size_t>((*self).encoding().dimension());
    if (dimension > 0 ? !points || points->shape(0) != names.views().size() || points->shape(1) != dimension
                      : points.has_value())
        throw std::invalid_argument("expected as many points as ids, of " + std::to_string(dimension) +
                                    " coordinates each");
    const nb::gil_scoped_release release;
    return (*self).insert_all(names.views(), points ? points->data() : nullptr,
                              static_cast<Conflict>(conflict));
}

std::int64_t erase(PyStructure &self, nb::handle ids, int conflict) {
    const Ids names(ids);
    const nb::gil_scoped_release release;
    return (*self).erase_all(names.views(), static_cast<Conflict>(conflict));
}

} // namespace

Structure &structure_of(nb::handle object) {
    return **nb::cast<PyStructure *>(object);
}

void bind_structure(nb::module_ &m) {
    using namespace nb::literals;
    nb::exception<BadState>(m, "BadState", PyExc_ValueError);
    nb::class_<PyStructure>(m, "Structure",
                            "Named points that come and go, and the layers that summarise them.")
        .def("__init__", construct, "metric"_a, "dimension"_a, "k"_a, "z"_a, "z_is_share"_a = false,
             "eps"_a = 0.2, "strict"_a = false, "seed"_a = 0, "threads"_a = 1, "instruction_set"_a = "auto",
             "matrix"_a = nb::none(), "single"_a = false)
        .def("insert", insert, "ids"_a, "points"_a.none(), "conflict"_a = 0)
        .def("erase", erase, "ids"_a, "conflict"_a = 0)
        .def(
            "set_window",
            [](PyStructure &s, std::int64_t count, double span) { (*s).set_window({count, span}); },
            "count"_a, "span"_a)
        .def(
            "rebuild", [](PyStructure &s) { (*s).rebuild(); }, nb::call_guard<nb::gil_scoped_release>())
        .def(
            "answer",
            [](PyStructure &s, int k, std::int64_t z, double sticky) { return answer(*s, k, z, sticky); },
            "k"_a, "z"_a, "sticky"_a = 0.0)
        .def(
            "nearest",
            [](const PyStructure &s, const Rows &centers, const Rows &points) {
                return nearest(*s, centers, points);
            },
            "centers"_a, "points"_a)
        .def(
            "lower_bound_on_all",
            [](PyStructure &s, int k, std::int64_t z) {
                return (*s).encoding().report((*s).lower_bound_on_all(k, z));
            },
            "k"_a, "z"_a, nb::call_guard<nb::gil_scoped_release>())
        .def("ids", [](const PyStructure &s) { return id_list((*s).points(), live_slots((*s).points())); })
        .def("coordinates",
             [](const PyStructure &s) { return coordinates_of(*s, live_slots((*s).points())); })
        .def("words", [](const PyStructure &s) { return words_of(*s, live_slots((*s).points())); })
        .def(
            "validate", [](const PyStructure &s) { (*s).validate(); },
            nb::call_guard<nb::gil_scoped_release>())
        .def("counters", [](const PyStructure &s) { return counters(*s); })
        .def("save", [](const PyStructure &s) { return save(*s); })
        .def(
            "load", [](PyStructure &s, const nb::dict &saved) { load(*s, saved); }, "arrays"_a)
        .def_prop_ro("size", [](const PyStructure &s) { return (*s).size(); })
        .def_prop_ro("updates", [](const PyStructure &s) { return (*s).updates(); });
    nb::class_<RadiusLadder>(m, "RadiusLadder", "One clustering for every radius guess, for comparison.")
        .def(nb::init<int, int, std::int64_t, double, double, double>(), "dimension"_a, "k"_a, "z"_a, "eps"_a,
             "smallest"_a, "largest"_a)
        .def(
            "insert",
            [](RadiusLadder &ladder, std::int32_t first, const Rows &points) {
                for (std::size_t i = 0; i < points.shape(0); ++i)
                    ladder.insert(first + static_cast<std::int32_t>(i), points.data() + i * points.shape(1));
            },
            "first"_a, "points"_a, nb::call_guard<nb::gil_scoped_release>())
        .def(
            "erase",
            [](RadiusLadder &ladder, std::int32_t first, std::int32_t count) {
                for (std::int32_t slot = first; slot < first + count; ++slot) ladder.erase(slot);
            },
            "first"_a, "count"_a, nb::call_guard<nb::gil_scoped_release>())
        .def("recluster", &RadiusLadder::recluster, "slots"_a, nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("guesses", &RadiusLadder::guesses)
        .def_prop_ro("distances", &RadiusLadder::distances);
}

} // namespace icml::kcenter
