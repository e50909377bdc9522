// When a search has to end: a deadline, a number of steps, a cost that is good enough, or somebody's wish.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>

namespace icml::cclust {

struct Limits {
    static constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

    double seconds = std::numeric_limits<double>::infinity();
    std::int64_t steps = unlimited;
    double target = -std::numeric_limits<double>::infinity();
    // Called with (best cost, steps) at least ten times a second; true ends the search. May throw.
    std::function<bool(double, std::int64_t)> poll;
};

// One search stream's view of the limits. Streams of the same search share `stop`.
class Budget {
  public:
    using Clock = std::chrono::steady_clock;

    Budget(const Limits &limits, std::atomic<bool> &stop, Clock::time_point start = Clock::now())
        : limits_(limits), stop_(stop), start_(start), last_poll_(Clock::now()) {
        if (elapsed() >= limits.seconds) stop_ = true;
    }

    // Accounts for `work` scanned arcs; looks at the clock once in a while. True when the search has to end.
    bool spend(std::int64_t work) {
        work_ += work;
        if (work_ >= next_look_) look();
        return stop_.load(std::memory_order_relaxed);
    }

    // Ends a step that left the best cost at `cost`. True when the search has to end.
    bool finish_step(double cost) {
        ++steps_;
        record(cost);
        return steps_ >= limits_.steps || spend(1);
    }

    // Reports the best cost so far; reaching the target ends the search.
    void record(double cost) {
        best_ = cost;
        if (cost <= limits_.target) stop_ = true;
    }

    // Whether the search has to end now; `exhausted` also counts steps.
    bool stopped() const { return stop_.load(std::memory_order_relaxed); }
    bool exhausted() const { return steps_ >= limits_.steps || stopped(); }
    std::int64_t steps() const { return steps_; }
    std::int64_t work() const { return work_; }
    double elapsed() const { return seconds_between(start_, Clock::now()); }

    // How far along the clock is, 0 to 1, for schedules that have to fit the time. Where steps are counted,
    // the result must not depend on the clock, which may then only cut the search off: 0.
    double time_used() const { return limits_.steps == Limits::unlimited ? elapsed() / limits_.seconds : 0; }

    Clock::time_point start() const { return start_; }

  private:
    static constexpr std::int64_t work_between_looks = 200'000; // about a millisecond

    static double seconds_between(Clock::time_point a, Clock::time_point b) {
        return std::chrono::duration<double>(b - a).count();
    }

    void look() {
        next_look_ = work_ + work_between_looks;
        const auto now = Clock::now();
        if (seconds_between(start_, now) >= limits_.seconds) stop_ = true;
        if (limits_.poll && seconds_between(last_poll_, now) >= 0.05) {
            last_poll_ = now;
            if (limits_.poll(best_, steps_)) stop_ = true;
        }
    }

    const Limits &limits_;
    std::atomic<bool> &stop_;
    Clock::time_point start_, last_poll_;
    std::int64_t work_ = 0, next_look_ = work_between_looks, steps_ = 0;
    double best_ = std::numeric_limits<double>::infinity();
};

} // namespace icml::cclust
