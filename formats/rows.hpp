// Lines of a table as rows of fields, as many in each as there are columns; and the messages about single
// cells.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "number.hpp"
#include "pieces.hpp"
#include "text.hpp"

namespace icml::formats {

// "column 2 (lat)", or without the name where a column has none.
inline std::string column_name(std::span<const std::string> names, std::size_t at) {
    const std::string number = "column " + std::to_string(at + 1);
    return names[at].empty() ? number : number + " (" + names[at] + ")";
}

// The number in a cell; an empty one is NaN, which like infinities has to be allowed.
inline double read_number_cell(std::string_view cell, std::span<const std::string> names, std::size_t at,
                               bool allow_nonfinite) {
    double value;
    if (cell.empty()) {
        if (allow_nonfinite) return std::numeric_limits<double>::quiet_NaN();
        throw LineError{"empty cell in " + column_name(names, at)};
    }
    if (!parse_number(cell, value))
        throw LineError{"expected a number in " + column_name(names, at) + ", got " + quoted(cell)};
    if (!allow_nonfinite && !std::isfinite(value))
        throw LineError{"expected a finite number in " + column_name(names, at) + ", got " + quoted(cell)};
    return value;
}

// Splits every data line of `piece` into `fields`, `width` of them or else at fault, and calls
// on_row(number).
template <class OnRow>
std::optional<Fault> for_each_row(const Piece &piece, char separator, std::size_t width, Fields &fields,
                                  OnRow on_row) {
    return for_each_line(piece.text, piece.first_line, [&](std::string_view line, std::int64_t number) {
        if (is_skipped(line)) return true;
        fields.split(line, separator);
        if (fields.size() != width)
            throw LineError{"expected " + std::to_string(width) + (width == 1 ? " column" : " columns") +
                            ", got " + std::to_string(fields.size())};
        on_row(number);
        return true;
    });
}

} // namespace icml::formats
