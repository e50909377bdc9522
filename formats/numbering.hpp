// Numbering of integer ids in order of first appearance: by a table with a place for every integer in their
// range if that is not much larger than the ids are many, as it is for most graphs, else by hashing.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include "interner.hpp"
#include "memory.hpp"

namespace icml::formats {

// The least id of `count` ids and the size of their range, if a table of that size is worth having.
template <class Id>
std::optional<std::pair<std::int64_t, std::size_t>> dense_range(std::size_t count, const Id &id) {
    if (count == 0) return std::nullopt;
    std::int64_t least = id(0), greatest = id(0);
    for (std::size_t i = 1; i < count; ++i) {
        least = std::min(least, id(i));
        greatest = std::max(greatest, id(i));
    }
    const std::uint64_t range = static_cast<std::uint64_t>(greatest) - static_cast<std::uint64_t>(least);
    if (range >= 4 * static_cast<std::uint64_t>(count) + 1024) return std::nullopt;
    return std::pair{least, static_cast<std::size_t>(range) + 1};
}

// Numbers the ends of `rows` edges. The ids are id(0), id(1), …: u and v of the first edge, of the second,
// and so on. Returns the ids in order of their numbers.
template <class Id>
Array<std::int64_t> number_by_appearance(std::size_t rows, const Id &id, std::span<std::int32_t> u,
                                         std::span<std::int32_t> v) {
    const std::array<std::span<std::int32_t>, 2> ends{u, v};
    const std::size_t count = 2 * rows;
    if (const auto dense = dense_range(count, id)) {
        const auto [least, size] = *dense;
        Array<std::int32_t> numbers(size, -1);
        Array<std::int64_t> ids;
        for (std::size_t i = 0; i < count; ++i) {
            const std::int64_t key = id(i);
            std::int32_t &number = numbers[static_cast<std::size_t>(key - least)];
            if (number < 0) {
                if (ids.size() == max_nodes) throw std::length_error(too_many_nodes);
                number = static_cast<std::int32_t>(ids.size());
                ids.push_back(key);
            }
            ends[i % 2][i / 2] = number;
        }
        return ids;
    }
    Interner<std::int64_t> nodes;
    std::array<std::int64_t, nodes.batch> keys;
    std::array<std::int32_t, nodes.batch> numbers;
    for (std::size_t begin = 0; begin < count; begin += keys.size()) {
        const std::size_t size = std::min(keys.size(), count - begin);
        for (std::size_t i = 0; i < size; ++i) keys[i] = id(begin + i);
        nodes.intern(std::span(keys).first(size), std::span(numbers).first(size));
        for (std::size_t i = 0; i < size; ++i) ends[i % 2][(begin + i) / 2] = numbers[i]; // a batch is even
    }
    return nodes.release();
}

} // namespace icml::formats
