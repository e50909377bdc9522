// Products of packed matrices with vectors: activations made ready, rows shared out to threads.
#include "../arrays.hpp"
#include "dispatch.hpp"
#include "ranges.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace icml::quantize {

namespace {

// int8 activations in the forms the dot products of bytes (AVX-512) and of 16-bit pairs (AVX2) want, a word a
// column, or, for K = 2, a word for columns k (high half) and 8 + k (low half).
struct Activations {
    std::vector<std::int32_t> bytes, words;
    std::vector<std::int64_t> sum; // of each vector

    Activations(const std::int8_t *x, std::size_t vectors, std::size_t columns, bool paired)
        : bytes(vectors * columns / (paired ? 2 : 1)), words(bytes.size()), sum(vectors) {
        for (std::size_t v = 0; v < vectors; ++v)
            for (std::size_t i = 0; i < columns; ++i) sum[v] += x[v * columns + i];
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            const std::int8_t *tile = x + (paired ? i / 8 * 16 : 0);
            const std::int8_t low = paired ? tile[i % 8 + 8] : x[i], high = paired ? tile[i % 8] : x[i];
            const auto byte = [](std::int8_t b) { return std::uint32_t(std::uint8_t(b)); };
            const auto word = [](std::int8_t b) { return std::uint32_t(std::uint16_t(std::int16_t(b))); };
            bytes[i] = std::int32_t((byte(low) | byte(low) << 8 | byte(high) << 16 | byte(high) << 24));
            words[i] = std::int32_t(word(low) | word(high) << 16);
        }
    }
};

// A packed trellis matrix and the routines that multiply by it.
struct Trellis {
    In<std::int32_t, 3> packed;
    TrellisProduct product{};
    const InstructionSet *routines;

    Trellis(In<std::int32_t, 3> packed, int family, std::uint32_t a, std::uint32_t b, int state_bits,
            int bits, const std::string &isa)
        : packed(packed) {
        require(family >= 0 && family <= 2, "families are 0..2");
        require(bits >= 1 && bits <= 4 && state_bits > bits && state_bits <= 16,
                "K is 1..4 and L is K+1..16");
        require(packed.shape(2) == std::size_t(tile_words(bits)), "tiles of 8 K words");
        product.generator = {Family(family), a, b};
        product.state_bits = state_bits;
        product.bits = bits;
        // the stored type is signed because torch has few operations on the unsigned one
        product.packed = reinterpret_cast<const std::uint32_t *>(packed.data());
        product.tiles = std::int64_t(packed.shape(1));
        product.rows = std::int64_t(packed.shape(0)) * tile_side;
        const InstructionSet &set = instruction_set(isa);
        routines = set.covers(product) ? &set : &portable_set;
    }
    std::int64_t stripes() const { return std::int64_t(packed.shape(0)); }
    std::size_t columns() const { return std::size_t(product.tiles) * tile_side; }
};

// Calls f(first vector, how many) with 4, 2 or 1 vectors.
template <class F> void in_fours(std::size_t vectors, const F &f) {
    for (std::size_t v = 0; v < vectors;) {
        const std::size_t rest = vectors - v, now = rest >= 4 ? 4 : rest >= 2 ? 2 : 1;
        f(v, now);
        v += now;
    }
}

// Sums over columns of the centred byte sums times x: int64 [vectors, rows].
Out<std::int64_t> trellis_integer(const Trellis &w, In<std::int8_t, 2> x, int threads) {
    require(x.shape(1) == w.columns(), "an activation for each column");
    const std::size_t vectors = x.shape(0), rows = std::size_t(w.product.rows);
    Result<std::int64_t> sums{vectors, rows};
    {
        nb::gil_scoped_release release;
        const bool paired = w.product.bits == 2;
        const bool centred = w.routines == &portable_set;
        in_fours(vectors, [&](std::size_t v, std::size_t now) {
            const Activations ready(x.data() + v * w.columns(), centred ? 0 : now, w.columns(), paired);
            in_ranges(w.stripes(), w.stripes() * std::int64_t(now * w.columns()) * tile_side, threads,
                      [&](std::int64_t first, std::int64_t last) {
                          TrellisProduct p = w.product;
                          p.stripe0 = first;
                          p.stripe1 = last;
                          p.vectors = int(now);
                          p.x8 = x.data() + v * w.columns();
                          p.bytes = ready.bytes.data();
                          p.words = ready.words.data();
                          p.sums = sums.data() + v * rows;
                          w.routines->integer(p);
                      });
            if (centred) return;
            for (std::size_t i = 0; i < now * rows; ++i)
                sums.data()[v * rows + i] -= byte_sum_centre * ready.sum[i / rows];
        });
    }
    return sums.release();
}

