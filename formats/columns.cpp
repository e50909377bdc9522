#include "columns.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "number.hpp"
#include "parallel.hpp"

namespace icml::formats {

namespace {

// What one thread reads of one piece.
struct Block {
    Array<double> numbers;
    Array<std::string_view> cells;
    Array<std::uint32_t> line; // within the piece
    std::vector<bool> is_text; // the guessed columns that turned out to hold text
    Fields fields;
    Walk walk;
};

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

void check_width(std::size_t width, std::size_t expected) {
    if (width != expected)
        throw LineError{"expected " + std::to_string(expected) + (expected == 1 ? " column" : " columns") +
                        ", got " + std::to_string(width)};
}

void read_row(const ColumnLayout &layout, Block &block) {
    const Fields &fields = block.fields;
    for (std::size_t at = 0; at < layout.kinds.size(); ++at) {
        switch (layout.kinds[at]) {
        case Kind::skip:
            break;
        case Kind::text:
            block.cells.push_back(fields[at]);
            break;
        case Kind::number:
            block.numbers.push_back(read_cell(fields[at], layout, at));
            break;
        case Kind::guess:
            if (!block.is_text[at] && is_text(fields[at])) block.is_text[at] = true;
            break;
        }
    }
}

std::vector<Block> read_blocks(std::span<const std::string_view> pieces, const ColumnLayout &layout,
                               int threads) {
    std::vector<Block> blocks(pieces.size());
    parallel_for(pieces.size(), threads, [&](std::size_t i) {
        Block &block = blocks[i];
        block.is_text.resize(layout.kinds.size());
        block.walk =
            for_each_line(pieces[i], [&](std::string_view line, std::int64_t number, std::string_view) {
                if (is_skipped(line)) return true;
                block.fields.split(line, layout.separator);
                check_width(block.fields.size(), layout.kinds.size());
                read_row(layout, block);
                block.line.push_back(static_cast<std::uint32_t>(number));
                return true;
            });
    });
    return blocks;
}

// Settles the guesses by a pass over the text up to its first fault, which is left to the pass that reads it.
void settle(ColumnLayout &layout, std::span<const std::string_view> pieces, int threads) {
    if (std::ranges::find(layout.kinds, Kind::guess) == layout.kinds.end()) return;
    ColumnLayout guessed = layout;
    for (Kind &kind : guessed.kinds)
        if (kind != Kind::guess) kind = Kind::skip;
    std::vector<Block> blocks = read_blocks(pieces, guessed, threads);
    const auto faulty =
        std::ranges::find_if(blocks, [](const Block &block) { return block.walk.fault.has_value(); });
    if (faulty != blocks.end()) blocks.erase(faulty + 1, blocks.end());
    for (std::size_t at = 0; at < layout.kinds.size(); ++at) {
        if (layout.kinds[at] != Kind::guess) continue;
        const bool text = std::ranges::any_of(blocks, [&](const Block &block) { return block.is_text[at]; });
        layout.kinds[at] = text ? Kind::text : Kind::number;
    }
}

// Puts the blocks one after the other; lines[b] is the number of block b's first line.
ColumnTable gather(std::vector<Block> blocks, std::span<const std::int64_t> lines) {
    std::size_t rows = 0, numbers = 0, cells = 0;
    for (const Block &block : blocks) {
        rows += block.line.size();
        numbers += block.numbers.size();
        cells += block.cells.size();
    }
    ColumnTable table;
    table.line.reserve(rows);
    table.numbers.reserve(numbers);
    table.cells.reserve(cells);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
        Block block = std::move(blocks[b]); // freed as soon as it is copied
        for (const std::uint32_t line : block.line) table.line.push_back(lines[b] + line);
        table.numbers.insert(table.numbers.end(), block.numbers.begin(), block.numbers.end());
        table.cells.insert(table.cells.end(), block.cells.begin(), block.cells.end());
        table.owners.push_back(std::move(block.fields));
    }
    return table;
}

} // namespace

ColumnTable read_columns(std::string_view text, std::int64_t first_line, ColumnLayout layout, int threads,
                         std::size_t piece_bytes) {
    assert(layout.names.size() == layout.kinds.size());
    threads = usable_threads(threads);
    if (piece_bytes == 0) piece_bytes = default_piece_bytes(text.size(), threads);
    const std::vector<std::string_view> pieces = cut_at_lines(text, piece_bytes);
    settle(layout, pieces, threads);
    std::vector<Block> blocks = read_blocks(pieces, layout, threads);
    std::vector<Walk> walks;
    for (Block &block : blocks) walks.push_back(std::move(block.walk));

    ColumnTable table = gather(std::move(blocks), first_lines(walks, first_line));
    table.number_columns = static_cast<std::size_t>(std::ranges::count(layout.kinds, Kind::number));
    table.text_columns = static_cast<std::size_t>(std::ranges::count(layout.kinds, Kind::text));
    table.kinds = std::move(layout.kinds);
    return table;
}

NumberLines read_number_lines(std::string_view text, std::int64_t first_line) {
    NumberLines result;
    Fields fields;
    const Walk walk = for_each_line(text, [&](std::string_view line, std::int64_t number, std::string_view) {
        fields.split(line, ' ');
        if (fields.size() > 0 && fields[0].starts_with('%')) return true;
        for (std::size_t i = 0; i < fields.size(); ++i) {
            double value;
            if (!parse_number(fields[i], value) || !std::isfinite(value))
                throw LineError{"expected a finite number, got " + quoted(fields[i])};
            result.numbers.push_back(value);
        }
        result.ends.push_back(static_cast<std::int64_t>(result.numbers.size()));
        result.line.push_back(first_line + number);
        return true;
    });
    if (walk.fault) throw ParseError(first_line + walk.fault->line, walk.fault->message);
    return result;
}

} // namespace icml::formats
