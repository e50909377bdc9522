// From here on code is compiled for Ice Lake's and Zen 4's AVX-512; target_end.hpp ends it.
#if defined(__clang__)
#pragma clang attribute push(                                                                                \
    __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,"                       \
                          "avx512vnni,avx2,fma"))),                                                          \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,avx512vnni,avx2,fma")
#endif
