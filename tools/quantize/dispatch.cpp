// Which instruction set's routines run: the widest this machine has, unless the caller or the environment
// says.
#include "dispatch.hpp"

#include <cstdlib>
#include <stdexcept>

namespace icml::quantize {

#if defined(__x86_64__)
extern const InstructionSet avx2_set, avx512_set;
#endif

namespace {

std::vector<const InstructionSet *> usable_sets() {
    std::vector<const InstructionSet *> sets{&portable_set};
#if defined(__x86_64__)
    for (const InstructionSet *set : {&avx2_set, &avx512_set})
        if (set->usable()) sets.push_back(set);
#endif
    return sets;
}

const InstructionSet &named(const std::string &name) {
    for (const InstructionSet *set : usable_sets())
        if (set->name == name) return *set;
    throw std::invalid_argument("no such instruction set here: " + name);
}

} // namespace

std::vector<std::string> instruction_sets() {
    std::vector<std::string> names;
    for (const InstructionSet *set : usable_sets()) names.emplace_back(set->name);
    return names;
}

const InstructionSet &instruction_set(const std::string &name) {
    if (!name.empty()) return named(name);
    static const InstructionSet &chosen = [&]() -> const InstructionSet & {
        const char *wanted = std::getenv("ICML_QUANTIZE_ISA");
        return wanted != nullptr && *wanted != '\0' ? named(wanted) : *usable_sets().back();
    }();
    return chosen;
}

} // namespace icml::quantize
