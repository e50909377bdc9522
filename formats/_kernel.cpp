// The compiled part of `icml.formats`: text bytes to arrays. It sees bytes and gives arrays; files are
// Python's part.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "columns.hpp"
#include "coordinates.hpp"
#include "edges.hpp"
#include "number.hpp"
#include "parallel.hpp"
#include "pieces.hpp"

namespace nb = nanobind;

namespace icml::formats {
namespace {

// A view of a bytes-like object's memory, from byte `start` on, for as long as this lives.
class Buffer {
  public:
    explicit Buffer(nb::handle object, std::size_t start = 0) {
        if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
        text_ = {static_cast<const char *>(view_.buf), static_cast<std::size_t>(view_.len)};
        text_.remove_prefix(std::min(start, text_.size()));
    }
    ~Buffer() { PyBuffer_Release(&view_); }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;

    std::string_view text() const { return text_; }

  private:
    Py_buffer view_{};
    std::string_view text_;
};

// Gives the memory to a numpy array of one dimension, or of rows of `width` elements.
template <class T> nb::object to_numpy(Array<T> values, std::optional<std::size_t> width = std::nullopt) {
    auto held = std::make_unique<Array<T>>(std::move(values));
    T *const data = held->data();
    std::vector<std::size_t> shape{held->size()};
    if (width) shape = {*width ? held->size() / *width : 0, *width};
    const nb::capsule owner(held.get(),
                            [](void *p) noexcept { std::unique_ptr<Array<T>>(static_cast<Array<T> *>(p)); });
    held.release(); // now the capsule's
    return nb::cast(nb::ndarray<nb::numpy, T>(data, shape.size(), shape.data(), owner));
}

nb::object to_str(std::string_view text) {
    return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::tuple py_read_edges(nb::handle data, std::size_t start, std::int64_t first_line, char separator,
                        std::size_t width, std::size_t u, std::size_t v, std::optional<std::size_t> value,
                        int threads, std::size_t piece_bytes) {
    if (u >= width || v >= width || (value && *value >= width)) throw nb::index_error("no such column");
    const Buffer buffer(data, start);
    EdgeTable table;
    {
        nb::gil_scoped_release release;
        table = read_edges(buffer.text(), first_line, {separator, width, u, v, value}, threads, piece_bytes);
    }
    nb::object values = value ? to_numpy(std::move(table.value)) : nb::none();
    nb::object names = table.integer_ids ? to_numpy(std::move(table.ids))
                                         : nb::make_tuple(nb::bytes(table.arena.data(), table.arena.size()),
                                                          to_numpy(std::move(table.ends)));
    return nb::make_tuple(to_numpy(std::move(table.u)), to_numpy(std::move(table.v)), std::move(values),
                          to_numpy(std::move(table.line)), std::move(names));
}

using Ids = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::tuple py_number_edges(const Ids &u, const Ids &v) {
    if (u.size() != v.size()) throw nb::value_error("u and v differ in length");
    EdgeTable table;
    {
        nb::gil_scoped_release release;
        table = number_edges({u.data(), u.size()}, {v.data(), v.size()});
    }
    return nb::make_tuple(to_numpy(std::move(table.u)), to_numpy(std::move(table.v)),
                          to_numpy(std::move(table.ids)));
}

Kind kind_of(char c) {
    switch (c) {
    case 's':
        return Kind::skip;
    case 'n':
        return Kind::number;
    case 't':
        return Kind::text;
    case 'g':
        return Kind::guess;
    }
    throw nb::value_error("a column's kind is one of s, n, t, g");
}

nb::tuple py_read_columns(nb::handle data, std::size_t start, std::int64_t first_line, char separator,
                          const std::string &kinds, std::vector<std::string> names, bool allow_nonfinite,
                          int threads, std::size_t piece_bytes) {
    if (names.size() != kinds.size()) throw nb::value_error("names and kinds differ in length");
    ColumnLayout layout{separator, {}, std::move(names), allow_nonfinite};
    for (char c : kinds) layout.kinds.push_back(kind_of(c));
    const Buffer buffer(data, start);
    ColumnTable table;
    {
        nb::gil_scoped_release release;
        table = read_columns(buffer.text(), first_line, std::move(layout), threads, piece_bytes);
    }
    nb::list texts;
    for (std::size_t column = 0; column < table.text_columns; ++column) {
        nb::list cells;
        for (std::size_t i = column; i < table.cells.size(); i += table.text_columns)
            cells.append(to_str(table.cells[i]));
        texts.append(cells);
    }
    std::string settled;
    for (Kind kind : table.kinds) settled += kind == Kind::skip ? 's' : kind == Kind::number ? 'n' : 't';
    nb::object numbers =
        table.number_columns ? to_numpy(std::move(table.numbers), table.number_columns) : nb::none();
    return nb::make_tuple(settled, std::move(numbers), std::move(texts), to_numpy(std::move(table.line)));
}

Role role_of(char c) {
    switch (c) {
    case 's':
        return Role::skip;
    case 'i':
        return Role::index;
    case 'l':
        return Role::label;
    case 'v':
        return Role::value;
    }
    throw nb::value_error("a column's role is one of s, i, l, v");
}

nb::tuple py_read_coordinates(nb::handle data, std::size_t start, std::int64_t first_line, char separator,
                              const std::string &roles, std::vector<std::string> names,
                              std::vector<std::int64_t> limits, std::int64_t base, bool allow_nonfinite,
                              int threads, std::size_t piece_bytes) {
    if (names.size() != roles.size() || limits.size() != roles.size())
        throw nb::value_error("roles, names and limits differ in length");
    if (std::ranges::count(roles, 'v') > 1) throw nb::value_error("more than one column of values");
    CoordinateLayout layout{separator, {}, std::move(names), std::move(limits), base, allow_nonfinite};
    for (char c : roles) layout.roles.push_back(role_of(c));
    const Buffer buffer(data, start);
    CoordinateTable table;
    {
        nb::gil_scoped_release release;
        table = read_coordinates(buffer.text(), first_line, layout, threads, piece_bytes);
    }
    nb::list labels;
    for (std::optional<LabelText> &text : table.labels) {
        if (text)
            labels.append(nb::make_tuple(nb::bytes(text->arena.data(), text->arena.size()),
                                         to_numpy(std::move(text->ends))));
        else
            labels.append(nb::none());
    }
    nb::object value = std::ranges::count(roles, 'v') ? to_numpy(std::move(table.value)) : nb::none();
    return nb::make_tuple(to_numpy(std::move(table.index)), std::move(labels), std::move(value),
                          to_numpy(std::move(table.line)));
}

nb::tuple py_read_number_lines(nb::handle data, std::size_t start, std::int64_t first_line) {
    const Buffer buffer(data, start);
    NumberLines lines;
    {
        nb::gil_scoped_release release;
        lines = read_number_lines(buffer.text(), first_line);
    }
    return nb::make_tuple(to_numpy(std::move(lines.numbers)), to_numpy(std::move(lines.ends)),
                          to_numpy(std::move(lines.line)));
}

// The first `limit` data lines, short of the first one at fault, as (0-based line, offset of the next line,
// fields).
nb::list py_sample(nb::handle data, std::size_t start, char separator, std::size_t limit) {
    const Buffer buffer(data, start);
    std::string_view rest = buffer.text();
    nb::list rows;
    Fields fields;
    try {
        for (std::int64_t number = 0; !rest.empty() && nb::len(rows) < limit; ++number) {
            const std::string_view line = take_line(rest);
            check_text(line);
            if (is_skipped(line)) continue;
            fields.split(line, separator);
            nb::list cells;
            for (std::size_t i = 0; i < fields.size(); ++i) cells.append(to_str(fields[i]));
            rows.append(nb::make_tuple(number, start + buffer.text().size() - rest.size(), std::move(cells)));
        }
    } catch (const LineError &) { // reported with its place by whoever reads the whole text
    }
    return rows;
}

bool py_is_number(std::string_view text) {
    double ignored;
    return parse_number(text, ignored);
}

} // namespace
} // namespace icml::formats

NB_MODULE(_kernel, m) {
    using namespace icml::formats;
    using namespace nb::literals;
    m.doc() = "Kernels of icml.formats: text bytes to arrays.";
    watch_forks();

    const nb::object parse_error = nb::exception<ParseError>(m, "ParseError", PyExc_ValueError);
    nb::register_exception_translator(
        [](const std::exception_ptr &pointer, void *type) {
            try {
                std::rethrow_exception(pointer);
            } catch (const ParseError &error) {
                const nb::tuple arguments = nb::make_tuple(error.what(), error.line);
                PyErr_SetObject(static_cast<PyObject *>(type), arguments.ptr());
            }
        },
        parse_error.ptr());

    m.def("read_edges", &py_read_edges, "data"_a, "start"_a, "first_line"_a, "separator"_a, "width"_a, "u"_a,
          "v"_a, "value"_a.none(), "threads"_a = 0, "piece_bytes"_a = 0,
          "Lines of an edge list to (u, v, value or None, line, ids or (arena, ends)).");
    m.def("number_edges", &py_number_edges, "u"_a, "v"_a,
          "int64 ids (m,), (m,) to (u, v, ids), nodes numbered by first appearance, row by row.");
    m.def(
        "read_columns", &py_read_columns, "data"_a, "start"_a, "first_line"_a, "separator"_a, "kinds"_a,
        "names"_a, "allow_nonfinite"_a = false, "threads"_a = 0, "piece_bytes"_a = 0,
        "Lines of a table to (settled kinds, float64 (n, k) or None, one list of str a text column, line).");
    m.def(
        "read_coordinates", &py_read_coordinates, "data"_a, "start"_a, "first_line"_a, "separator"_a,
        "roles"_a, "names"_a, "limits"_a, "base"_a = 0, "allow_nonfinite"_a = false, "threads"_a = 0,
        "piece_bytes"_a = 0,
        "Lines of a sparse tensor to (int64 indices axis by axis, for each axis None or (arena, ends) of its "
        "labels, float64 (n,) or None, line).");
    m.def("read_number_lines", &py_read_number_lines, "data"_a, "start"_a, "first_line"_a,
          "Lines of numbers, blank ones included, to (numbers, end of each line's numbers, line).");
    m.def("sample", &py_sample, "data"_a, "start"_a, "separator"_a, "limit"_a,
          "The first data lines as (0-based line, offset of the next line, fields).");
    m.def("is_number", &py_is_number, "text"_a,
          "Whether read_edges would take `text` for a number, finite or not.");
}
