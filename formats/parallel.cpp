#include "parallel.hpp"

#include <algorithm>
#include <exception>

#include <omp.h>
#include <pthread.h>

namespace icml::formats {

namespace {
bool forked = false;
}

void watch_forks() {
    pthread_atfork(nullptr, nullptr, [] { forked = true; });
}

int usable_threads(int threads) {
    if (forked) return 1;
    return threads > 0 ? threads : omp_get_max_threads();
}

std::vector<std::string_view> cut_at_lines(std::string_view text, std::size_t piece_bytes) {
    std::vector<std::string_view> pieces;
    while (!text.empty()) {
        const std::size_t target = std::max<std::size_t>(piece_bytes, 1) - 1;
        const std::size_t newline = target < text.size() ? text.find('\n', target) : std::string_view::npos;
        const std::size_t length = newline == std::string_view::npos ? text.size() : newline + 1;
        pieces.push_back(text.substr(0, length));
        text.remove_prefix(length);
    }
    return pieces;
}

std::size_t default_piece_bytes(std::size_t text_bytes, int threads) {
    const auto pieces = threads > 1 ? 2 * static_cast<std::size_t>(threads) : 1;
    return std::max<std::size_t>(text_bytes / pieces + 1, std::size_t{1} << 18);
}

void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)> &body) {
    std::vector<std::exception_ptr> errors(count);
    const auto guarded = [&](std::size_t i) noexcept {
        try {
            body(i);
        } catch (...) {
            errors[i] = std::current_exception();
        }
    };
    if (threads <= 1 || count <= 1) {
        for (std::size_t i = 0; i < count; ++i) guarded(i);
    } else {
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
        for (std::size_t i = 0; i < count; ++i) guarded(i);
    }
    for (const std::exception_ptr &error : errors)
        if (error) std::rethrow_exception(error);
}

} // namespace icml::formats
