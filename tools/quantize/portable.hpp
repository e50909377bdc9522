// Products with packed matrices in plain C++, for machines and codes that no wider routine covers.
#pragma once

#include "dispatch.hpp"

namespace icml::quantize {

bool portable_covers(const TrellisProduct &);
void portable_integer(const TrellisProduct &);
void portable_exact(const TrellisProduct &);
void portable_decode(const TrellisProduct &, float *out, std::int64_t out_stride);
void portable_ternary_integer(const TernaryProduct &);
void portable_ternary_exact(const TernaryProduct &);

} // namespace icml::quantize