Out<float> trellis_exact(const Trellis &w, In<float, 2> x, int threads) {
    require(x.shape(1) == w.columns(), "an activation for each column");
    const std::size_t vectors = x.shape(0), rows = std::size_t(w.product.rows);
    Result<float> products{vectors, rows};
    {
        nb::gil_scoped_release release;
        in_fours(vectors, [&](std::size_t v, std::size_t now) {
            in_ranges(w.stripes(), w.stripes() * std::int64_t(now * w.columns()) * tile_side, threads,
                      [&](std::int64_t first, std::int64_t last) {
                          TrellisProduct p = w.product;
                          p.stripe0 = first;
                          p.stripe1 = last;
                          p.vectors = int(now);
                          p.x = x.data() + v * w.columns();
                          p.products = products.data() + v * rows;
                          w.routines->exact(p);
                      });
        });
    }
    return products.release();
}

// Centred byte sums of stripes [first, last), transposed: float [columns, 16 (last - first)].
Out<float> trellis_decode(const Trellis &w, std::int64_t first, std::int64_t last, int threads) {
    require(0 <= first && first <= last && last <= w.stripes(), "stripes of the matrix");
    const std::int64_t width = (last - first) * tile_side;
    Result<float> out{w.columns(), std::size_t(width)};
    {
        nb::gil_scoped_release release;
        in_ranges(last - first, width * std::int64_t(w.columns()), threads,
                  [&](std::int64_t from, std::int64_t to) {
                      TrellisProduct p = w.product;
                      p.stripe0 = first + from;
                      p.stripe1 = first + to;
                      w.routines->decode(p, out.data() + from * tile_side, width);
                  });
    }
    return out.release();
}

// Trits (weight + 1) [rows, columns], padded to 16, as tiles of 64 bytes.
Out<std::uint8_t> ternary_pack(In<std::uint8_t, 2> codes) {
    const std::size_t rows = codes.shape(0), columns = codes.shape(1);
    require(rows % 16 == 0 && columns % 16 == 0, "whole tiles");
    Result<std::uint8_t> packed{rows / 16, columns / 16, 64};
    for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < columns; ++c) {
            const std::size_t at = (r / 16 * (columns / 16) + c / 16) * 64 + 4 * (r % 16) + c % 4;
            packed.data()[at] |= std::uint8_t((codes.data()[r * columns + c] & 3) << (2 * (c % 16 / 4)));
        }
    return packed.release();
}

// alpha and mu: [stripes, groups, 16].
struct Ternary {
    In<std::uint8_t, 3> packed;
    In<float, 3> alpha, mu;
    TernaryProduct product;
    const InstructionSet &set;

    Ternary(In<std::uint8_t, 3> packed, In<float, 3> alpha, In<float, 3> mu, int group,
            const std::string &isa)
        : packed(packed), alpha(alpha), mu(mu), product{}, set(instruction_set(isa)) {
        require(group >= 16 && group % 16 == 0, "groups of whole tiles");
        product.packed = packed.data();
        product.tiles = std::int64_t(packed.shape(1));
        product.group_tiles = group / tile_side;
        product.groups = (product.tiles + product.group_tiles - 1) / product.group_tiles;
        product.rows = std::int64_t(packed.shape(0)) * tile_side;
        product.alpha = alpha.data();
        product.mu = mu.data();
        for (const auto &scales : {alpha, mu})
            require(scales.shape(0) == packed.shape(0) && std::int64_t(scales.shape(1)) == product.groups &&
                        scales.shape(2) == tile_side,
                    "alpha and mu: stripes x groups x 16");
        require(packed.shape(2) == 64, "tiles of 64 bytes");
    }
};

