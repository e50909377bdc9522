// What a line of text is: data, comment or blank; its fields; and whether its bytes are text at all.
//
// One separator holds for a whole file. ' ' stands for a run of spaces and tabs; any other separator stands
// between two fields, and blanks around an unquoted field are not part of it. A field that begins with a
// double quote runs to the closing quote on the same line, with "" for a quote inside.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace icml::formats {

// What is wrong with the line being read; whoever walks the lines knows its number.
struct LineError {
    std::string message;
};

// An error with its place: a 1-based line of the file.
struct Fault {
    std::int64_t line;
    std::string message;
};

// `text` in single quotes for an error message, cut to a readable length.
std::string quoted(std::string_view text);

// True when every byte is printable ASCII, a tab or a line feed, so that no line needs check_text.
bool is_plain(std::string_view text);

// Throws LineError unless `line` (without its line end) is UTF-8 without control characters.
void check_text(std::string_view line);

inline bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

// The fields of one line at a time. Views stay valid as long as both the text and this object do.
class Fields {
  public:
    void split(std::string_view line, char separator);

    std::size_t size() const { return fields_.size(); }
    std::string_view operator[](std::size_t i) const {
        assert(i < fields_.size());
        return fields_[i];
    }

  private:
    void split_blanks(std::string_view line);
    void split_separated(std::string_view line, char separator);
    const char *take_quoted(const char *at, const char *end);

    std::vector<std::string_view> fields_;
    std::deque<std::string> unescaped_; // fields whose "" had to become "; a deque, so that they never move
};

// True for a line that holds no data: blank, or a comment that begins with # or %.
inline bool is_skipped(std::string_view line) {
    for (char c : line) {
        if (is_blank(c)) continue;
        return c == '#' || c == '%';
    }
    return true;
}

// Takes the first line off `rest` and returns it without its line end (LF or CRLF).
inline std::string_view take_line(std::string_view &rest) {
    const void *found = std::memchr(rest.data(), '\n', rest.size());
    const std::size_t length =
        found ? static_cast<std::size_t>(static_cast<const char *>(found) - rest.data()) : rest.size();
    std::string_view line = rest.substr(0, length);
    rest.remove_prefix(found ? length + 1 : length);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
}

// Calls on_line(line, number) for every line of `text`, the first of which has number `first_line`, until it
// returns false or throws LineError; returns what it threw.
template <class OnLine>
std::optional<Fault> for_each_line(std::string_view text, std::int64_t first_line, OnLine on_line) {
    const bool plain = is_plain(text);
    std::int64_t number = first_line;
    try {
        for (; !text.empty(); ++number) {
            const std::string_view line = take_line(text);
            if (!plain) check_text(line);
            if (!on_line(line, number)) break;
        }
    } catch (LineError &error) {
        return Fault{number, std::move(error.message)};
    }
    return std::nullopt;
}

} // namespace icml::formats
