// The dense pass: a fixed grid of blocks over all batches, shared out to threads, summed in a fixed order.
//
// The grid depends on the sizes alone and every block's sums go to a place of their own, so the bytes of the
// result do not depend on the number of threads.
#include "../arrays.hpp"
#include "dispatch.hpp"
#include "threads.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cassert>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

namespace icml::einfact {
namespace {

using Offsets = In<std::int64_t, 1>;

using AnyArray = nb::ndarray<nb::ro, nb::device::cpu>;
using Bytes = In<std::uint8_t, 1>;

// Where the cells of a B x P x Q problem lie: offsets, in elements, of batches, rows and columns add up.
struct Layout {
    Offsets batch, row;
    std::optional<Offsets> column;

    void check(std::int64_t b, std::int64_t p, std::int64_t q) const {
        require(std::int64_t(batch.size()) == b && std::int64_t(row.size()) == p,
                "offsets do not fit the shape");
        require(!column || std::int64_t(column->size()) == q, "column offsets do not fit the shape");
    }
    const std::int64_t *columns() const { return column ? column->data() : nullptr; }
};

Source source_type(const AnyArray &array) {
    const nb::dlpack::dtype type = array.dtype();
    const int bits = type.bits;
    if (type.code == std::uint8_t(nb::dlpack::dtype_code::Float)) {
        if (bits == 32) return Source::f32;
        if (bits == 64) return Source::f64;
    } else if (type.code == std::uint8_t(nb::dlpack::dtype_code::Int)) {
        if (bits == 8) return Source::i8;
        if (bits == 16) return Source::i16;
        if (bits == 32) return Source::i32;
        if (bits == 64) return Source::i64;
    } else if (type.code == std::uint8_t(nb::dlpack::dtype_code::UInt)) {
        if (bits == 8) return Source::u8;
        if (bits == 16) return Source::u16;
        if (bits == 32) return Source::u32;
        if (bits == 64) return Source::u64;
    }
    throw std::invalid_argument("unsupported type of data");
}

// The data of a pass; keeps the arrays alive.
class DenseData {
  public:
    DenseData(std::int64_t batches, std::int64_t rows, std::int64_t columns)
        : b_(batches), p_(rows), q_(columns) {
        require(b_ > 0 && p_ > 0 && q_ > 0, "empty data");
    }

    void set_values(AnyArray values, Offsets batch, Offsets row, std::optional<Offsets> column) {
        set(values_, values_layout_, std::move(values), {batch, row, column});
    }

    void set_weights(AnyArray weights, Offsets batch, Offsets row, std::optional<Offsets> column) {
        set(weights_, weights_layout_, std::move(weights), {batch, row, column});
    }

    // Bit masks that share one layout; `origin` is the bit of the first cell.
    void set_bits(std::optional<Bytes> observed, std::optional<Bytes> held, std::int64_t origin,
                  Offsets batch, Offsets row, std::optional<Offsets> column) {
        bits_layout_ = Layout{batch, row, column};
        bits_layout_->check(b_, p_, q_);
        observed_ = observed, held_ = held, origin_ = origin;
    }

    // Rows batch * P + p of a sparse matrix instead of an array of values.
    void set_sparse(Offsets start, In<std::int32_t, 1> column, AnyArray value) {
        require(std::int64_t(start.size()) == b_ * p_ + 1, "row starts do not fit the shape");
        start_ = start, column_ = column, sparse_value_ = std::move(value);
    }

    std::int64_t batches() const { return b_; }
    std::int64_t rows() const { return p_; }
    std::int64_t columns() const { return q_; }

    template <class T> void locate(std::int64_t batch, DenseBlock<T> &block) const {
        if (values_) block.y = strided(*values_, *values_layout_, batch);
        if (weights_) block.w = strided(*weights_, *weights_layout_, batch);
        if (observed_) block.observed = bits(*observed_, batch);
        if (held_) block.held = bits(*held_, batch);
        if (start_) {
            const Source want = sizeof(T) == 4 ? Source::f32 : Source::f64;
            require(source_type(*sparse_value_) == want, "sparse values must have the type of the pass");
            block.sparse = Rows{start_->data() + batch * p_, column_->data(), sparse_value_->data()};
        }
    }

    bool has_values() const { return values_ || start_; }

  private:
    void set(std::optional<AnyArray> &array, std::optional<Layout> &layout, AnyArray &&given, Layout &&at) {
        at.check(b_, p_, q_);
        source_type(given);
        array = std::move(given), layout = std::move(at);
    }

