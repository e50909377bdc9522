// Tables in text: chosen columns to numbers or strings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "memory.hpp"
#include "text.hpp"

namespace icml::formats {

enum class Kind : std::uint8_t {
    skip,
    number, // anything else than a number is an error
    text,
    guess, // number, unless some cell is neither a number nor empty: then text
};

struct ColumnLayout {
    char separator;
    std::vector<Kind> kinds;        // one a column, so as many as every line has
    std::vector<std::string> names; // for messages: "column 2 (lat)"; "" where a column has none
    bool allow_nonfinite = false;   // NaN, infinities, and empty cells as NaN
};

struct ColumnTable {
    std::vector<Kind> kinds; // as in the layout, with every guess settled
    Array<double> numbers;   // row-major: for each row its number columns
    std::size_t number_columns = 0;
    Array<std::string_view> cells; // row-major: for each row its text columns
    std::size_t text_columns = 0;
    std::vector<Fields> owners; // what unescaped cells point into; other cells point into the text
    Array<std::int64_t> line;
};

// Reads `text`, whose first line is line `first_line` of the file; throws ParseError for the first line at
// fault. The result depends neither on `threads` nor on `piece_bytes` (0: chosen by size).
ColumnTable read_columns(std::string_view text, std::int64_t first_line, ColumnLayout layout, int threads,
                         std::size_t piece_bytes);

// The numbers of every line that is no comment, blank lines included, and where each line's numbers end.
struct NumberLines {
    Array<double> numbers;
    Array<std::int64_t> ends;
    Array<std::int64_t> line;
};
NumberLines read_number_lines(std::string_view text, std::int64_t first_line);

} // namespace icml::formats
