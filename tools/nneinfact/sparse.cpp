// The sparse pass: rows and columns in parts of about equal numbers of entries; parts depend on the data
// alone.
#include "../arrays.hpp"
#include "dispatch.hpp"
#include "threads.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

namespace icml::einfact {
namespace {

using Offsets = In<std::int64_t, 1>;

constexpr std::int64_t parts = 64;

// Boundaries of about equal work in a list of n runs that start at start[i].
std::vector<std::int64_t> balanced(const std::int64_t *start, std::int64_t n) {
    std::vector<std::int64_t> cuts{0};
    const std::int64_t total = start[n] - start[0] + n;
    for (std::int64_t i = 1; i < parts; ++i) {
        // Runs cost one entry each beside their entries, so that empty ones are shared out too.
        std::int64_t low = cuts.back(), high = n;
        const std::int64_t target = total / parts * i;
        while (low < high) {
            const std::int64_t middle = low + (high - low) / 2;
            if (start[middle] - start[0] + middle < target)
                low = middle + 1;
            else
                high = middle;
        }
        cuts.push_back(low);
    }
    cuts.push_back(n);
    return cuts;
}

template <class T> using Values = std::optional<In<T, 1>>;

// Row sums of the numerator's terms, the terms themselves, and the two parts of the loss.
template <class T>
std::tuple<std::optional<Out<double>>, std::optional<Out<T>>, double, double>
sparse_pass(Offsets start, In<std::int32_t, 1> column, Values<T> value, In<T, 2> left, In<T, 2> right,
            std::int64_t rank, int rule, double alpha, double beta, double floor, bool want_num,
            bool want_terms, bool want_loss, int threads) {
    const std::int64_t rows = std::int64_t(start.size()) - 1, entries = start.data()[rows];
    const std::size_t stride = left.shape(1);
    require(rows >= 0 && std::int64_t(left.shape(0)) == rows, "left does not fit the rows");
    require(right.shape(1) == stride && stride * sizeof(T) % 64 == 0,
            "factor rows must be padded to 64 bytes");
    require(rank > 0 && rank <= std::int64_t(stride) && threads > 0, "rank and threads must be positive");
    require(std::int64_t(column.size()) == entries, "columns do not fit the row starts");
    require(!value || std::int64_t(value->size()) == entries, "values do not fit the row starts");
    auto num =
        want_num ? std::optional<Result<double>>({std::size_t(rows), std::size_t(rank)}) : std::nullopt;
    auto terms = want_terms ? std::optional<Result<T>>({std::size_t(entries)}) : std::nullopt;
    double loss = 0, model = 0;
    {
        nb::gil_scoped_release release;
        const std::vector<std::int64_t> cuts = balanced(start.data(), rows);
        std::vector<double> losses(parts), models(parts);
        const auto run_block = routines<T>().sparse;
        threads = threads_for(double(entries) * (2 * rank + 20), threads);
        const auto work = [&](std::int64_t i) {
            SparseBlock<T> block{};
            block.rule = {Rule(rule), T(alpha), T(beta), T(floor), T(0)};
            block.start = start.data(), block.column = column.data();
            block.value = value ? value->data() : nullptr;
            block.left = left.data(), block.right = right.data();
            block.rank = rank, block.stride = std::int64_t(stride);
            block.row0 = cuts[i], block.row1 = cuts[i + 1];
            block.want_loss = want_loss;
            block.num = num ? num->data() : nullptr, block.terms = terms ? terms->data() : nullptr;
            if (block.row0 < block.row1) run_block(block);
            losses[i] = block.loss, models[i] = block.model;
        };
        run_tasks(parts, threads, [&](Tasks &tasks) {
            for (std::int64_t i; (i = tasks.next()) >= 0;) work(i);
        });
        for (std::int64_t i = 0; i < parts; ++i) loss += losses[i], model += models[i];
    }
    const auto give = [](auto &r) { return r ? std::optional(r->release()) : std::nullopt; };
    return {give(num), give(terms), loss, model};
}

// Column sums: for column q, the sum over its entries of terms[entry] * left[row].
template <class T>
Out<double> column_pass(Offsets start, In<std::int32_t, 1> row, In<std::int32_t, 1> entry, Values<T> terms,
                        In<T, 2> left, std::int64_t rank, int threads) {
    const std::int64_t columns = std::int64_t(start.size()) - 1;
    const std::size_t stride = left.shape(1);
    require(stride * sizeof(T) % 64 == 0 && rank > 0 && rank <= std::int64_t(stride),
            "factor rows must be padded");
    require(row.size() == entry.size() && std::int64_t(row.size()) == start.data()[columns],
            "entries do not fit");
    require(!terms || terms->size() >= entry.size(), "terms do not fit the entries");
    require(threads > 0, "threads must be positive");
    Result<double> num({std::size_t(columns), std::size_t(rank)});
    {
        nb::gil_scoped_release release;
        const std::vector<std::int64_t> cuts = balanced(start.data(), columns);
        const auto run_block = routines<T>().columns;
        threads = threads_for(double(entry.size()) * (rank + 10), threads);
        run_tasks(parts, threads, [&](Tasks &tasks) {
            for (std::int64_t i; (i = tasks.next()) >= 0;)
                run_block({start.data(), row.data(), entry.data(), terms ? terms->data() : nullptr,
                           left.data(), rank, std::int64_t(stride), cuts[i], cuts[i + 1], num.data()});
        });
    }
    return num.release();
}

// The columns of a sparse matrix given by rows: starts, row of each entry, and its position in row order.
std::tuple<Out<std::int64_t>, Out<std::int32_t>, Out<std::int32_t>>
transpose(Offsets start, In<std::int32_t, 1> column, std::int64_t columns) {
    const std::int64_t rows = std::int64_t(start.size()) - 1, entries = start.data()[rows];
    require(std::int64_t(column.size()) == entries, "columns do not fit the row starts");
    Result<std::int64_t> out_start({std::size_t(columns) + 1});
    Result<std::int32_t> out_row({std::size_t(entries)}), out_entry({std::size_t(entries)});
    {
        nb::gil_scoped_release release;
        std::int64_t *at = out_start.data();
        for (std::int64_t k = 0; k < entries; ++k) ++at[column.data()[k] + 1];
        for (std::int64_t q = 0; q < columns; ++q) at[q + 1] += at[q];
        std::vector<std::int64_t> next(at, at + columns);
        for (std::int64_t p = 0; p < rows; ++p)
            for (std::int64_t k = start.data()[p]; k < start.data()[p + 1]; ++k) {
                const std::int64_t to = next[column.data()[k]]++;
                out_row.data()[to] = std::int32_t(p), out_entry.data()[to] = std::int32_t(k);
            }
    }
    return {out_start.release(), out_row.release(), out_entry.release()};
}

// out[index[i]] += values[i], in order.
Out<double> scatter_add(Offsets index, In<double, 2> values, std::int64_t rows) {
    const std::size_t width = values.shape(1);
    require(index.size() == values.shape(0), "one index a row");
    Result<double> out({std::size_t(rows), width});
    {
        nb::gil_scoped_release release;
        for (std::size_t i = 0; i < index.size(); ++i) {
            double *to = out.data() + index.data()[i] * std::int64_t(width);
            for (std::size_t c = 0; c < width; ++c) to[c] += values.data()[i * width + c];
        }
    }
    return out.release();
}

template <class T> void bind_type(nb::module_ &m) {
    m.def("sparse_pass", &sparse_pass<T>, nb::arg("start"), nb::arg("column"),
          nb::arg("value").none().noconvert(), nb::arg("left").noconvert(), nb::arg("right").noconvert(),
          nb::arg("rank"), nb::arg("rule"), nb::arg("alpha"), nb::arg("beta"), nb::arg("floor"),
          nb::arg("want_num"), nb::arg("want_terms"), nb::arg("want_loss"), nb::arg("threads"));
    m.def("column_pass", &column_pass<T>, nb::arg("start"), nb::arg("row"), nb::arg("entry"),
          nb::arg("terms").none().noconvert(), nb::arg("left").noconvert(), nb::arg("rank"),
          nb::arg("threads"));
}

} // namespace

void bind_sparse(nb::module_ &m) {
    bind_type<float>(m);
    bind_type<double>(m);
    m.def("transpose", &transpose, nb::arg("start"), nb::arg("column"), nb::arg("columns"));
    m.def("scatter_add", &scatter_add, nb::arg("index"), nb::arg("values"), nb::arg("rows"));
}

} // namespace icml::einfact
