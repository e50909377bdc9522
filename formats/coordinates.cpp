#include "coordinates.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <span>
#include <utility>

#include "interner.hpp"
#include "merging.hpp"
#include "parallel.hpp"
#include "pieces.hpp"
#include "rows.hpp"

namespace icml::formats {

namespace {

std::int64_t read_index(std::string_view cell, const CoordinateLayout &layout, std::size_t at) {
    std::int64_t index;
    if (!parse_integer(cell, index))
        throw LineError{"expected an index in " + column_name(layout.names, at) +
                        ", as in the lines before, got " + quoted(cell)};
    const std::int64_t base = layout.base, limit = layout.limits[at];
    if (index < base)
        throw LineError{"index " + std::to_string(index) + " in " + column_name(layout.names, at) +
                        "; indices count from " + std::to_string(base)};
    if (index - base >= limit)
        throw LineError{"index " + std::to_string(index) + " in " + column_name(layout.names, at) +
                        " is outside " + std::to_string(base) + ".." + std::to_string(base + limit - 1)};
    return index - base;
}

// The labels of one axis in one piece: numbered within the piece, a batch at a time.
class PieceLabels {
  public:
    PieceLabels(Interner<StringKey> &keys, std::span<std::int64_t> numbers)
        : keys_(&keys), numbers_(numbers) {}

    void add(std::string_view label) {
        waiting_[count_++] = StringKey(label);
        if (count_ == waiting_.size()) finish();
    }

    // Numbers the labels that are waiting.
    void finish() {
        std::array<std::int32_t, Interner<StringKey>::batch> found;
        keys_->intern(std::span(waiting_).first(count_), std::span(found).first(count_));
        std::copy_n(found.begin(), count_, numbers_.begin() + static_cast<std::ptrdiff_t>(row_));
        row_ += count_;
        count_ = 0;
    }

  private:
    Interner<StringKey> *keys_;
    std::span<std::int64_t> numbers_;
    std::array<StringKey, Interner<StringKey>::batch> waiting_;
    std::size_t count_ = 0, row_ = 0;
};

// Where the columns of a layout go.
struct Places {
    explicit Places(const CoordinateLayout &layout) {
        for (std::size_t at = 0; at < layout.roles.size(); ++at) {
            const Role role = layout.roles[at];
            if (role == Role::value) value = at;
            if (role == Role::index || role == Role::label) axes.push_back(at);
            if (role == Role::label) labelled.push_back(axes.size() - 1);
        }
    }
    std::vector<std::size_t> axes;     // the column of each axis
    std::vector<std::size_t> labelled; // the axes that have labels
    std::optional<std::size_t> value;  // the column of the value
};

using Interners = std::vector<Interner<StringKey>>;

// Reads one piece into its part of `table`; `keys` has one interner for each axis with labels.
std::optional<Fault> read_piece(const Piece &piece, const CoordinateLayout &layout, const Places &places,
                                Fields &fields, std::span<Interner<StringKey> *> keys,
                                CoordinateTable &table) {
    std::vector<PieceLabels> labels;
    for (std::size_t k = 0; k < places.labelled.size(); ++k)
        labels.emplace_back(
            *keys[k],
            std::span(table.index).subspan(places.labelled[k] * table.rows + piece.first_row, piece.rows));
    std::size_t row = piece.first_row;
    const auto fault =
        for_each_row(piece, layout.separator, layout.roles.size(), fields, [&](std::int64_t line) {
            std::size_t next = 0;
            for (std::size_t axis = 0; axis < places.axes.size(); ++axis) {
                const std::size_t at = places.axes[axis];
                if (fields[at].empty()) throw LineError{"empty cell in " + column_name(layout.names, at)};
                if (layout.roles[at] == Role::label)
                    labels[next++].add(fields[at]);
                else
                    table.index[axis * table.rows + row] = read_index(fields[at], layout, at);
            }
            if (places.value)
                table.value[row] = read_number_cell(fields[*places.value], layout.names, *places.value,
                                                    layout.allow_nonfinite);
            table.line[row++] = line;
        });
    for (PieceLabels &waiting : labels) waiting.finish();
    return fault;
}

// Turns the numbers within each piece into numbers within the text.
void merge_labels(std::size_t axis, Interners keys, const Pieces &pieces, int threads,
                  CoordinateTable &table) {
    std::vector<Array<std::int32_t>> maps(keys.size());
    LabelText &text = table.labels[axis].emplace();
    join_keys(merge_keys(keys, maps), text.arena, text.ends);
    parallel_for(pieces.list.size(), threads, [&](std::size_t i) {
        const Piece &piece = pieces.list[i];
        for (std::int64_t &number :
             std::span(table.index).subspan(axis * table.rows + piece.first_row, piece.rows))
            number = maps[i][static_cast<std::size_t>(number)];
    });
}

} // namespace

CoordinateTable read_coordinates(std::string_view text, std::int64_t first_line,
                                 const CoordinateLayout &layout, int threads, std::size_t piece_bytes) {
    assert(layout.names.size() == layout.roles.size() && layout.limits.size() == layout.roles.size());
    const Places places(layout);
    const Sharing sharing = share(text.size(), threads, piece_bytes);
    // With labels as few pieces as there are threads: each numbers its labels anew.
    const Pieces pieces =
        cut(text, first_line, places.labelled.empty() ? sharing.small_piece_bytes : sharing.piece_bytes,
            sharing.threads);
    const std::size_t count = pieces.list.size();
    CoordinateTable table;
    table.rows = pieces.rows;
    table.index.resize(places.axes.size() * table.rows);
    table.labels.resize(places.axes.size());
    if (places.value) table.value.resize(table.rows);
    table.line.resize(table.rows);
    std::vector<Interners> keys(places.labelled.size()); // for each axis with labels, one a piece
    for (Interners &of_axis : keys) of_axis.resize(count);
    std::vector<Fields> fields(count); // they own the text of unescaped labels
    std::vector<std::optional<Fault>> faults(count);
    parallel_for(count, sharing.threads, [&](std::size_t i) {
        std::vector<Interner<StringKey> *> own;
        for (Interners &of_axis : keys) own.push_back(&of_axis[i]);
        faults[i] = read_piece(pieces.list[i], layout, places, fields[i], own, table);
    });
    throw_first(faults);
    for (std::size_t k = 0; k < keys.size(); ++k)
        merge_labels(places.labelled[k], std::move(keys[k]), pieces, sharing.threads, table);
    return table;
}

} // namespace icml::formats
