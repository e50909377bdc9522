#include "parallel.hpp"

#include <exception>
#include <vector>

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
