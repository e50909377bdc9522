#include "binding.hpp"

#include <optional>

#include "reader.hpp"

namespace icml::kcenter {

Structure &structure_of(nb::handle object);

namespace {

const char *name_of(Event::Kind kind) {
    switch (kind) {
    case Event::Kind::needs_structure:
        return "needs_structure";
    case Event::Kind::due:
        return "due";
    case Event::Kind::query:
        return "query";
    case Event::Kind::score:
        return "score";
    case Event::Kind::checkpoint:
        return "checkpoint";
    }
    return "";
}

nb::object next(Reader &reader) {
    std::optional<Event> event;
    try {
        const nb::gil_scoped_release release;
        event = reader.next();
    } catch (const BadLine &bad) {
        const nb::object error =
            nb::module_::import_("icml.tools.kmeans_dyn._kernel").attr("BadLine")(bad.message, bad.line);
        PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error.ptr())), error.ptr());
        throw nb::python_error();
    }
    if (!event) return nb::none();
    nb::list words;
    for (const std::string &word : event->words) words.append(to_str(word));
    return nb::make_tuple(name_of(event->kind), event->line, words, to_numpy(std::move(event->coordinates)));
}

} // namespace

void bind_reader(nb::module_ &m) {
    using namespace nb::literals;
    m.attr("BadLine") =
        nb::steal(PyErr_NewException("icml.tools.kmeans_dyn._kernel.BadLine", PyExc_ValueError, nullptr));
    nb::class_<Reader>(m, "Reader",
                       "Parses lines of a stream and applies them until something has to be answered.")
        .def(
            "__init__",
            [](Reader *self, char separator, bool timed, bool implied, bool ids_only,
               std::vector<int> columns, int conflict, std::int64_t first_line) {
                new (self) Reader({separator, timed, implied, ids_only, std::move(columns)},
                                  static_cast<Conflict>(conflict), first_line);
            },
            "separator"_a, "timed"_a, "implied"_a, "ids_only"_a, "columns"_a, "conflict"_a, "first_line"_a)
        .def(
            "attach", [](Reader &reader, nb::handle structure) { reader.attach(&structure_of(structure)); },
            "structure"_a, nb::keep_alive<1, 2>())
        .def("announce_every", &Reader::announce_every, "updates"_a)
        .def(
            "push",
            [](Reader &reader, nb::bytes bytes, bool last) {
                reader.push({bytes.c_str(), bytes.size()}, last);
            },
            "data"_a, "last"_a)
        .def("next", next)
        .def_prop_ro("line", &Reader::line);
}

} // namespace icml::kcenter
