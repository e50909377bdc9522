// Routines for the instructions every supported machine has: x86-64-v2, or NEON on aarch64.
#include "job.hpp"

#include <cstdint>
#include <utility>

#define ICML_ISA base
#define ICML_VECTOR_BYTES 16
#define ICML_PRODUCT_VECTORS 2
#define ICML_DOT_COLUMNS 2
#define ICML_OUTER_VECTORS 1
#include "isa.hpp"

namespace icml::einfact {
bool usable_base() {
    return true;
}
extern const InstructionSet base_set{"base", usable_base, base::table<float>(), base::table<double>()};
} // namespace icml::einfact