    Strided strided(const AnyArray &array, const Layout &at, std::int64_t batch) const {
        return {array.data(), source_type(array), at.row.data(), at.columns(), at.batch.data()[batch]};
    }

    Bits bits(const Bytes &array, std::int64_t batch) const {
        const Layout &at = *bits_layout_;
        return {array.data(), at.row.data(), at.columns(), origin_ + at.batch.data()[batch]};
    }

    std::int64_t b_, p_, q_, origin_ = 0;
    std::optional<AnyArray> values_, weights_, sparse_value_;
    std::optional<Layout> values_layout_, weights_layout_, bits_layout_;
    std::optional<Bytes> observed_, held_;
    std::optional<Offsets> start_;
    std::optional<In<std::int32_t, 1>> column_;
};

struct Wants {
    bool left, right, den, loss;
};

int tile_columns(std::int64_t columns, std::int64_t rank, std::size_t element, bool right) {
    constexpr std::int64_t least = 64, most = 512, budget = 768 << 10;
    const std::int64_t fits = budget / std::int64_t(element) / rank / (right ? 3 : 1) / least * least;
    return int(std::clamp<std::int64_t>(std::min(fits, (columns + least - 1) / least * least), least, most));
}

// How many parts the rows and the columns of each batch are cut into.
struct Grid {
    std::int64_t rows = 1, columns = 1;

    Grid(std::int64_t batches, std::int64_t p, std::int64_t q, std::int64_t rank, int tile, Wants want) {
        constexpr std::int64_t tasks = 64, budget = 4 << 20; // doubles of partial sums
        while (batches * rows * columns < tasks) {
            const bool more_rows = p >= rows * 2 * row_group * 2, more_columns = q >= columns * 2 * tile;
            if (!more_rows && !more_columns) return;
            const std::int64_t row_cost = want.right ? rank * q : 0, column_cost = want.left ? rank * p : 0;
            const bool take_rows = more_rows && (!more_columns || row_cost <= column_cost);
            const std::int64_t cost = take_rows ? row_cost * rows : column_cost * columns;
            if (cost * batches > budget && batches * rows * columns >= 8) return;
            (take_rows ? rows : columns) *= 2;
        }
    }
};

// One kind of sum: a place for each part of the grid that overlaps in it, the result's own place if there is
// but one.
class Partial {
  public:
    Partial(double *result, std::int64_t parts, std::size_t size)
        : result_(result), parts_(parts), size_(size),
          own_(result && parts > 1 ? std::make_unique<double[]>(parts * size) : nullptr) {}

    double *part(std::int64_t i) const { return own_ ? own_.get() + i * size_ : result_; }

    void reduce(int threads) const {
        if (!own_) return;
        threads = threads_for(double(size_) * parts_, threads);
        constexpr std::int64_t run = 4096;
        const std::int64_t size = std::int64_t(size_);
        run_tasks((size + run - 1) / run, threads, [&](Tasks &tasks) {
            for (std::int64_t task; (task = tasks.next()) >= 0;)
                for (std::int64_t i = task * run; i < std::min((task + 1) * run, size); ++i) {
                    double s = 0;
                    for (std::int64_t k = 0; k < parts_; ++k) s += own_[k * size + i];
                    result_[i] = s;
                }
        });
    }

