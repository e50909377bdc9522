// Work on the pieces of a text in parallel: cutting it at line ends, and one loop over pieces.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

namespace icml::formats {

// Cuts `text` into pieces of about `piece_bytes`, each of whole lines.
std::vector<std::string_view> cut_at_lines(std::string_view text, std::size_t piece_bytes);

// A piece size that gives every thread a few pieces, unless the text is too small to be worth it.
std::size_t default_piece_bytes(std::size_t text_bytes, int threads);

// The number of threads to use when `threads` were asked for (0: as many as OpenMP offers). In a process made
// by fork() it is 1: GNU's OpenMP runtime hangs there once its parent has used it.
int usable_threads(int threads);

// Has usable_threads() learn of forks; to be called once.
void watch_forks();

// Calls body(i) for 0 <= i < count on `threads` threads; rethrows the first exception by index.
void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)> &body);

} // namespace icml::formats
