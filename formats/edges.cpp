#include "edges.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "interner.hpp"
#include "merging.hpp"
#include "number.hpp"
#include "numbering.hpp"
#include "parallel.hpp"
#include "pieces.hpp"

namespace icml::formats {

namespace {

std::string column(std::size_t i) {
    return "column " + std::to_string(i + 1);
}

double read_value(std::string_view text, std::size_t at) {
    double value;
    if (!parse_number(text, value))
        throw LineError{"expected a number in " + column(at) + ", got " + quoted(text)};
    if (!std::isfinite(value))
        throw LineError{"expected a finite number in " + column(at) + ", got " + quoted(text)};
    return value;
}

void check_width(std::size_t width, std::size_t expected) {
    if (width < 2) throw LineError{"expected 2 or 3 columns, got " + std::to_string(width)};
    if (width != expected)
        throw LineError{"expected " + std::to_string(expected) + " columns, got " + std::to_string(width)};
}

// Takes the ids of one piece, u, v, u, v, …: integers are kept as they are, to be numbered all together.
class IntegerIds {
  public:
    explicit IntegerIds(std::span<std::int64_t> ids) : ids_(ids) {}
    bool add(std::string_view id) { return parse_integer(id, ids_[count_++]); }
    void finish() {}

  private:
    std::span<std::int64_t> ids_;
    std::size_t count_ = 0;
};

// Takes the ids of one piece, u, v, u, v, …: strings are numbered within the piece, which needs less memory.
class StringIds {
  public:
    StringIds(Interner<StringKey> &nodes, std::span<std::int32_t> u, std::span<std::int32_t> v)
        : nodes_(nodes), ends_{u, v} {}

    bool add(std::string_view id) {
        waiting_[count_++] = StringKey(id);
        if (count_ == waiting_.size()) finish();
        return true;
    }

    // Numbers the ids that are waiting, together.
    void finish() {
        std::array<std::int32_t, Interner<StringKey>::batch> numbers;
        nodes_.intern(std::span(waiting_).first(count_), std::span(numbers).first(count_));
        for (std::size_t i = 0; i < count_; ++i) ends_[i % 2][row_ + i / 2] = numbers[i];
        row_ += count_ / 2;
        count_ = 0;
    }

