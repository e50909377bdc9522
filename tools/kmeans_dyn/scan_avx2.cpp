// The scans for x86 processors with AVX2; GCC only, clang has no pragma for the target.
#if defined(__x86_64__) && !defined(__clang__)
#include "distance.hpp"

#pragma GCC target("avx2,popcnt")
#pragma GCC optimize("fp-contract=off", "no-math-errno")
#define ICML_SCAN_SET avx2
#define ICML_SCAN_BYTES 32
#include "scan.hpp"
#endif
