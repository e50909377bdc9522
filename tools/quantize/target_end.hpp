// Ends what target_avx2.hpp or target_avx512.hpp began.
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
