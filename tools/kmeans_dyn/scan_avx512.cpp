// The scans for x86 processors with AVX-512; GCC only, clang has no pragma for the target.
#if defined(__x86_64__) && !defined(__clang__)
#include "distance.hpp"

#pragma GCC target("avx512f,avx2,popcnt")
#pragma GCC optimize("fp-contract=off", "no-math-errno")
#define ICML_SCAN_SET avx512
#define ICML_SCAN_BYTES 64
#include "scan.hpp"
#endif
