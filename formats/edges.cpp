#include "edges.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "interner.hpp"
#include "number.hpp"
#include "parallel.hpp"

namespace icml::formats {

namespace {

// What one thread reads of one piece. Nodes are numbered within the piece; combine() makes the numbers
// global.
template <class Key> struct Block {
    void add_end(const Key &key) {
        nodes.prefetch(key);
        pending[waiting++] = key;
        if (waiting == pending.size()) number_pending();
    }
    void number_pending() {
        for (std::size_t i = 0; i < waiting; ++i) ends.push_back(nodes.intern(pending[i]));
        waiting = 0;
    }

    Interner<Key> nodes;
    std::array<Key, 64> pending; // keys whose slots are being fetched, to be numbered together
    std::size_t waiting = 0;
    Array<std::int32_t> ends; // u, v, u, v, …
    Array<double> value;
    Array<std::uint32_t> line; // within the piece
    Fields fields;             // owns the text of unescaped names
    Walk walk;
};

std::string column(std::size_t i) {
    return "column " + std::to_string(i + 1);
}

bool make_key(std::string_view id, std::int64_t &key) {
    return parse_integer(id, key);
}
bool make_key(std::string_view id, StringKey &key) {
    key = StringKey(id);
    return true;
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

// Reads one piece; sets `abandon`, and gives up, at an id that is no Key.
template <class Key>
void read_block(std::string_view text, const EdgeLayout &layout, std::atomic<bool> &abandon,
                Block<Key> &block) {
    const std::size_t lines = estimate_lines(text);
    block.ends.reserve(2 * lines);
    block.line.reserve(lines);
    if (layout.value) block.value.reserve(lines);
    Fields &fields = block.fields;
    block.walk = for_each_line(text, [&](std::string_view line, std::int64_t number, std::string_view) {
        if (is_skipped(line)) return true;
        fields.split(line, layout.separator);
        check_width(fields.size(), layout.width);
        Key key;
        for (const std::size_t at : {layout.u, layout.v}) {
            if (fields[at].empty()) throw LineError{"empty node id in " + column(at)};
            if (!make_key(fields[at], key)) {
                abandon = true;
                return false;
            }
            block.add_end(key);
        }
        if (layout.value) block.value.push_back(read_value(fields[*layout.value], *layout.value));
        block.line.push_back(static_cast<std::uint32_t>(number));
        return !abandon.load(std::memory_order_relaxed);
    });
    block.number_pending();
}

// Numbers the nodes of all blocks by first appearance; maps[b][i] is the number of block b's node i.
template <class Key>
Array<Key> merge_nodes(std::span<Block<Key>> blocks, std::span<Array<std::int32_t>> maps) {
    if (blocks.empty()) return {};
    Interner<Key> all = std::move(blocks[0].nodes); // the first block's numbers are final
    maps[0].resize(all.keys().size());
    for (std::size_t i = 0; i < maps[0].size(); ++i) maps[0][i] = static_cast<std::int32_t>(i);
    for (std::size_t b = 1; b < blocks.size(); ++b) {
        const Array<Key> keys = blocks[b].nodes.release();
        maps[b].reserve(keys.size());
        for (const Key &key : keys) maps[b].push_back(all.intern(key));
    }
    return all.release();
}

void set_names(EdgeTable &table, Array<std::int64_t> ids) {
    table.integer_ids = true;
    table.ids = std::move(ids);
}

void set_names(EdgeTable &table, const Array<StringKey> &names) {
    std::size_t bytes = 0;
    for (const StringKey &name : names) bytes += name.view().size();
    table.arena.reserve(bytes);
    table.ends.reserve(names.size());
    for (const StringKey &name : names) {
        table.arena += name.view();
        table.ends.push_back(static_cast<std::int64_t>(table.arena.size()));
    }
}

template <class Key>
EdgeTable combine(std::span<Block<Key>> blocks, std::span<const std::int64_t> lines, bool with_value,
                  int threads) {
    std::vector<Array<std::int32_t>> maps(blocks.size());
    EdgeTable table;
    set_names(table, merge_nodes<Key>(blocks, maps));

    std::vector<std::size_t> begins{0};
    for (const Block<Key> &block : blocks) begins.push_back(begins.back() + block.line.size());
    const std::size_t rows = begins.back();
    table.u.resize(rows);
    table.v.resize(rows);
    table.line.resize(rows);
    if (with_value) table.value.resize(rows);

    parallel_for(blocks.size(), threads, [&](std::size_t b) {
        const Block<Key> block = std::move(blocks[b]); // freed as soon as it is copied
        const std::size_t begin = begins[b], count = block.line.size();
        const std::span u = std::span(table.u).subspan(begin, count);
        const std::span v = std::span(table.v).subspan(begin, count);
        const std::span line = std::span(table.line).subspan(begin, count);
        for (std::size_t i = 0; i < count; ++i) {
            u[i] = maps[b][block.ends[2 * i]];
            v[i] = maps[b][block.ends[2 * i + 1]];
            line[i] = lines[b] + block.line[i];
        }
        if (with_value) std::ranges::copy(block.value, table.value.begin() + begin);
    });
    return table;
}

// Nothing when some id is no Key.
template <class Key>
std::optional<EdgeTable> try_read(std::string_view text, std::int64_t first_line, const EdgeLayout &layout,
                                  int threads, std::size_t piece_bytes) {
    const std::vector<std::string_view> pieces = cut_at_lines(text, piece_bytes);
    std::vector<Block<Key>> blocks(pieces.size());
    std::atomic<bool> abandon = false;
    parallel_for(pieces.size(), threads, [&](std::size_t i) {
        if (!abandon) read_block(pieces[i], layout, abandon, blocks[i]);
    });
    if (abandon) return std::nullopt;
    std::vector<Walk> walks;
    for (Block<Key> &block : blocks) walks.push_back(std::move(block.walk));
    const std::vector<std::int64_t> lines = first_lines(walks, first_line);
    return combine<Key>(blocks, lines, layout.value.has_value(), threads);
}

} // namespace

std::vector<std::int64_t> first_lines(std::span<const Walk> walks, std::int64_t first_line) {
    std::vector<std::int64_t> lines;
    lines.reserve(walks.size());
    for (const Walk &walk : walks) {
        if (walk.fault) throw ParseError(first_line + walk.fault->line, walk.fault->message);
        lines.push_back(first_line);
        first_line += walk.lines;
    }
    return lines;
}

EdgeTable read_edges(std::string_view text, std::int64_t first_line, const EdgeLayout &layout, int threads,
                     std::size_t piece_bytes) {
    threads = usable_threads(threads);
    if (piece_bytes == 0) piece_bytes = default_piece_bytes(text.size(), threads);
    if (auto table = try_read<std::int64_t>(text, first_line, layout, threads, piece_bytes))
        return std::move(*table);
    return std::move(*try_read<StringKey>(text, first_line, layout, threads, piece_bytes));
}

EdgeTable number_edges(std::span<const std::int64_t> u, std::span<const std::int64_t> v) {
    assert(u.size() == v.size());
    EdgeTable table;
    table.u.resize(u.size());
    table.v.resize(v.size());
    Interner<std::int64_t> nodes;
    for (std::size_t i = 0; i < u.size(); ++i) {
        table.u[i] = nodes.intern(u[i]);
        table.v[i] = nodes.intern(v[i]);
    }
    set_names(table, nodes.release());
    return table;
}

} // namespace icml::formats
