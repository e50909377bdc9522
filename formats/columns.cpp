#include "columns.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "number.hpp"
#include "parallel.hpp"
#include "pieces.hpp"

namespace icml::formats {

namespace {

std::string column(const ColumnLayout &layout, std::size_t at) {
    const std::string number = "column " + std::to_string(at + 1);
    return layout.names[at].empty() ? number : number + " (" + layout.names[at] + ")";
}

double read_cell(std::string_view cell, const ColumnLayout &layout, std::size_t at) {
    double value;
    if (cell.empty()) {
        if (layout.allow_nonfinite) return std::numeric_limits<double>::quiet_NaN();
        throw LineError{"empty cell in " + column(layout, at)};
    }
    if (!parse_number(cell, value))
        throw LineError{"expected a number in " + column(layout, at) + ", got " + quoted(cell)};
    if (!layout.allow_nonfinite && !std::isfinite(value))
        throw LineError{"expected a finite number in " + column(layout, at) + ", got " + quoted(cell)};
    return value;
}

bool is_text(std::string_view cell) {
    double ignored;
    return !cell.empty() && !parse_number(cell, ignored);
}

// Splits every data line of `piece` into `fields`, one a column or else at fault, and calls on_row(number).
template <class OnRow>
std::optional<Fault> for_each_row(const Piece &piece, const ColumnLayout &layout, Fields &fields,
                                  OnRow on_row) {
    return for_each_line(piece.text, piece.first_line, [&](std::string_view line, std::int64_t number) {
        if (is_skipped(line)) return true;
        fields.split(line, layout.separator);
        const std::size_t expected = layout.kinds.size();
        if (fields.size() != expected)
            throw LineError{"expected " + std::to_string(expected) +
                            (expected == 1 ? " column" : " columns") + ", got " +
                            std::to_string(fields.size())};
        on_row(number);
        return true;
    });
}

// Settles the guesses by a pass over the text up to its first fault, which is left to the pass that reads it.
void settle(ColumnLayout &layout, const Pieces &pieces, int threads) {
    if (std::ranges::find(layout.kinds, Kind::guess) == layout.kinds.end()) return;
    const std::size_t count = pieces.list.size(), width = layout.kinds.size();
    std::vector<std::vector<char>> text(count, std::vector<char>(width));
    std::vector<std::optional<Fault>> faults(count);
    parallel_for(count, threads, [&](std::size_t i) {
        Fields fields;
        faults[i] = for_each_row(pieces.list[i], layout, fields, [&](std::int64_t) {
            for (std::size_t at = 0; at < width; ++at)
                if (layout.kinds[at] == Kind::guess && !text[i][at]) text[i][at] = is_text(fields[at]);
        });
    });
    std::size_t until = 0; // the pieces to look at
    while (until < count && !faults[until]) ++until;
    until = std::min(until + 1, count);
    for (std::size_t at = 0; at < width; ++at) {
        if (layout.kinds[at] != Kind::guess) continue;
        const bool any = std::any_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(until),
                                     [&](const std::vector<char> &found) { return found[at] != 0; });
        layout.kinds[at] = any ? Kind::text : Kind::number;
    }
}

ColumnTable make_table(const ColumnLayout &layout, std::size_t rows, std::size_t pieces) {
    ColumnTable table;
    table.kinds = layout.kinds;
    table.number_columns = static_cast<std::size_t>(std::ranges::count(layout.kinds, Kind::number));
    table.text_columns = static_cast<std::size_t>(std::ranges::count(layout.kinds, Kind::text));
    table.numbers.resize(rows * table.number_columns);
    table.cells.resize(rows * table.text_columns);
    table.line.resize(rows);
    table.owners.resize(pieces);
    return table;
}

std::optional<Fault> read_piece(const Piece &piece, const ColumnLayout &layout, Fields &fields,
                                ColumnTable &table) {
    std::size_t row = piece.first_row;
    return for_each_row(piece, layout, fields, [&](std::int64_t line) {
        std::size_t number = row * table.number_columns, cell = row * table.text_columns;
        for (std::size_t at = 0; at < layout.kinds.size(); ++at) {
            if (layout.kinds[at] == Kind::number) table.numbers[number++] = read_cell(fields[at], layout, at);
            if (layout.kinds[at] == Kind::text) table.cells[cell++] = fields[at];
        }
        table.line[row++] = line;
    });
}

} // namespace

ColumnTable read_columns(std::string_view text, std::int64_t first_line, ColumnLayout layout, int threads,
                         std::size_t piece_bytes) {
    assert(layout.names.size() == layout.kinds.size());
    const Sharing sharing = share(text.size(), threads, piece_bytes);
    const Pieces pieces = cut(text, first_line, sharing.small_piece_bytes, sharing.threads);
    settle(layout, pieces, sharing.threads);
    ColumnTable table = make_table(layout, pieces.rows, pieces.list.size());
    std::vector<std::optional<Fault>> faults(pieces.list.size());
    parallel_for(pieces.list.size(), sharing.threads, [&](std::size_t i) {
        faults[i] = read_piece(pieces.list[i], layout, table.owners[i], table);
    });
    throw_first(faults);
    return table;
}

NumberLines read_number_lines(std::string_view text, std::int64_t first_line) {
    NumberLines result;
    Fields fields;
    const std::optional<Fault> fault =
        for_each_line(text, first_line, [&](std::string_view line, std::int64_t number) {
            fields.split(line, ' ');
            if (fields.size() > 0 && fields[0].starts_with('%')) return true;
            for (std::size_t i = 0; i < fields.size(); ++i) {
                double value;
                if (!parse_number(fields[i], value) || !std::isfinite(value))
                    throw LineError{"expected a finite number, got " + quoted(fields[i])};
                result.numbers.push_back(value);
            }
            result.ends.push_back(static_cast<std::int64_t>(result.numbers.size()));
            result.line.push_back(number);
            return true;
        });
    throw_first({&fault, 1});
    return result;
}

} // namespace icml::formats
