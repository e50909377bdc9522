// When the solver has to end: a deadline, or somebody's wish.
#pragma once

#include <chrono>
#include <functional>

namespace icml::cclust {

enum class Finish { converged, time, stopped };

class Monitor {
  public:
    /// `poll` is called at least ten times a second while expired() is; true ends the work. It may throw.
    Monitor(double seconds, std::function<bool()> poll)
        : seconds_(seconds), poll_(std::move(poll)), start_(Clock::now()), last_poll_(start_) {}

    double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

    /// Seconds in all; infinite without a limit.
    double limit() const { return seconds_; }

    /// Whether to wind up now, which takes about reserve() seconds; stays true.
    bool expired() {
        if (reason_ != Finish::converged) return true;
        const auto now = Clock::now();
        if (std::chrono::duration<double>(now - start_).count() + reserve_ >= seconds_)
            reason_ = Finish::time;
        if (poll_ && now - last_poll_ >= std::chrono::milliseconds(100)) {
            last_poll_ = now;
            if (poll_()) reason_ = Finish::stopped;
        }
        return reason_ != Finish::converged;
    }

    /// How long the last step, which must be done even after the deadline, will take.
    void reserve(double seconds) { reserve_ = seconds; }

    Finish reason() const { return reason_; }

  private:
    using Clock = std::chrono::steady_clock;

    double seconds_, reserve_ = 0;
    std::function<bool()> poll_;
    Clock::time_point start_, last_poll_;
    Finish reason_ = Finish::converged;
};

} // namespace icml::cclust
