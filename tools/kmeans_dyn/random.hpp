// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): a counter and a
// mixer, so that a checkpoint holds its whole state in one number.
#pragma once

#include <cassert>
#include <cstdint>

namespace icml::kcenter {

inline std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

class CounterRng {
  public:
    explicit CounterRng(std::uint64_t seed) : counter_(mix(seed)) {}

    std::uint64_t counter() const { return counter_; }
    void set_counter(std::uint64_t counter) { counter_ = counter; }

    // Uniform in 0..bound-1 (Lemire's multiplication; the bias is below 2^-32 of the probability for any
    // 31-bit bound).
    std::uint32_t below(std::uint32_t bound) {
        assert(bound > 0);
        return static_cast<std::uint32_t>(((next() >> 32) * bound) >> 32);
    }

  private:
    std::uint64_t next() { return mix(counter_ += 0x9e3779b97f4a7c15ULL); }

    std::uint64_t counter_;
};

} // namespace icml::kcenter
