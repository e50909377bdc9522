// Edge lists in text: lines `u v [value]` to node numbers, values and line numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "memory.hpp"

namespace icml::formats {

// Which columns (0-based) hold what, and how many there are on every line.
struct EdgeLayout {
    char separator;
    std::size_t width;
    std::size_t u, v;
    std::optional<std::size_t> value;
};

// The rows in file order; nodes are numbered by first appearance, row by row, u before v.
struct EdgeTable {
    Array<std::int32_t> u, v;
    Array<double> value; // empty without a value column
    Array<std::int64_t> line;
    bool integer_ids = false; // every id is a canonical int64:
    Array<std::int64_t> ids;  // then these are the nodes' ids,
    std::string arena;        // else their names one after the other
    Array<std::int64_t> ends; // and the place in `arena` where each ends.
};

// Reads `text`, whose first line is line `first_line` of the file; throws ParseError for the first line at
// fault. The result depends neither on `threads` nor on `piece_bytes` (0: chosen by size).
EdgeTable read_edges(std::string_view text, std::int64_t first_line, const EdgeLayout &layout, int threads,
                     std::size_t piece_bytes);

// Numbers integer ids that are already in arrays: fills u, v and ids of the result.
EdgeTable number_edges(std::span<const std::int64_t> u, std::span<const std::int64_t> v);

} // namespace icml::formats