  private:
    double *result_;
    std::int64_t parts_;
    std::size_t size_;
    std::unique_ptr<double[]> own_;
};

// Where the sums go; null where not wanted.
struct Results {
    double *left_num, *left_den, *right_num, *right_den;
};

template <class T>
using PassResult = std::tuple<std::optional<Out<double>>, std::optional<Out<double>>,
                              std::optional<Out<double>>, std::optional<Out<double>>, double, double>;

template <class T> class Pass {
  public:
    Pass(const DenseData &data, const T *left, const T *right, std::int64_t rank, RuleParameters<T> rule,
         Wants want, Results to)
        : data_(data), left_(left), right_(right), rank_(rank), rule_(rule), want_(want), b_(data.batches()),
          p_(data.rows()), q_(data.columns()), tile_(tile_columns(q_, rank, sizeof(T), want.right)),
          grid_(b_, p_, q_, rank, tile_, want), left_num_(to.left_num, grid_.columns, b_ * p_ * rank),
          left_den_(to.left_den, grid_.columns, b_ * p_ * rank),
          right_num_(to.right_num, grid_.rows, b_ * rank * q_),
          right_den_(to.right_den, grid_.rows, b_ * rank * q_) {}

    void run(int threads) {
        const std::int64_t tasks = b_ * grid_.rows * grid_.columns;
        loss_.assign(tasks, 0), held_.assign(tasks, 0);
        const auto run_block = routines<T>().dense;
        threads = threads_for(double(b_) * p_ * q_ * (rank_ + 10), threads);
        run_tasks(tasks, threads, [&](Tasks &queue) {
            const Aligned<T> scratch(scratch_size(rank_, tile_));
            for (std::int64_t task; (task = queue.next()) >= 0;) {
                DenseBlock<T> block = describe(task);
                block.scratch = scratch.get();
                run_block(block);
                loss_[task] = block.loss, held_[task] = block.held_loss;
            }
        });
    }

    void reduce(int threads) const {
        for (const Partial *sums : {&left_num_, &left_den_, &right_num_, &right_den_}) sums->reduce(threads);
    }

    double loss() const { return total(loss_); }
    double held() const { return total(held_); }

  private:
    DenseBlock<T> describe(std::int64_t task) const {
        const std::int64_t column_part = task % grid_.columns, row_part = task / grid_.columns % grid_.rows,
                           batch = task / grid_.columns / grid_.rows;
        DenseBlock<T> block{};
        data_.locate(batch, block);
        block.rule = rule_;
        block.left = left_ + batch * p_ * rank_;
        block.right = right_ + batch * rank_ * q_;
        block.rank = rank_, block.columns = q_, block.tile = tile_;
        block.row0 = cut(row_part, grid_.rows, p_, row_group),
        block.row1 = cut(row_part + 1, grid_.rows, p_, row_group);
        block.column0 = cut(column_part, grid_.columns, q_, tile_);
        block.column1 = cut(column_part + 1, grid_.columns, q_, tile_);
        block.want_loss = want_.loss, block.want_den = want_.den;
        block.want_left = want_.left, block.want_right = want_.right;
        block.left_num = at(left_num_, column_part, batch * p_ * rank_);
        block.left_den = at(left_den_, column_part, batch * p_ * rank_);
        block.right_num = at(right_num_, row_part, batch * rank_ * q_);
        block.right_den = at(right_den_, row_part, batch * rank_ * q_);
        return block;
    }

    static double *at(const Partial &sums, std::int64_t part, std::int64_t offset) {
        double *start = sums.part(part);
        return start ? start + offset : nullptr;
    }

    // Start of part i of n, on a multiple of `step`.
    static std::int64_t cut(std::int64_t i, std::int64_t n, std::int64_t size, std::int64_t step) {
        if (i == n) return size;
        return std::min(size, (size * i / n + step - 1) / step * step);
    }

    static double total(const std::vector<double> &parts) {
        double s = 0;
        for (double part : parts) s += part;
        return s;
    }

    const DenseData &data_;
    const T *left_, *right_;
    const std::int64_t rank_;
    const RuleParameters<T> rule_;
    const Wants want_;
    const std::int64_t b_, p_, q_;
    const int tile_;
    const Grid grid_;
    Partial left_num_, left_den_, right_num_, right_den_;
    std::vector<double> loss_, held_;
};

// Sums of the numerator's (and denominator's) terms against the other side, and the loss, of the whole data.
template <class T>
PassResult<T> dense_pass(const DenseData &data, In<T, 3> left, In<T, 3> right, int rule, double alpha,
                         double beta, double floor, double den_loss, bool want_left, bool want_right,
                         bool want_den, bool want_loss, int threads) {
    const std::size_t b = data.batches(), p = data.rows(), q = data.columns(), rank = left.shape(2);
    require(left.shape(0) == b && left.shape(1) == p, "left does not fit the data");
    require(right.shape(0) == b && right.shape(1) == rank && right.shape(2) == q,
            "right does not fit the data");
    require(rank > 0 && threads > 0, "rank and threads must be positive");
    const RuleParameters<T> parameters{Rule(rule), T(alpha), T(beta), T(floor), T(den_loss)};
    require(data.has_values() || parameters.rule == Rule::weight || parameters.rule == Rule::model,
            "no data");
    const auto result = [&](bool wanted, std::initializer_list<std::size_t> shape) {
        return wanted ? std::optional<Result<double>>(shape) : std::nullopt;
    };
    auto left_num = result(want_left, {b, p, rank}), left_den = result(want_left && want_den, {b, p, rank});
    auto right_num = result(want_right, {b, rank, q}),
         right_den = result(want_right && want_den, {b, rank, q});
    double loss, held;
    {
        nb::gil_scoped_release release;
        const auto raw = [](auto &r) { return r ? r->data() : nullptr; };
        Pass<T> pass(data, left.data(), right.data(), std::int64_t(rank), parameters,
                     {want_left, want_right, want_den, want_loss},
                     {raw(left_num), raw(left_den), raw(right_num), raw(right_den)});
        pass.run(threads);
        pass.reduce(threads);
        loss = pass.loss(), held = pass.held();
    }
    const auto give = [](auto &r) { return r ? std::optional<Out<double>>(r->release()) : std::nullopt; };
    return {give(left_num), give(left_den), give(right_num), give(right_den), loss, held};
}

// out[b] = left[b] right[b], in double, the sums over c in order.
Out<double> multiply(In<double, 3> left, In<double, 3> right, int threads) {
    const std::size_t b = left.shape(0), m = left.shape(1), k = left.shape(2), n = right.shape(2);
    require(right.shape(0) == b && right.shape(1) == k, "shapes do not fit");
    require(threads > 0, "threads must be positive");
    Result<double> out({b, m, n});
    {
        nb::gil_scoped_release release;
        constexpr std::int64_t rows = 64;
        const std::int64_t parts = (std::int64_t(m) + rows - 1) / rows, tasks = std::int64_t(b) * parts;
        threads = threads_for(double(b) * m * n * k, threads);
        run_tasks(tasks, threads, [&](Tasks &queue) {
            for (std::int64_t task; (task = queue.next()) >= 0;) {
                const std::int64_t batch = task / parts, row0 = task % parts * rows;
                routines<double>().product({left.data() + batch * m * k, right.data() + batch * k * n,
                                            out.data() + batch * m * n, std::int64_t(k), std::int64_t(n),
                                            row0, std::min<std::int64_t>(row0 + rows, m)});
            }
        });
    }
    return out.release();
}

template <class T> std::tuple<Out<T>, Out<T>> powers(In<T, 1> in) {
    const std::size_t n = in.size(), padded = (n + 15) / 16 * 16;
    std::vector<T> from(padded, T(1));
    std::copy(in.data(), in.data() + n, from.begin());
    Result<T> logs({padded}), exps({padded});
    routines<T>().powers(from.data(), logs.data(), exps.data(), std::int64_t(padded));
    return {logs.release(), exps.release()};
}

} // namespace

void bind_dense(nb::module_ &m) {
    nb::class_<DenseData>(m, "DenseData",
                          "Where the cells, weights and masks of a batch x row x column problem lie.")
        .def(nb::init<std::int64_t, std::int64_t, std::int64_t>())
        .def("set_values", &DenseData::set_values, nb::arg("values"), nb::arg("batch"), nb::arg("row"),
             nb::arg("column").none())
        .def("set_weights", &DenseData::set_weights, nb::arg("weights"), nb::arg("batch"), nb::arg("row"),
             nb::arg("column").none())
        .def("set_bits", &DenseData::set_bits, nb::arg("observed").none(), nb::arg("held").none(),
             nb::arg("origin"), nb::arg("batch"), nb::arg("row"), nb::arg("column").none())
        .def("set_sparse", &DenseData::set_sparse, nb::arg("start"), nb::arg("column"), nb::arg("value"));
    m.def("dense_pass", &dense_pass<float>, nb::arg("data"), nb::arg("left").noconvert(),
          nb::arg("right").noconvert(), nb::arg("rule"), nb::arg("alpha"), nb::arg("beta"), nb::arg("floor"),
          nb::arg("den_loss"), nb::arg("want_left"), nb::arg("want_right"), nb::arg("want_den"),
          nb::arg("want_loss"), nb::arg("threads"));
    m.def("dense_pass", &dense_pass<double>, nb::arg("data"), nb::arg("left").noconvert(),
          nb::arg("right").noconvert(), nb::arg("rule"), nb::arg("alpha"), nb::arg("beta"), nb::arg("floor"),
          nb::arg("den_loss"), nb::arg("want_left"), nb::arg("want_right"), nb::arg("want_den"),
          nb::arg("want_loss"), nb::arg("threads"));
    m.def("multiply", &multiply, nb::arg("left"), nb::arg("right"), nb::arg("threads"));
    m.def("powers", &powers<float>, nb::arg("values").noconvert());
    m.def("powers", &powers<double>, nb::arg("values").noconvert());
}

} // namespace icml::einfact
