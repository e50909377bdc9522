// Products with packed matrices in plain C++: any K, any L, no special instructions.
#include "portable.hpp"

namespace icml::quantize {

namespace {

// Centred byte sums of one tile, [column][row].
void decode_tile(const TrellisProduct &p, const std::uint32_t *tile, int out[tile_side][tile_side]) {
    for (int row = 0; row < tile_side; ++row)
        for (int column = 0; column < tile_side; ++column) {
            const int end = (tile_side * row + column + 1) * p.bits;
            const std::uint32_t state = ring_bits(tile, tile_words(p.bits), end, p.state_bits);
            out[column][row] = byte_sum(hash(p.generator, state)) - byte_sum_centre;
        }
}

const std::uint32_t *tile_at(const TrellisProduct &p, std::int64_t stripe, std::int64_t tile) {
    return p.packed + (stripe * p.tiles + tile) * tile_words(p.bits);
}

template <class Sum, class X> void multiply(const TrellisProduct &p, const X *x, Sum *out) {
    int weight[tile_side][tile_side];
    for (std::int64_t stripe = p.stripe0; stripe < p.stripe1; ++stripe) {
        Sum total[4][tile_side] = {};
        for (std::int64_t tile = 0; tile < p.tiles; ++tile) {
            decode_tile(p, tile_at(p, stripe, tile), weight);
            for (int v = 0; v < p.vectors; ++v)
                for (int column = 0; column < tile_side; ++column) {
                    const X xc = x[(v * p.tiles + tile) * tile_side + column];
                    for (int row = 0; row < tile_side; ++row)
                        total[v][row] += Sum(weight[column][row]) * Sum(xc);
                }
        }
        for (int v = 0; v < p.vectors; ++v)
            for (int row = 0; row < tile_side; ++row)
                out[v * p.rows + stripe * tile_side + row] = total[v][row];
    }
}

// Four rows of codes (weight + 1) of the columns of a tile: code(row, column).
int code(const std::uint8_t *tile, int row, int column) {
    return tile[4 * row + column % 4] >> (2 * (column / 4)) & 3;
}

template <class Sum, class X, class Finish>
void multiply_ternary(const TernaryProduct &p, const X *x, const Finish &finish) {
    for (std::int64_t stripe = p.stripe0; stripe < p.stripe1; ++stripe) {
        float total[tile_side] = {};
        for (std::int64_t group = 0; group < p.groups; ++group) {
            Sum sum[tile_side] = {};
            const std::int64_t first = group * p.group_tiles, last = first + p.group_tiles;
            for (std::int64_t tile = first; tile < last && tile < p.tiles; ++tile) {
                const std::uint8_t *packed = p.packed + (stripe * p.tiles + tile) * 64;
                for (int row = 0; row < tile_side; ++row)
                    for (int column = 0; column < tile_side; ++column)
                        sum[row] += Sum(code(packed, row, column) - 1) * Sum(x[tile * tile_side + column]);
            }
            const std::int64_t at = (stripe * p.groups + group) * tile_side;
            for (int row = 0; row < tile_side; ++row)
                total[row] += p.alpha[at + row] * finish(sum[row]) + p.mu[at + row] * p.group_total[group];
        }
        for (int row = 0; row < tile_side; ++row) p.products[stripe * tile_side + row] = total[row];
    }
}

} // namespace

bool portable_covers(const TrellisProduct &) {
    return true;
}

void portable_integer(const TrellisProduct &p) {
    multiply<std::int64_t>(p, p.x8, p.sums);
}

void portable_exact(const TrellisProduct &p) {
    multiply<float>(p, p.x, p.products);
}

void portable_decode(const TrellisProduct &p, float *out, std::int64_t out_stride) {
    int weight[tile_side][tile_side];
    for (std::int64_t stripe = p.stripe0; stripe < p.stripe1; ++stripe)
        for (std::int64_t tile = 0; tile < p.tiles; ++tile) {
            decode_tile(p, tile_at(p, stripe, tile), weight);
            for (int column = 0; column < tile_side; ++column) {
                float *to = out + (tile * tile_side + column) * out_stride + (stripe - p.stripe0) * tile_side;
                for (int row = 0; row < tile_side; ++row) to[row] = float(weight[column][row]);
            }
        }
}

void portable_ternary_integer(const TernaryProduct &p) {
    multiply_ternary<std::int32_t>(p, p.x8, [&](std::int32_t sum) { return p.scale * float(sum); });
}

void portable_ternary_exact(const TernaryProduct &p) {
    multiply_ternary<float>(p, p.x, [](float sum) { return sum; });
}

} // namespace icml::quantize