template <class X> std::vector<X> group_sums(const TernaryProduct &p, const auto *x) {
    std::vector<X> sums(std::size_t(p.groups), X(0));
    const std::int64_t size = p.group_tiles * tile_side;
    for (std::int64_t i = 0; i < p.tiles * tile_side; ++i) sums[std::size_t(i / size)] += X(x[i]);
    return sums;
}

template <class Run> Out<float> ternary(const Ternary &w, std::size_t vectors, int threads, const Run &run) {
    const auto rows = std::size_t(w.product.rows);
    Result<float> products{vectors, rows};
    {
        nb::gil_scoped_release release;
        for (std::size_t v = 0; v < vectors; ++v) {
            TernaryProduct p = w.product;
            p.products = products.data() + v * rows;
            run(p, v, [&](void (*routine)(const TernaryProduct &)) {
                in_ranges(std::int64_t(w.packed.shape(0)), p.rows * p.tiles * tile_side, threads,
                          [&](std::int64_t first, std::int64_t last) {
                              TernaryProduct part = p;
                              part.stripe0 = first;
                              part.stripe1 = last;
                              routine(part);
                          });
            });
        }
    }
    return products.release();
}

// scale[v] * x[v] are the activations; their group sums are exact.
Out<float> ternary_integer(const Ternary &w, In<std::int8_t, 2> x, In<float, 1> scale, int threads) {
    const std::size_t columns = std::size_t(w.product.tiles) * tile_side;
    require(x.shape(1) == columns && scale.shape(0) == x.shape(0),
            "an activation a column, a scale a vector");
    return ternary(w, x.shape(0), threads, [&](TernaryProduct &p, std::size_t v, const auto &launch) {
        p.x8 = x.data() + v * columns;
        p.scale = scale.data()[v];
        std::vector<std::int32_t> bytes(columns / 4);
        std::memcpy(bytes.data(), p.x8, columns);
        const auto sums = group_sums<std::int32_t>(p, p.x8);
        std::vector<float> totals(sums.size());
        for (std::size_t g = 0; g < sums.size(); ++g) totals[g] = p.scale * float(sums[g]);
        p.bytes = bytes.data();
        p.group_sum = sums.data();
        p.group_total = totals.data();
        launch(w.set.ternary_integer);
    });
}

Out<float> ternary_exact(const Ternary &w, In<float, 2> x, int threads) {
    const std::size_t columns = std::size_t(w.product.tiles) * tile_side;
    require(x.shape(1) == columns, "an activation for each column");
    return ternary(w, x.shape(0), threads, [&](TernaryProduct &p, std::size_t v, const auto &launch) {
        p.x = x.data() + v * columns;
        const auto totals = group_sums<float>(p, p.x);
        p.group_total = totals.data();
        launch(w.set.ternary_exact);
    });
}

} // namespace

void bind_product(nb::module_ &m) {
    nb::class_<Trellis>(m, "Trellis")
        .def(
            nb::init<In<std::int32_t, 3>, int, std::uint32_t, std::uint32_t, int, int, const std::string &>(),
            nb::arg("packed"), nb::arg("family"), nb::arg("a"), nb::arg("b"), nb::arg("state_bits"),
            nb::arg("bits"), nb::arg("isa") = "")
        .def("integer", &trellis_integer, nb::arg("x"), nb::arg("threads"))
        .def("exact", &trellis_exact, nb::arg("x"), nb::arg("threads"))
        .def("decode", &trellis_decode, nb::arg("first"), nb::arg("last"), nb::arg("threads"));
    nb::class_<Ternary>(m, "Ternary")
        .def(nb::init<In<std::uint8_t, 3>, In<float, 3>, In<float, 3>, int, const std::string &>(),
             nb::arg("packed"), nb::arg("alpha"), nb::arg("mu"), nb::arg("group"), nb::arg("isa") = "")
        .def("integer", &ternary_integer, nb::arg("x"), nb::arg("scale"), nb::arg("threads"))
        .def("exact", &ternary_exact, nb::arg("x"), nb::arg("threads"));
    m.def("ternary_pack", &ternary_pack, nb::arg("codes"));
}

} // namespace icml::quantize
