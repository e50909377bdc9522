// The bitshift trellis: what a packed tile means.
//
// A tile is 16 rows x 16 columns, t = 16 * row + column, K bits a weight. Its 256 K bits are a ring, kept
// most significant bit first in 8 K words of 32 bits; the state of weight t is the L bits of the ring that
// end with its own K bits, and its value is the sum of the four bytes of a hash of the state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace icml::quantize {

constexpr int tile_side = 16;
constexpr int tile_size = tile_side * tile_side;
constexpr int tile_words(int bits) {
    return 8 * bits;
}
constexpr int byte_sum_centre = 510; // mean of the sum of four uniform bytes, 4 * 127.5

enum class Family : int { mul32 = 0, mulx = 1, mul16 = 2 };

struct Generator {
    Family family;
    std::uint32_t a, b; // multipliers; b of mul16 alone
};

inline std::uint32_t hash(const Generator &g, std::uint32_t state) {
    if (g.family == Family::mul16) {
        const std::uint32_t low = std::uint16_t(state * g.a), high = std::uint16_t(state * g.b);
        return low | high << 16;
    }
    const std::uint32_t p = state * g.a;
    return g.family == Family::mulx ? p ^ p >> 15 : p;
}

inline int byte_sum(std::uint32_t p) {
    return int(p & 255) + int(p >> 8 & 255) + int(p >> 16 & 255) + int(p >> 24);
}

// State of the weight whose bits end just before bit `end` of the ring of `words` words; end >= 1, length
// <= 16.
inline std::uint32_t ring_bits(const std::uint32_t *ring, int words, int end, int length) {
    const int last = (end - 1) >> 5, before = last == 0 ? words - 1 : last - 1;
    const std::uint64_t window = std::uint64_t(ring[before]) << 32 | ring[last];
    return std::uint32_t(window >> (31 - ((end - 1) & 31))) & ((1u << length) - 1);
}

} // namespace icml::quantize
