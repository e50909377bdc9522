// Coordinates in the precision they are stored in.
//
// Single precision halves the memory. It is only a way to store: a coordinate is rounded once, when a point
// comes in, and everything is computed in double precision from what was stored, so that a run equals one in
// double precision on the rounded points, bit for bit.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

namespace icml::kcenter {

enum class Storage : std::uint8_t { float64, float32 };

inline double rounded(double x, Storage storage) {
    return storage == Storage::float32 ? static_cast<double>(static_cast<float>(x)) : x;
}

// An array of numbers that `rounded` leaves as they are.
class Words {
  public:
    explicit Words(Storage storage) {
        if (storage == Storage::float32) numbers_.emplace<std::vector<float>>();
    }
    explicit Words(std::vector<double> numbers) : numbers_(std::move(numbers)) {}
    explicit Words(std::vector<float> numbers) : numbers_(std::move(numbers)) {}

    // Calls with the vector of double or of float.
    auto visit(auto call) const {
        const auto *const narrow = narrow_numbers();
        return narrow ? call(*narrow) : call(*std::get_if<std::vector<double>>(&numbers_));
    }
    auto visit(auto call) {
        auto *const narrow = std::get_if<std::vector<float>>(&numbers_);
        return narrow ? call(*narrow) : call(*std::get_if<std::vector<double>>(&numbers_));
    }

    Storage storage() const { return narrow_numbers() ? Storage::float32 : Storage::float64; }
    std::size_t size() const {
        return visit([](const auto &numbers) { return numbers.size(); });
    }
    void resize(std::size_t size) {
        visit([&](auto &numbers) { numbers.resize(size); });
    }

    // `count` numbers, every `step`-th from `at` on.
    void read(std::size_t at, int count, double *to, std::size_t step = 1) const {
        visit([&](const auto &numbers) {
            assert(count == 0 || at + (count - 1) * step < numbers.size());
            for (int j = 0; j < count; ++j) to[j] = static_cast<double>(numbers[at + j * step]);
        });
    }
    void write(std::size_t at, int count, const double *from, std::size_t step = 1) {
        visit([&]<class T>(std::vector<T> &numbers) {
            assert(count == 0 || at + (count - 1) * step < numbers.size());
            for (int j = 0; j < count; ++j) numbers[at + j * step] = static_cast<T>(from[j]);
        });
    }
    void append(int count, const double *from) {
        const std::size_t at = size();
        resize(at + static_cast<std::size_t>(count));
        write(at, count, from);
    }

    void prefetch(std::size_t at) const {
        visit([&](const auto &numbers) { __builtin_prefetch(&numbers[at], 1); });
    }

    // The numbers themselves if that is how they are stored, else null.
    const double *wide() const {
        const auto *const numbers = std::get_if<std::vector<double>>(&numbers_);
        return numbers ? numbers->data() : nullptr;
    }
    const float *narrow() const { return narrow_numbers() ? narrow_numbers()->data() : nullptr; }

  private:
    const std::vector<float> *narrow_numbers() const { return std::get_if<std::vector<float>>(&numbers_); }

    std::variant<std::vector<double>, std::vector<float>> numbers_;
};

} // namespace icml::kcenter
