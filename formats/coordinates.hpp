// Entries of a sparse tensor in text: one line each, with an index or a label along every axis and a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memory.hpp"

namespace icml::formats {

enum class Role : std::uint8_t {
    skip,
    index, // an integer from `base` on
    label, // any text, numbered by first appearance
    value,
};

struct CoordinateLayout {
    char separator;
    std::vector<Role> roles;          // one a column; at most one value
    std::vector<std::string> names;   // for messages; "" where a column has none
    std::vector<std::int64_t> limits; // one a column: an index lies below base + limit
    std::int64_t base = 0;            // the number of the first index along an axis
    bool allow_nonfinite = false;     // for the value: NaN, infinities, and empty cells as NaN
};

// The labels along one axis, one after the other; `ends` says where each one ends.
struct LabelText {
    std::string arena;
    Array<std::int64_t> ends;
};

struct CoordinateTable {
    std::size_t rows = 0;
    Array<std::int64_t> index;                    // from 0; axis by axis, each with one number a row
    std::vector<std::optional<LabelText>> labels; // for each axis; nothing where it has indices
    Array<double> value;                          // empty without a value column
    Array<std::int64_t> line;
};

// Reads `text`, whose first line is line `first_line` of the file; throws ParseError for the first line at
// fault. The result depends neither on `threads` nor on `piece_bytes` (0: chosen by size).
CoordinateTable read_coordinates(std::string_view text, std::int64_t first_line,
                                 const CoordinateLayout &layout, int threads, std::size_t piece_bytes);

} // namespace icml::formats