  private:
    Interner<StringKey> &nodes_;
    std::array<std::span<std::int32_t>, 2> ends_;
    std::array<StringKey, Interner<StringKey>::batch> waiting_; // an even number
    std::size_t count_ = 0, row_ = 0;
};

// Reads one piece into its part of `table`; sets `abandon`, and gives up, at an id that is none for Ids.
template <class Ids>
std::optional<Fault> read_piece(const Piece &piece, const EdgeLayout &layout, Ids ids, Fields &fields,
                                EdgeTable &table, std::atomic<bool> &abandon) {
    std::size_t row = piece.first_row;
    const auto fault =
        for_each_line(piece.text, piece.first_line, [&](std::string_view line, std::int64_t number) {
            if (is_skipped(line)) return true;
            fields.split(line, layout.separator);
            check_width(fields.size(), layout.width);
            for (const std::size_t at : {layout.u, layout.v}) {
                if (fields[at].empty()) throw LineError{"empty node id in " + column(at)};
                if (!ids.add(fields[at])) {
                    abandon = true;
                    return false;
                }
            }
            if (layout.value) table.value[row] = read_value(fields[*layout.value], *layout.value);
            table.line[row++] = number;
            return !abandon.load(std::memory_order_relaxed);
        });
    ids.finish();
    return fault;
}

EdgeTable make_table(std::size_t rows, bool with_value) {
    EdgeTable table;
    table.u.resize(rows);
    table.v.resize(rows);
    table.line.resize(rows);
    if (with_value) table.value.resize(rows);
    return table;
}

// Nothing when some id is no canonical int64.
std::optional<EdgeTable> read_integers(const Pieces &pieces, const EdgeLayout &layout, int threads) {
    EdgeTable table = make_table(pieces.rows, layout.value.has_value());
    Array<std::int64_t> ids(2 * pieces.rows);
    std::vector<std::optional<Fault>> faults(pieces.list.size());
    std::atomic<bool> abandon = false;
    parallel_for(pieces.list.size(), threads, [&](std::size_t i) {
        if (abandon) return;
        const Piece &piece = pieces.list[i];
        Fields fields;
        const IntegerIds sink{std::span(ids).subspan(2 * piece.first_row, 2 * piece.rows)};
        faults[i] = read_piece(piece, layout, sink, fields, table, abandon);
    });
    if (abandon) return std::nullopt;
    throw_first(faults);
    table.ids = number_by_appearance(pieces.rows, [&](std::size_t i) { return ids[i]; }, table.u, table.v);
    table.integer_ids = true;
    return table;
}

EdgeTable read_strings(const Pieces &pieces, const EdgeLayout &layout, int threads) {
    const std::size_t count = pieces.list.size();
    EdgeTable table = make_table(pieces.rows, layout.value.has_value());
    std::vector<Interner<StringKey>> nodes(count);
    std::vector<Fields> fields(count); // they own the text of unescaped names
    std::vector<std::optional<Fault>> faults(count);
    std::atomic<bool> abandon = false; // every id is a string, so nothing is
    const auto part = [&](Array<std::int32_t> &ends, const Piece &piece) {
        return std::span(ends).subspan(piece.first_row, piece.rows);
    };
    parallel_for(count, threads, [&](std::size_t i) {
        const Piece &piece = pieces.list[i];
        const StringIds sink{nodes[i], part(table.u, piece), part(table.v, piece)};
        faults[i] = read_piece(piece, layout, sink, fields[i], table, abandon);
    });
    throw_first(faults);
    std::vector<Array<std::int32_t>> maps(count);
    join_keys(merge_keys(nodes, maps), table.arena, table.ends);
    parallel_for(count, threads, [&](std::size_t i) {
        for (auto *ends : {&table.u, &table.v})
            for (std::int32_t &end : part(*ends, pieces.list[i])) end = maps[i][end];
    });
    return table;
}

// Whether the ids of the first data line are canonical integers; true if that line does not come soon.
bool begins_with_integers(std::string_view text, const EdgeLayout &layout) {
    Fields fields;
    bool result = true;
    for_each_line(text.substr(0, std::size_t{1} << 16), 1, [&](std::string_view line, std::int64_t) {
        if (is_skipped(line)) return true;
        fields.split(line, layout.separator);
        std::int64_t ignored;
        for (const std::size_t at : {layout.u, layout.v})
            result &= at < fields.size() && parse_integer(fields[at], ignored);
        return false;
    });
    return result;
}

} // namespace

EdgeTable read_edges(std::string_view text, std::int64_t first_line, const EdgeLayout &layout, int threads,
                     std::size_t piece_bytes) {
    const Sharing sharing = share(text.size(), threads, piece_bytes);
    const auto pieces = [&](std::size_t bytes) { return cut(text, first_line, bytes, sharing.threads); };
    if (begins_with_integers(text, layout)) {
        auto table = read_integers(pieces(sharing.small_piece_bytes), layout, sharing.threads);
        if (table) return std::move(*table);
    }
    // As few pieces as there are threads: each numbers its nodes anew.
    return read_strings(pieces(sharing.piece_bytes), layout, sharing.threads);
}

EdgeTable number_edges(std::span<const std::int64_t> u, std::span<const std::int64_t> v) {
    assert(u.size() == v.size());
    EdgeTable table;
    table.u.resize(u.size());
    table.v.resize(v.size());
    const auto id = [&](std::size_t i) { return i % 2 ? v[i / 2] : u[i / 2]; };
    table.ids = number_by_appearance(u.size(), id, table.u, table.v);
    table.integer_ids = true;
    return table;
}

} // namespace icml::formats
