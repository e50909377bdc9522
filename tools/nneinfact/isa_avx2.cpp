// Routines for AVX2 and FMA (x86-64-v3).
#if defined(__x86_64__)
#include "job.hpp"

#include <cstdint>
#include <immintrin.h>
#include <utility>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi2")
#endif
#define ICML_ISA avx2
#define ICML_VECTOR_BYTES 32
#define ICML_PRODUCT_VECTORS 2
#define ICML_DOT_COLUMNS 2
#define ICML_OUTER_VECTORS 1
#include "isa.hpp"
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace icml::einfact {
bool usable_avx2() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
extern const InstructionSet avx2_set{"avx2", usable_avx2, avx2::table<float>(), avx2::table<double>()};
} // namespace icml::einfact
#endif
