// One numbering of strings out of those of several pieces of a text.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>

#include "interner.hpp"
#include "memory.hpp"

namespace icml::formats {

// Gives the keys of all pieces their numbers by first appearance: maps[p][i] is that of piece p's key i.
// Returns the keys in order of their numbers.
inline Array<StringKey> merge_keys(std::span<Interner<StringKey>> pieces,
                                   std::span<Array<std::int32_t>> maps) {
    assert(pieces.size() == maps.size());
    if (pieces.empty()) return {};
    Interner<StringKey> all = std::move(pieces[0]); // its numbers are final already
    maps[0].resize(all.keys().size());
    std::iota(maps[0].begin(), maps[0].end(), 0);
    for (std::size_t p = 1; p < pieces.size(); ++p) {
        const Array<StringKey> keys = pieces[p].release();
        maps[p].resize(keys.size());
        for (std::size_t begin = 0; begin < keys.size(); begin += all.batch) {
            const std::size_t count = std::min(all.batch, keys.size() - begin);
            all.intern(std::span(keys).subspan(begin, count), std::span(maps[p]).subspan(begin, count));
        }
    }
    return all.release();
}

// Lays the keys one after the other into `arena`; `ends` says where each one ends.
inline void join_keys(const Array<StringKey> &keys, std::string &arena, Array<std::int64_t> &ends) {
    std::size_t bytes = 0;
    for (const StringKey &key : keys) bytes += key.view().size();
    arena.reserve(bytes);
    ends.reserve(keys.size());
    for (const StringKey &key : keys) {
        arena += key.view();
        ends.push_back(static_cast<std::int64_t>(arena.size()));
    }
}

} // namespace icml::formats
