// The scans for any processor; the compiler may use what the build's baseline offers.
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off", "no-math-errno")
#endif
#include "distance.hpp"

#define ICML_SCAN_SET portable
#define ICML_SCAN_BYTES 16
#include "scan.hpp"
