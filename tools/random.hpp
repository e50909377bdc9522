// SplitMix64 (G. Steele, D. Lea, C. Flood: Fast Splittable Pseudorandom Number Generators, 2014): a counter
// and a mixer, so that one number is the whole state.
#pragma once

#include <cassert>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace icml {

// Scrambles 64 bits, one to one.
inline std::uint64_t mix64(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

// A stream of numbers that is a function of (seed, stream) alone.
class CounterRng {
  public:
    explicit CounterRng(std::uint64_t seed, std::uint64_t stream = 0)
        : counter_(mix64(seed) + mix64(~stream)) {}

    // What a checkpoint keeps.
    std::uint64_t counter() const { return counter_; }
    void set_counter(std::uint64_t counter) { counter_ = counter; }

    std::uint64_t next() { return mix64(counter_ += 0x9e3779b97f4a7c15ULL); }

    // Uniform in 0..bound-1 (Lemire's multiplication; the bias is below 2^-32).
    std::int32_t below(std::int32_t bound) {
        assert(bound > 0);
        return static_cast<std::int32_t>(((next() >> 32) * static_cast<std::uint64_t>(bound)) >> 32);
    }

    // Uniform in [0, 1).
    double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

    bool coin() { return next() >> 63; }

    template <class T> void shuffle(std::span<T> values) {
        for (auto i = static_cast<std::int32_t>(values.size()); i > 1; --i)
            std::swap(values[i - 1], values[below(i)]);
    }

    std::vector<std::int32_t> permutation(std::int32_t n) {
        std::vector<std::int32_t> order(static_cast<std::size_t>(n));
        std::iota(order.begin(), order.end(), 0);
        shuffle(std::span<std::int32_t>(order));
        return order;
    }

  private:
    std::uint64_t counter_;
};

} // namespace icml
