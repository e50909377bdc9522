// Numbers in text: decimal floating point as std::from_chars reads it (independent of the locale), and the
// integers whose one and only spelling is their canonical one.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

namespace icml::formats {

// Reads an int64 spelled canonically (no plus sign, no leading zero, no "-0"), so that text and number
// determine each other: "7" is one, "007" is not.
inline bool parse_integer(std::string_view text, std::int64_t &value) {
    const bool negative = !text.empty() && text[0] == '-';
    if (negative) text.remove_prefix(1);
    if (text.empty() || text.size() > 19) return false; // 19 digits cannot overflow the uint64 below
    if (text[0] == '0') {
        value = 0;
        return text.size() == 1 && !negative;
    }
    std::uint64_t magnitude = 0;
    for (char c : text) {
        const auto digit = static_cast<unsigned>(c - '0');
        if (digit > 9) return false;
        magnitude = 10 * magnitude + digit;
    }
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (magnitude > most + (negative ? 1 : 0)) return false;
    value = static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude);
    return true;
}

// Reads a finite or non-finite number ("nan", "inf", "infinity" in any case) that takes up the whole text.
// What is too small for a double is a zero, what is too large an infinity.
bool parse_number(std::string_view text, double &value);

} // namespace icml::formats
