// Tail-biting Viterbi search over the bitshift trellis, packing, and the way back.
//
// The ring is opened where it is known best: a first search over the ring turned by half (or a window around
// its seam) fixes the bits across the seam, a second one over the whole ring keeps them. Refinements open the
// ring where the path found so far passes, elsewhere each time, so that no seam stays as it was first
// guessed.
#include "../../formats/parallel.hpp"
#include "../arrays.hpp"
#include "dispatch.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <span>

namespace icml::quantize {

namespace {

constexpr std::int64_t free_end = -1;                           // no constraint on the bits at an end
constexpr std::array refinement_places = {4, 2, 6, 1, 5, 3, 7}; // eighths of the ring

struct Effort {
    int window;      // weights each side of the seam in the first search
    int refinements; // searches after the second
};

template <class T> Aligned<T> copy(std::span<const T> values) {
    Aligned<T> out(values.size());
    std::copy(values.begin(), values.end(), out.get());
    return out;
}

// A codebook's arrays in aligned memory, made once and shared by all threads.
class Code {
  public:
    Code(int state_bits, int bits, In<std::int16_t, 1> value13, In<std::uint8_t, 1> level,
         In<std::int16_t, 1> level_value) {
        const std::size_t states = std::size_t(1) << state_bits;
        require(bits >= 1 && bits <= 4 && state_bits > bits && state_bits <= 16,
                "K is 1..4 and L is K+1..16");
        require(value13.size() == states && level.size() == states, "one value and one level for each state");
        require(level_value.size() == cost_levels, "128 levels");
        for (std::size_t s = 0; s < states; ++s) require(level.data()[s] < cost_levels, "levels are 0..127");
        for (int i = 0; i < cost_levels; ++i)
            require(std::abs(level_value.data()[i]) <= 4096, "levels are within 4 standard deviations");
        value13_ = copy(std::span(value13.data(), states));
        level_ = copy(std::span(level.data(), states));
        level_value_ = copy(std::span(level_value.data(), std::size_t(cost_levels)));
        value10_ = Aligned<std::int16_t>(std::max<std::size_t>(states, 32));
        value10_turned_ = Aligned<std::int16_t>(std::max<std::size_t>(states, 32));
        for (std::size_t s = 0; s < states; ++s) { // swap the middle quarters of each 32
            const std::size_t at = (s & ~std::size_t(24)) | (s & 8) << 1 | (s & 16) >> 1;
            value10_.get()[s] = value10_turned_.get()[at] = level_value.data()[level.data()[s]];
        }
        tables_ = {state_bits,         bits,           value13_.get(),       level_.get(),
                   level_value_.get(), value10_.get(), value10_turned_.get()};
    }
    const CodeTables &tables() const { return tables_; }

  private:
    Aligned<std::int16_t> value13_, level_value_, value10_, value10_turned_;
    Aligned<std::uint8_t> level_;
    CodeTables tables_;
};

struct Span { // a stretch of the ring to search, and what is known about its ends
    const int *x;
    int length;
    std::int64_t head = free_end; // s_0 >> K
    std::int64_t tail = free_end; // s_{length-1} mod 2^(L-K)
    int until = 0;                // trace back to here
};

// Memory that a thread's searches take turns in; it grows to what the largest needed.
class Workspace {
  public:
    template <class T> T *take(std::size_t n) {
        const std::size_t first = (used_ + 63) / 64 * 64;
        used_ = first + n * sizeof(T);
        return reinterpret_cast<T *>(memory_.get() + first);
    }
    void reserve(std::size_t bytes) {
        used_ = 0;
        if (bytes > size_) memory_ = Aligned<std::byte>(size_ = bytes);
    }

