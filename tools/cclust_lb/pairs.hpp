// Numbers for the missing pairs that obstructions use: there are too many pairs to number them all.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace icml::cclust {

/// Two nodes without an edge between them, a < b.
struct NodePair {
    int32_t a, b;
};

/// An open-addressing hash table from pairs to consecutive numbers.
class PairTable {
  public:
    PairTable() : slots_(1 << 10, vacant) {}

    std::span<const NodePair> pairs() const { return pairs_; }
    int32_t size() const { return static_cast<int32_t>(pairs_.size()); }

    /// The pair's number, or -1.
    int32_t find(int32_t a, int32_t b) const { return slots_[slot_of(ordered(a, b))]; }

    /// The pair's number, a new one if it had none.
    int32_t insert(int32_t a, int32_t b) {
        const NodePair pair = ordered(a, b);
        size_t slot = slot_of(pair);
        if (slots_[slot] != vacant) return slots_[slot];
        if (2 * (pairs_.size() + 1) > slots_.size()) {
            grow();
            slot = slot_of(pair);
        }
        slots_[slot] = size();
        pairs_.push_back(pair);
        return slots_[slot];
    }

  private:
    static constexpr int32_t vacant = -1;

    static NodePair ordered(int32_t a, int32_t b) { return a < b ? NodePair{a, b} : NodePair{b, a}; }

    /// Where the pair is, or would be put.
    size_t slot_of(NodePair pair) const {
        uint64_t x = static_cast<uint64_t>(pair.a) << 32 | static_cast<uint32_t>(pair.b);
        x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL; // finalizer of MurmurHash3
        x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
        size_t slot = (x ^ (x >> 33)) & (slots_.size() - 1);
        while (slots_[slot] != vacant &&
               (pairs_[slots_[slot]].a != pair.a || pairs_[slots_[slot]].b != pair.b))
            slot = (slot + 1) & (slots_.size() - 1);
        return slot;
    }

    void grow() {
        slots_.assign(2 * slots_.size(), vacant);
        for (int32_t number = 0; number < size(); number++) slots_[slot_of(pairs_[number])] = number;
    }

    std::vector<int32_t> slots_;
    std::vector<NodePair> pairs_;
};

} // namespace icml::cclust
