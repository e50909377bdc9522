// A text in pieces of whole lines, with the place of each known beforehand, so that threads can write what
// they read straight to where it belongs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "text.hpp"

namespace icml::formats {

// The text is not what it should be; `line` is a 1-based line of the file.
class ParseError : public std::runtime_error {
  public:
    ParseError(std::int64_t line, const std::string &message) : std::runtime_error(message), line(line) {}
    const std::int64_t line;
};

struct Piece {
    std::string_view text;
    std::int64_t first_line; // its 1-based number in the file
    std::size_t first_row;   // the data lines before it
    std::size_t rows;        // the data lines in it
};

struct Pieces {
    std::vector<Piece> list;
    std::size_t rows = 0; // in all
};

// Cuts `text`, whose first line is line `first_line` of the file, into pieces of about `piece_bytes`.
Pieces cut(std::string_view text, std::int64_t first_line, std::size_t piece_bytes, int threads);

// A size that gives every thread a few pieces, unless the text is too small to be worth it.
std::size_t large_pieces(std::size_t text_bytes, int threads);

// Throws the first fault of consecutive pieces as a ParseError.
void throw_first(std::span<const std::optional<Fault>> faults);

} // namespace icml::formats
