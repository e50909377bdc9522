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

// How to share a text among threads.
struct Sharing {
    int threads;                   // fewer than asked for if there is too little text to be worth them
    std::size_t piece_bytes;       // about one piece a thread
    std::size_t small_piece_bytes; // many pieces, so that the threads finish together
};

// For `threads` (0: as many as there are); a `piece_bytes` other than 0 is kept to, however small the text.
Sharing share(std::size_t text_bytes, int threads, std::size_t piece_bytes);

// Throws the first fault of consecutive pieces as a ParseError.
void throw_first(std::span<const std::optional<Fault>> faults);

} // namespace icml::formats
