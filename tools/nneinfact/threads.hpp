// A loop over tasks on several threads that exist for this loop only.
//
// OpenMP's workers spin between two parallel regions, which on passes of a millisecond costs as much
// processor time as the work; starting a thread costs some 30 microseconds. A fork of the process is
// harmless, too.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace icml::einfact {

// Threads that pay for so many multiply-adds.
inline int threads_for(double work, int threads) {
    constexpr double worth = 2e6;
    return work >= worth * threads ? threads : work < 2 * worth ? 1 : int(work / worth);
}

// Hands out task numbers 0 <= i < count; next() is -1 when none is left.
class Tasks {
  public:
    explicit Tasks(std::int64_t count) : count_(count) {}
    std::int64_t next() {
        const std::int64_t i = at_.fetch_add(1, std::memory_order_relaxed);
        return i < count_ ? i : -1;
    }

  private:
    const std::int64_t count_;
    std::atomic<std::int64_t> at_{0};
};

// Calls worker(tasks) on `threads` threads, this one included; rethrows the first exception.
template <class Worker> void run_tasks(std::int64_t count, int threads, const Worker &worker) {
    Tasks tasks(count);
    std::exception_ptr error;
    std::atomic<bool> failed{false};
    const auto guarded = [&]() noexcept {
        try {
            worker(tasks);
        } catch (...) {
            if (!failed.exchange(true)) error = std::current_exception();
        }
    };
    {
        std::vector<std::jthread> helpers;
        if (count < threads) threads = int(count);
        for (int i = 1; i < threads; ++i) {
            try {
                helpers.emplace_back(guarded);
            } catch (const std::system_error &) { // no more threads to be had: do with those there are
                break;
            }
        }
        guarded();
    }
    if (error) std::rethrow_exception(error);
}

} // namespace icml::einfact
