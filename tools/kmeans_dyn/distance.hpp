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

namespace icml::kcenter {

enum class Metric : std::uint8_t { euclidean, manhattan, chebyshev, hamming, precomputed };

inline constexpr int lanes = 16;
inline constexpr double largest_coordinate = 1e30; // distances then fit into a float
inline constexpr double infinity = std::numeric_limits<double>::infinity();

// Where points live: the metric, and how many 8-byte words a point takes.
//   hamming      64 coordinates a word
//   precomputed  one word, the row number in `matrix`
struct Space {
    Metric metric = Metric::euclidean;
    int width = 0;
    const double *matrix = nullptr;
    std::int64_t rows = 0;

    // Whether the words are a point whose distances can be computed.
    bool holds(const double *words) const;
    double real(double raw) const { return metric == Metric::euclidean ? std::sqrt(raw) : raw; }
    double raw_distance(const double *a, const double *b) const;
    double distance(const double *a, const double *b) const { return real(raw_distance(a, b)); }
};

// A growing array of points in blocks of sixteen.
class Blocks {
  public:
    explicit Blocks(int width = 0) : width_(width) {}

    int size() const { return size_; }
    int width() const { return width_; }
    const double *data() const { return words_.data(); }

    void push(const double *point) {
        if (size_ % lanes == 0) words_.resize(words_.size() + static_cast<std::size_t>(lanes) * width_);
        set(size_++, point);
    }
    void set(int i, const double *point) {
        for (int j = 0; j < width_; ++j) words_[offset(i, j)] = point[j];
    }
    void pop() {
        assert(size_ > 0);
        if (--size_ % lanes == 0) words_.resize(words_.size() - static_cast<std::size_t>(lanes) * width_);
    }
    void get(int i, double *point) const {
        for (int j = 0; j < width_; ++j) point[j] = words_[offset(i, j)];
    }

  private:
    std::size_t offset(int i, int j) const {
        assert(0 <= i && static_cast<std::size_t>(i / lanes + 1) * lanes * width_ <= words_.size());
        return (static_cast<std::size_t>(i / lanes) * width_ + j) * lanes + i % lanes;
    }

    int width_, size_ = 0;
    std::vector<double> words_;
};

struct Hit {
    std::int32_t index = -1;
    double raw = infinity;
};

// The hot loops for one instruction set. Rows of floats are padded to a multiple of sixteen.
struct Scans {
    // The first of `count` points whose raw distance to x is at most `limit`; index -1 without one.
    Hit (*first_within)(const Space &space, const double *x, const double *blocks, int count, double limit);
    // The nearest point; of equally near ones the first.
    Hit (*nearest)(const Space &space, const double *x, const double *blocks, int count);
    // Distances to all, rounded to float; the padding is infinite.
    void (*row)(const Space &space, const double *x, const double *blocks, int count, float *out);
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
