// Distances from one point to many, sixteen at a time, on whatever vector unit the processor has.
//
// The many lie in blocks of sixteen, coordinate by coordinate, so that every lane adds up its own distance in
// the order of the coordinates: AVX-512, AVX2 and the portable code give the same bits. "Raw" distances are
// what the scans compare: squared for the Euclidean metric, the distance itself for the others.
#pragma once

#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "words.hpp"

namespace icml::kcenter {

enum class Metric : std::uint8_t { euclidean, manhattan, chebyshev, hamming, precomputed };

inline constexpr int lanes = 16;
inline constexpr double largest_coordinate = 1e30; // distances then fit into a float
inline constexpr double infinity = std::numeric_limits<double>::infinity();

// Where points live: the metric, how many words a point takes, and how they are stored.
//   hamming      64 coordinates a word
//   precomputed  one word, the row number in `matrix`
struct Space {
    Metric metric = Metric::euclidean;
    int width = 0;
    const double *matrix = nullptr;
    std::int64_t rows = 0;
    Storage storage = Storage::float64;

    // Whether the words are a point whose distances can be computed.
    bool holds(const double *words) const;
    double real(double raw) const { return metric == Metric::euclidean ? std::sqrt(raw) : raw; }
    double raw_distance(const double *a, const double *b) const;
    double distance(const double *a, const double *b) const { return real(raw_distance(a, b)); }
};

// Points in blocks of sixteen as the scans see them: one of the pointers is null.
struct BlockView {
    const double *wide;
    const float *narrow;
    int count;
};

// A growing array of points in blocks of sixteen.
class Blocks {
  public:
    // As the space's points are stored, or in double precision, which comparing all with all is faster in.
    explicit Blocks(const Space &space) : Blocks(space.width, space.storage) {}
    explicit Blocks(int width, Storage storage = Storage::float64) : width_(width), words_(storage) {}

    int size() const { return size_; }
    int width() const { return width_; }
    BlockView view() const { return {words_.wide(), words_.narrow(), size_}; }

    void push(const double *point) {
        if (size_ % lanes == 0) words_.resize(words_.size() + static_cast<std::size_t>(lanes) * width_);
        set(size_++, point);
    }
    void set(int i, const double *point) { words_.write(offset(i), width_, point, lanes); }
    void pop() {
        assert(size_ > 0);
        if (--size_ % lanes == 0) words_.resize(words_.size() - static_cast<std::size_t>(lanes) * width_);
    }
    void get(int i, double *point) const { words_.read(offset(i), width_, point, lanes); }

  private:
    std::size_t offset(int i) const { // of its first coordinate
        assert(0 <= i && i < size_);
        return static_cast<std::size_t>(i / lanes) * width_ * lanes + i % lanes;
    }

    int width_, size_ = 0;
    Words words_;
};

struct Hit {
    std::int32_t index = -1;
    double raw = infinity;
};

// The hot loops for one instruction set. Rows of floats are padded to a multiple of sixteen.
struct Scans {
    // The first of the points whose raw distance to x is at most `limit`; index -1 without one.
    Hit (*first_within)(const Space &space, const double *x, const BlockView &blocks, double limit);
    // The nearest point; of equally near ones the first.
    Hit (*nearest)(const Space &space, const double *x, const BlockView &blocks);
    // Distances to all, rounded to float; the padding is infinite.
    void (*row)(const Space &space, const double *x, const BlockView &blocks, float *out);
    // Total weight of the entries at most r.
    std::int32_t (*sum_within)(const float *row, const std::int32_t *weight, int padded, float r);
    // counts[a] -= weight wherever row[a] is at most r.
    void (*subtract_within)(const float *row, std::int32_t *counts, int padded, float r, std::int32_t weight);
};

// The scans for "portable", "avx2", "avx512" or "auto": the best that this processor has.
// Throws std::invalid_argument for one that it does not have.
const Scans &scans(std::string_view instruction_set);

inline int padded(int count) {
    return (count + lanes - 1) / lanes * lanes;
}

} // namespace icml::kcenter
