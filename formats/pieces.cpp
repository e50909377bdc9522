#include "pieces.hpp"

#include <algorithm>

#include "parallel.hpp"

namespace icml::formats {

namespace {

struct Count {
    std::int64_t lines = 0;
    std::size_t rows = 0;
};

Count count_lines(std::string_view text) {
    Count count;
    while (!text.empty()) {
        ++count.lines;
        if (!is_skipped(take_line(text))) ++count.rows;
    }
    return count;
}

} // namespace

Pieces cut(std::string_view text, std::int64_t first_line, std::size_t piece_bytes, int threads) {
    Pieces pieces;
    while (!text.empty()) {
        const std::size_t target = std::max<std::size_t>(piece_bytes, 1) - 1;
        const std::size_t newline = target < text.size() ? text.find('\n', target) : std::string_view::npos;
        const std::size_t length = newline == std::string_view::npos ? text.size() : newline + 1;
        pieces.list.push_back({text.substr(0, length), 0, 0, 0});
        text.remove_prefix(length);
    }
    std::vector<Count> counts(pieces.list.size());
    parallel_for(counts.size(), threads,
                 [&](std::size_t i) { counts[i] = count_lines(pieces.list[i].text); });
    for (std::size_t i = 0; i < counts.size(); ++i) {
        Piece &piece = pieces.list[i];
        piece.first_line = first_line;
        piece.first_row = pieces.rows;
        piece.rows = counts[i].rows;
        first_line += counts[i].lines;
        pieces.rows += counts[i].rows;
    }
    return pieces;
}

Sharing share(std::size_t text_bytes, int threads, std::size_t piece_bytes) {
    constexpr std::size_t worth_a_thread = std::size_t{1} << 18;
    threads = usable_threads(threads);
    if (piece_bytes) return {threads, piece_bytes, piece_bytes};
    const std::size_t most = text_bytes / worth_a_thread + 1;
    threads = static_cast<int>(std::min(static_cast<std::size_t>(threads), most));
    return {threads, text_bytes / static_cast<std::size_t>(threads) + 1, worth_a_thread};
}

void throw_first(std::span<const std::optional<Fault>> faults) {
    for (const std::optional<Fault> &fault : faults)
        if (fault) throw ParseError(fault->line, fault->message);
}

} // namespace icml::formats
