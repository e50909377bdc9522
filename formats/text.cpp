#include "text.hpp"

#include <algorithm>

namespace icml::formats {

namespace {

bool is_continuation(unsigned char c) {
    return (c & 0xC0) == 0x80;
}

// The length of the UTF-8 sequence that `text` begins with, 0 if it begins with none: no overlong forms, no
// surrogates, nothing above U+10FFFF (The Unicode Standard, table 3-7).
std::size_t sequence_length(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = byte(0);
    if (lead < 0x80) return 1;
    const std::size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                               : lead >= 0xE0 && lead <= 0xEF ? 3
                               : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                              : 0;
    if (length == 0 || text.size() < length) return 0;
    for (std::size_t i = 1; i < length; ++i)
        if (!is_continuation(byte(i))) return 0;
    const unsigned char second = byte(1);
    if (lead == 0xE0 && second < 0xA0) return 0;
    if (lead == 0xED && second > 0x9F) return 0;
    if (lead == 0xF0 && second < 0x90) return 0;
    if (lead == 0xF4 && second > 0x8F) return 0;
    return length;
}

std::string hex_byte(unsigned char c) {
    constexpr char digits[] = "0123456789abcdef";
    return {'0', 'x', digits[c >> 4], digits[c & 15]};
}

const char *skip_blanks(const char *at, const char *end, char separator) {
    while (at != end && is_blank(*at) && *at != separator) ++at;
    return at;
}

} // namespace

std::string quoted(std::string_view text) {
    constexpr std::size_t limit = 40;
    const bool whole = text.size() <= limit;
    std::size_t cut = whole ? text.size() : limit;
    while (!whole && cut > 0 && is_continuation(static_cast<unsigned char>(text[cut]))) --cut;
    std::string result(1, '\'');
    result.append(text.substr(0, cut)).append(whole ? "'" : "…'");
    return result;
}

bool is_plain(std::string_view text) {
    unsigned char odd = 0; // no branches and no early exit: the loop is vectorised
    for (const char c : text) {
        const auto byte = static_cast<signed char>(c); // beyond ASCII it is negative
        odd |= ((byte < 0x20) & (byte != '\n') & (byte != '\t')) | (byte == 0x7F);
    }
    return odd == 0;
}

void check_text(std::string_view line) {
    for (std::size_t i = 0; i < line.size();) {
        const auto c = static_cast<unsigned char>(line[i]);
        if (c == 0) throw LineError{"NUL byte; this is not a text file"};
        if (c == '\r') throw LineError{"carriage return inside the line"};
        if ((c < 0x20 && c != '\t') || c == 0x7F)
            throw LineError{"control character " + hex_byte(c) + "; this is not a text file"};
        const std::size_t length = sequence_length(line.substr(i));
        if (length == 0) throw LineError{"byte " + hex_byte(c) + " is not UTF-8 text"};
        i += length;
    }
}

void Fields::split(std::string_view line, char separator) {
    fields_.clear();
    if (separator == ' ')
        split_blanks(line);
    else
        split_separated(line, separator);
}

void Fields::split_blanks(std::string_view line) {
    const char *at = line.data();
    const char *const end = at + line.size();
    while ((at = skip_blanks(at, end, '\0')) != end) {
        if (*at == '"') {
            at = take_quoted(at, end);
            if (at != end && !is_blank(*at)) throw LineError{"text right after a closing quote"};
            continue;
        }
        const char *const begin = at;
        while (at != end && !is_blank(*at)) ++at;
        fields_.emplace_back(begin, static_cast<std::size_t>(at - begin));
    }
}

void Fields::split_separated(std::string_view line, char separator) {
    const char *at = line.data();
    const char *const end = at + line.size();
    while (true) {
        at = skip_blanks(at, end, separator);
        if (at != end && *at == '"') {
            at = skip_blanks(take_quoted(at, end), end, separator);
            if (at != end && *at != separator) throw LineError{"text right after a closing quote"};
        } else {
            const char *const begin = at;
            while (at != end && *at != separator) ++at;
            const char *last = at;
            while (last != begin && is_blank(last[-1])) --last;
            fields_.emplace_back(begin, static_cast<std::size_t>(last - begin));
        }
        if (at == end) return;
        ++at; // the separator; one at the end of the line leaves an empty last field
    }
}

// Appends the quoted field that begins at `at`; returns the place after its closing quote.
const char *Fields::take_quoted(const char *at, const char *end) {
    const char *const begin = ++at;
    std::string *unescaped = nullptr;
    const char *from = begin;
    while (true) {
        at = std::find(at, end, '"');
        if (at == end) throw LineError{"a quoted field does not end on its line"};
        if (at + 1 == end || at[1] != '"') break;
        if (!unescaped) unescaped = &unescaped_.emplace_back();
        unescaped->append(from, at + 1);
        from = at += 2;
    }
    if (unescaped) {
        unescaped->append(from, at);
        fields_.emplace_back(*unescaped);
    } else {
        fields_.emplace_back(begin, static_cast<std::size_t>(at - begin));
    }
    return at + 1;
}

} // namespace icml::formats
