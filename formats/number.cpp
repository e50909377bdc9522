#include "number.hpp"

#include <algorithm>

namespace icml::formats {

namespace {

// The decimal exponent of a well-formed number's leading digit: 2 for "123", -3 for "0.001"; saturates.
std::int64_t decimal_exponent(std::string_view text) {
    const std::size_t mark = std::min(text.find_first_of("eE"), text.size());
    const std::string_view mantissa = text.substr(0, mark);
    const std::size_t point = std::min(mantissa.find('.'), mantissa.size());
    const std::size_t leading = mantissa.find_first_of("123456789");
    const auto place =
        static_cast<std::int64_t>(point) - static_cast<std::int64_t>(leading) - (leading < point);
    std::int64_t exponent = 0;
    const bool down = mark + 1 < text.size() && text[mark + 1] == '-';
    for (std::size_t i = mark; i < text.size(); ++i)
        if (text[i] >= '0' && text[i] <= '9')
            exponent = std::min<std::int64_t>(10 * exponent + (text[i] - '0'), std::int64_t{1} << 40);
    return place + (down ? -exponent : exponent);
}

} // namespace

bool parse_number(std::string_view text, double &value) {
    if (std::int64_t integer; parse_integer(text, integer)) {
        value = static_cast<double>(integer);
        return true;
    }
    if (text.starts_with('+')) {
        text.remove_prefix(1);
        if (text.starts_with('-')) return false;
    }
    const char *const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc::invalid_argument || stop != end || text.ends_with(')'))
        return false; // ")": nan(...)
    if (error == std::errc::result_out_of_range) {
        const bool negative = text.starts_with('-');
        if (negative) text.remove_prefix(1);
        const double magnitude = decimal_exponent(text) < 0 ? 0.0 : std::numeric_limits<double>::infinity();
        value = std::copysign(magnitude, negative ? -1.0 : 1.0);
    }
    return true;
}

} // namespace icml::formats
