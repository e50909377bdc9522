// From here on code is compiled for AVX2 and FMA (x86-64-v3); target_end.hpp ends it.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
