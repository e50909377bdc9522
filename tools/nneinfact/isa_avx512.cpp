// Routines for AVX-512 (x86-64-v4).
#if defined(__x86_64__)
#include "job.hpp"

#include <cstdint>
#include <immintrin.h>
#include <utility>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma,bmi2"))),         \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,fma,bmi2,prefer-vector-width=512")
#endif
#define ICML_ISA avx512
#define ICML_VECTOR_BYTES 64
#define ICML_PRODUCT_VECTORS 4
#define ICML_DOT_COLUMNS 4
#define ICML_OUTER_VECTORS 2
#include "isa.hpp"
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace icml::einfact {
bool usable_avx512() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
extern const InstructionSet avx512_set{"avx512", usable_avx512, avx512::table<float>(),
                                       avx512::table<double>()};
} // namespace icml::einfact
#endif
