// What each instruction set offers, and the choice among them, made once at run time.
#pragma once

#include "code.hpp"

#include <string>
#include <vector>

namespace icml::quantize {

constexpr int cost_levels = 128;

// A codebook as the encoder sees it. All arrays are 64-byte aligned.
struct CodeTables {
    int state_bits, bits;               // L, K
    const std::int16_t *value13;        // [2^L] in units of 2^-13, for costs of 16 bits
    const std::uint8_t *level;          // [2^L] which of the 128 levels, for costs of 8 bits
    const std::int16_t *level_value;    // [128] in units of 2^-10
    const std::int16_t *value10;        // [2^L] level_value[level]
    const std::int16_t *value10_turned; // the same, each 32 in the order 0-7, 16-23, 8-15, 24-31
    std::uint32_t groups() const { return 1u << (state_bits - bits); }
};

// One step of the Viterbi recursion: next[s] = min_p cost[p 2^(L-K) + (s >> K)] - floor + distance(x, s), all
// saturating; which p won goes to `decisions`. Returns the smallest of the minima.
//
// Every second step the floor is what the step before returned, in between it is 0; so two steps can be made
// in one sweep over the costs (`two_steps`: x[0] with the floor, then x[1] without), which halves their
// traffic.
template <class Cost> struct StepArguments {
    const Cost *cost;
    Cost *next;
    std::uint32_t *decisions[2]; // decision_bits of each group, for each step
    const CodeTables *code;
    int x[2];
    std::uint32_t floor;
    bool keep; // false: nobody will ask for the decisions
};
template <class Cost> using Step = std::uint32_t (*)(const StepArguments<Cost> &);
using Predecessor = std::uint32_t (*)(const std::uint32_t *decisions, std::uint32_t group);

template <class Cost> struct Recursion {
    Step<Cost> step;
    Predecessor predecessor;
    std::uint32_t smallest; // fewest groups 2^(L-K) it works for
    std::uint32_t decision_bits;
    Step<Cost> two_steps = nullptr; // null: as two steps
    std::uint32_t two_smallest = 0; // fewest groups that works for
};

// Products with a packed trellis matrix, K = 2 or 4 (portable: any). x has 16 * tiles entries a vector.
struct TrellisProduct {
    Generator generator;
    int state_bits, bits;
    const std::uint32_t *packed; // stripes x tiles x 8 K
    std::int64_t tiles;          // tiles in a stripe of 16 rows
    std::int64_t stripe0, stripe1;
    std::int64_t rows;         // 16 * all stripes: distance between two vectors' results
    int vectors;               // 1, 2 or 4
    const std::int8_t *x8;     // vectors x 16 tiles
    const std::int32_t *bytes; // x8 ready for dot products of bytes: see Activations in product.cpp
    const std::int32_t *words; // and of pairs of 16 bits
    const float *x;
    std::int64_t *sums; // vectors x rows: sum of byte sums times x8
    float *products;    // vectors x rows: sum of centred byte sums times x
};

struct TernaryProduct {
    const std::uint8_t
        *packed; // stripes x tiles x 64; byte 4 row + i, bits 2 k: weight + 1 of column 4 k + i
    std::int64_t tiles, group_tiles, groups;
    std::int64_t stripe0, stripe1, rows;
    const float *alpha, *mu;       // stripes x groups x 16
    const std::int8_t *x8;         // 16 tiles
    const std::int32_t *bytes;     // x8, four to a word
    const std::int32_t *group_sum; // of x8
    const float *x, *group_total;  // the same for x
    float scale;                   // of x8
    float *products;               // rows
};

struct InstructionSet {
    const char *name;
    bool (*usable)();
    const Recursion<std::uint8_t> *narrow;  // K = 2
    const Recursion<std::uint16_t> *wide;   // by K, 1..4
    bool (*covers)(const TrellisProduct &); // whether the three below can do it
    void (*integer)(const TrellisProduct &);
    void (*exact)(const TrellisProduct &);
    // out[16 tile + column][16 (stripe - stripe0) + row] = centred byte sum
    void (*decode)(const TrellisProduct &, float *out, std::int64_t out_stride);
    void (*ternary_integer)(const TernaryProduct &);
    void (*ternary_exact)(const TernaryProduct &);
};

extern const InstructionSet portable_set;

// Names of the sets this machine can run, narrowest first.
std::vector<std::string> instruction_sets();

// The named set; the widest usable (or what ICML_QUANTIZE_ISA says) for an empty name.
const InstructionSet &instruction_set(const std::string &name);

} // namespace icml::quantize