  private:
    Aligned<std::byte> memory_;
    std::size_t size_ = 0, used_ = 0;
};

// The search with one kind of cost.
template <class Cost> class Search {
  public:
    Search(const CodeTables &code, const Recursion<Cost> &recursion, int longest, Workspace &workspace)
        : code_(code), recursion_(recursion),
          stride_((std::size_t(code.groups()) * recursion.decision_bits / 32 + 16) / 16 * 16) {
        const std::size_t decisions = stride_ * std::size_t(longest);
        workspace.reserve(2 * states() * sizeof(Cost) + 4 * decisions + 256);
        cost_ = workspace.take<Cost>(states());
        next_ = workspace.take<Cost>(states());
        decisions_ = workspace.take<std::uint32_t>(decisions);
    }

    void run(const Span &span, std::uint32_t *state) {
        first_step(span);
        sweep(span);
        std::uint32_t s = final_state(span.tail);
        state[span.length - 1] = s;
        for (int t = span.length - 1; t > span.until; --t) {
            const std::uint32_t group = s >> code_.bits;
            s = recursion_.predecessor(decisions_ + stride_ * std::size_t(t), group) * code_.groups() + group;
            state[t - 1] = s;
        }
    }

  private:
    std::size_t states() const { return std::max<std::size_t>(std::size_t(1) << code_.state_bits, 64); }

    // Steps 1, 2, …, the odd ones less the floor that the step before found.
    void sweep(const Span &span) {
        const bool by_two = recursion_.two_steps != nullptr && code_.groups() >= recursion_.two_smallest;
        std::uint32_t floor = 0;
        for (int t = 1; t < span.length;) {
            const bool keep = t + 1 > span.until;
            if (by_two && t + 1 < span.length) {
                floor = step(recursion_.two_steps, {span.x[t], span.x[t + 1]}, t, floor, keep);
                t += 2;
            } else {
                floor = step(recursion_.step, {span.x[t], 0}, t, t % 2 == 1 ? floor : 0, keep);
                ++t;
            }
        }
    }

    std::uint32_t step(Step<Cost> step, std::array<int, 2> x, int t, std::uint32_t floor, bool keep) {
        std::uint32_t *decisions = decisions_ + stride_ * std::size_t(t);
        const std::uint32_t found =
            step({cost_, next_, {decisions, decisions + stride_}, &code_, {x[0], x[1]}, floor, keep});
        std::swap(cost_, next_);
        return found;
    }

    // Every state is reached at its own distance, or only those that continue `head`.
    void first_step(const Span &span) {
        std::fill_n(cost_, states(), Cost(0));
        step(recursion_.step, {span.x[0], 0}, 0, 0, false);
        if (span.head == free_end) return;
        const std::uint32_t ways = 1u << code_.bits, first = std::uint32_t(span.head) << code_.bits;
        Cost kept[16];
        std::copy_n(cost_ + first, ways, kept);
        std::fill_n(cost_, states(), Cost(-1));
        std::copy_n(kept, ways, cost_ + first);
    }

    std::uint32_t final_state(std::int64_t tail) const {
        const Cost *c = cost_;
        const std::uint32_t groups = code_.groups(), count = 1u << code_.state_bits;
        if (tail == free_end) return std::uint32_t(std::min_element(c, c + count) - c);
        std::uint32_t best = std::uint32_t(tail);
        for (std::uint32_t s = best; s < count; s += groups)
            if (c[s] < c[best]) best = s;
        return best;
    }

    const CodeTables &code_;
    Recursion<Cost> recursion_;
    std::size_t stride_;
    Cost *cost_, *next_;
    std::uint32_t *decisions_;
};

// The same with unbounded costs, where saturation let the search leave the ring; slow, and hardly ever
// needed.
std::uint32_t step_unbounded(const StepArguments<std::uint64_t> &a) {
    const std::uint32_t groups = a.code->groups();
    const int bits = a.code->bits;
    auto *won = reinterpret_cast<std::uint8_t *>(a.decisions[0]);
    for (std::uint32_t j = 0; j < groups; ++j) {
        won[j] = 0;
        for (std::uint32_t p = 1; p < 1u << bits; ++p)
            if (a.cost[p * groups + j] < a.cost[won[j] * groups + j]) won[j] = std::uint8_t(p);
        const std::uint64_t least = a.cost[won[j] * groups + j];
        for (std::uint32_t s = j << bits; s < (j + 1) << bits; ++s) {
            const std::int64_t d = a.x[0] - a.code->value13[s];
            a.next[s] = least == std::uint64_t(-1) ? least : least + std::uint64_t(d * d);
        }
    }
    return 0;
}

constexpr Recursion<std::uint64_t> unbounded{
    step_unbounded,
    [](const std::uint32_t *decisions, std::uint32_t group) -> std::uint32_t {
        return reinterpret_cast<const std::uint8_t *>(decisions)[group];
    },
    1, 8};

void to_fixed_point(const float *x, int length, int fraction_bits, int *out) {
    const float one = float(1 << fraction_bits), most = 4 * one - (fraction_bits == 13 ? 1.0f : 0.0f);
    for (int t = 0; t < length; ++t) out[t] = int(std::lrintf(std::clamp(x[t] * one, -most, most)));
}

template <class Cost> class TileEncoder {
  public:
    TileEncoder(const CodeTables &code, const Recursion<Cost> &recursion, int length, Effort effort,
                Workspace &workspace)
        : code_(code), length_(length), window_(std::min(effort.window, length / 2)),
          refinements_(effort.refinements), search_(code, recursion, length, workspace),
          fixed_(std::size_t(length)), turned_(std::size_t(length)), found_(std::size_t(length)) {}

    // States of the closed path chosen for x.
    void encode(const float *x, std::uint32_t *state) {
        close(x, state);
        to_fixed_point(x, length_, fraction_bits, fixed_.data());
        for (int i = 0; i < refinements_; ++i) refine(int(refinement_places[i] * length_ / 8), state);
    }

  private:
    static constexpr int fraction_bits = sizeof(Cost) == 1 ? 10 : 13;

    void close(const float *x, std::uint32_t *state) {
        to_fixed_point(x, length_, fraction_bits, fixed_.data());
        const int part = 2 * window_;
        turn(fixed_.data(), length_ - window_, turned_.data());
        search_.run({turned_.data(), part, free_end, free_end, window_}, state);
        const std::int64_t seam = state[window_] >> code_.bits;
        search_.run({fixed_.data(), length_, seam, seam}, state);
        if (state[0] >> code_.bits == seam) return;
        to_fixed_point(x, length_, 13, fixed_.data());
        Workspace own;
        Search<std::uint64_t>(code_, unbounded, length_, own)
            .run({fixed_.data(), length_, seam, seam}, state);
        assert(state[0] >> code_.bits == seam);
    }

    // The best path of all that pass where this one does at `place`.
    void refine(int place, std::uint32_t *state) {
        turn(fixed_.data(), place, turned_.data());
        const std::int64_t seam = state[place] >> code_.bits;
        search_.run({turned_.data(), length_, seam, seam}, found_.data());
        if (found_[0] >> code_.bits == seam) turn(found_.data(), length_ - place, state);
    }

    // The ring from `first` on.
    template <class T> void turn(const T *ring, int first, T *out) const {
        std::rotate_copy(ring, ring + first % length_, ring + length_, out);
    }

    const CodeTables &code_;
    int length_, window_, refinements_;
    Search<Cost> search_;
    std::vector<int> fixed_, turned_;
    std::vector<std::uint32_t> found_;
};

// recursion, or the portable one where the trellis is too small for it
template <class Cost>
const Recursion<Cost> &fitting(const CodeTables &code, const Recursion<Cost> &recursion,
                               const Recursion<Cost> &plain) {
    return recursion.step != nullptr && code.groups() >= recursion.smallest ? recursion : plain;
}

template <class Cost>
void encode_all(const CodeTables &code, const Recursion<Cost> &recursion, In<float, 2> x, Effort effort,
                int threads, std::uint16_t *states) {
    const auto count = std::int64_t(x.shape(0));
    const int length = int(x.shape(1));
    const int used = formats::usable_threads(std::max(threads, 1));
    formats::parallel_for(std::size_t(count), used, [&](std::size_t i) {
        thread_local Workspace workspace;
        thread_local std::vector<std::uint32_t> state;
        state.resize(std::size_t(length));
        const std::size_t at = i * std::size_t(length);
        TileEncoder<Cost>(code, recursion, length, effort, workspace).encode(x.data() + at, state.data());
        std::copy(state.begin(), state.end(), states + at);
    });
}

Out<std::uint16_t> search(const Code &code, In<float, 2> x, int window, int refinements, bool narrow,
                          int threads, const std::string &isa) {
    const CodeTables &tables = code.tables();
    const int length = int(x.shape(1));
    require(length % 2 == 0 && length * tables.bits >= tables.state_bits,
            "tiles of an even length, at least L bits");
    require(window >= 1, "a window of at least one weight");
    require(refinements >= 0 && refinements <= int(refinement_places.size()), "at most 7 refinements");
    const Effort effort{window, refinements};
    require(!narrow || tables.bits == 2, "costs of 8 bits are for K = 2");
    const InstructionSet &set = instruction_set(isa);
    Result<std::uint16_t> states{x.shape(0), x.shape(1)};
    {
        nb::gil_scoped_release release;
        if (narrow)
            encode_all(tables, fitting(tables, *set.narrow, *portable_set.narrow), x, effort, threads,
                       states.data());
        else
            encode_all(tables, fitting(tables, set.wide[tables.bits], portable_set.wide[tables.bits]), x,
                       effort, threads, states.data());
    }
    return states.release();
}

// The new bits of each state, most significant first; 32 of them a word.
Out<std::uint32_t> pack(In<std::uint16_t, 2> states, int bits) {
    const std::size_t length = states.shape(1), words = length * std::size_t(bits) / 32;
    require(bits >= 1 && bits <= 4 && words * 32 == length * std::size_t(bits), "whole words of 32 bits");
    Result<std::uint32_t> packed{states.shape(0), words};
    for (std::size_t i = 0; i < states.shape(0); ++i) {
        std::uint64_t pending = 0;
        int held = 0;
        std::uint32_t *out = packed.data() + i * words;
        for (std::size_t t = 0; t < length; ++t) {
            pending = pending << bits | (states.data()[i * length + t] & ((1u << bits) - 1));
            held += bits;
            if (held < 32) continue;
            held -= 32;
            *out++ = std::uint32_t(pending >> held);
        }
    }
    return packed.release();
}

Out<std::uint16_t> unpack(In<std::uint32_t, 2> packed, int state_bits, int bits) {
    const std::size_t words = packed.shape(1);
    require(bits >= 1 && bits <= 4 && state_bits <= 16 && words >= 1 && words * 32 % std::size_t(bits) == 0,
            "whole weights in whole words");
    const std::size_t length = words * 32 / std::size_t(bits);
    Result<std::uint16_t> states{packed.shape(0), length};
    for (std::size_t i = 0; i < packed.shape(0); ++i)
        for (std::size_t t = 0; t < length; ++t)
            states.data()[i * length + t] = std::uint16_t(
                ring_bits(packed.data() + i * words, int(words), int(t + 1) * bits, state_bits));
    return states.release();
}

} // namespace

void bind_encode(nb::module_ &m) {
    nb::class_<Code>(m, "Code").def(
        nb::init<int, int, In<std::int16_t, 1>, In<std::uint8_t, 1>, In<std::int16_t, 1>>());
    m.def("search", &search, nb::arg("code"), nb::arg("x"), nb::arg("window"), nb::arg("refinements"),
          nb::arg("narrow"), nb::arg("threads"), nb::arg("isa"));
    m.def("pack", &pack, nb::arg("states"), nb::arg("bits"));
    m.def("unpack", &unpack, nb::arg("packed"), nb::arg("state_bits"), nb::arg("bits"));
}

} // namespace icml::quantize
