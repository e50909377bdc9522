#include "columns.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "number.hpp"
#include "parallel.hpp"
#include "pieces.hpp"
#include "rows.hpp"

namespace icml::formats {

namespace {

bool is_text(std::string_view cell) {
    double ignored;
    return !cell.empty() && !parse_number(cell, ignored);
}

// Settles the guesses by a pass over the text up to its first fault, which is left to the pass that reads it.
void settle(ColumnLayout &layout, const Pieces &pieces, int threads) {
    if (std::ranges::find(layout.kinds, Kind::guess) == layout.kinds.end()) return;
    const std::size_t count = pieces.list.size(), width = layout.kinds.size();
    std::vector<std::vector<char>> text(count, std::vector<char>(width));
    std::vector<std::optional<Fault>> faults(count);
    parallel_for(count, threads, [&](std::size_t i) {
        Fields fields;
        faults[i] = for_each_row(pieces.list[i], layout.separator, width, fields, [&](std::int64_t) {
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
    return for_each_row(piece, layout.separator, layout.kinds.size(), fields, [&](std::int64_t line) {
        std::size_t number = row * table.number_columns, cell = row * table.text_columns;
        for (std::size_t at = 0; at < layout.kinds.size(); ++at) {
            if (layout.kinds[at] == Kind::number)
                table.numbers[number++] =
                    read_number_cell(fields[at], layout.names, at, layout.allow_nonfinite);
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
