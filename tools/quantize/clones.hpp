// Functions compiled once for each instruction set and chosen when the module is loaded; without contraction
// into fused multiply-adds, so that all of them give the same bits.
#pragma once

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#define ICML_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define ICML_CLONES
#endif
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif
