// One loop on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace icml::formats {

// The number of threads to use when `threads` were asked for (0: as many as OpenMP offers). In a process made
// by fork() it is 1: GNU's OpenMP runtime hangs there once its parent has used it.
int usable_threads(int threads);

// Has usable_threads() learn of forks; to be called once.
void watch_forks();

// Calls body(i) for 0 <= i < count on `threads` threads; rethrows the first exception by index.
void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)> &body);

} // namespace icml::formats
