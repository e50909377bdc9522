// What the tile kernels are asked to do: plain structs, shared by every instruction set.
#pragma once

#include <cstdint>

namespace icml::einfact {

// How a cell's contribution to numerator, denominator and loss follows from y and the model's value x.
enum class Rule : int {
    kl,         // (1, 0)
    euclidean,  // (1, 1)
    is,         // (1, -1)
    beta,       // (1, b), b not in {0, 1, -1}
    sum_one,    // (a, 1-a)
    general,    // no limit
    beta_zero,  // (a, 0)
    sum_zero,   // (a, -a)
    alpha_zero, // (0, b)
    both_zero,  // (0, 0)
    data,       // numerator w*y, no model (the Euclidean shortcut)
    weight,     // numerator w, no model
    model,      // numerator w*x
};

template <class T> struct RuleParameters {
    Rule rule;
    T alpha, beta;
    T floor;    // x is never below this
    T den_loss; // the loss holds this times x times the denominator's term
};

// Types in which data may lie in memory; tiles are converted as they are loaded.
enum class Source : int { f32, f64, u8, i8, u16, i16, u32, i32, u64, i64 };

struct Strided {
    const void *base = nullptr;
    Source type = Source::f32;
    const std::int64_t *row = nullptr;    // element offset of each row of the block
    const std::int64_t *column = nullptr; // and of each column; null: column q is q elements on
    std::int64_t origin = 0;              // offset of the block's first cell
};

// One bit a cell in the same addressing; base null: every bit is set.
struct Bits {
    const std::uint8_t *base = nullptr;
    const std::int64_t *row = nullptr;
    const std::int64_t *column = nullptr;
    std::int64_t origin = 0;
};

// Rows of a sparse matrix, columns ascending in each.
struct Rows {
    const std::int64_t *start = nullptr;
    const std::int32_t *column = nullptr;
    const void *value = nullptr; // of the kernel's type
};

// Rows [row0, row1) x columns [column0, column1) of one P x Q matrix.
template <class T> struct DenseBlock {
    RuleParameters<T> rule;
    Strided y, w;        // w.base null: weight 1
    Bits observed, held; // held without observed: all cells that are not held out are observed
    Rows sparse;         // start not null: the data are these rows instead of y
    const T *left;       // P x rank
    const T *right;      // rank x Q
    std::int64_t rank, columns;
    std::int64_t row0, row1, column0, column1;
    bool want_loss, want_den, want_left, want_right;
    // Sums are added here; null where not wanted. left_*: P x rank, right_*: rank x Q, as indexed by row0,
    // column0.
    double *left_num, *left_den, *right_num, *right_den;
    double loss, held_loss; // out
    T *scratch;             // scratch_size(…) elements, 64-byte aligned
    int tile;               // columns of a tile
};

template <class T> struct SparseBlock {
    RuleParameters<T> rule;
    const std::int64_t *start;
    const std::int32_t *column;
    const T *value; // null for rules that do not look at y
    const T *left;  // rows x stride
    const T *right; // columns x stride
    std::int64_t rank, stride;
    std::int64_t row0, row1;
    bool want_loss;
    double *num;        // rows x rank, or null
    T *terms;           // numerator's term of each entry, or null
    double loss, model; // out: sums of the y part of the loss and of x times the denominator's term
};

// Columns [column0, column1): sums of given terms times rows of `left`.
template <class T> struct ColumnBlock {
    const std::int64_t *start;
    const std::int32_t *row;
    const std::int32_t *entry; // position of the entry in row order
    const T *terms;
    const T *left; // rows x stride
    std::int64_t rank, stride;
    std::int64_t column0, column1;
    double *num; // columns x rank
};

template <class T> struct ProductBlock { // out rows = left * right, no floor
    const T *left;
    const T *right;
    T *out;
    std::int64_t rank, columns, row0, row1;
};

template <class T> struct Routines {
    void (*dense)(DenseBlock<T> &);
    void (*sparse)(SparseBlock<T> &);
    void (*columns)(const ColumnBlock<T> &);
    void (*product)(const ProductBlock<T> &);
    void (*powers)(const T *in, T *log_out, T *exp_out, std::int64_t n); // for tests: log and exp of each
};

struct InstructionSet {
    const char *name;
    bool (*usable)();
    Routines<float> f32;
    Routines<double> f64;
};

constexpr int row_group = 8;   // rows of a tile
constexpr int row_block = 256; // rows between two flushes of single-precision sums into double

// Elements of scratch one dense block needs.
constexpr std::int64_t scratch_size(std::int64_t rank, int tile) {
    return rank * tile * 3 + row_group * tile * 2 + 4 * tile + row_group * rank + 256;
}

template <class T> const Routines<T> &routines();

} // namespace icml::einfact
