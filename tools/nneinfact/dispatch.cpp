// Which instruction set's routines run: the widest this machine has, unless a test asks for another.
#include "dispatch.hpp"

#include <atomic>
#include <stdexcept>

namespace icml::einfact {

extern const InstructionSet base_set;
#if defined(__x86_64__)
extern const InstructionSet avx2_set, avx512_set;
#endif

namespace {

std::vector<const InstructionSet *> usable_sets() {
    std::vector<const InstructionSet *> sets{&base_set};
#if defined(__x86_64__)
    for (const InstructionSet *set : {&avx2_set, &avx512_set})
        if (set->usable()) sets.push_back(set);
#endif
    return sets;
}

std::atomic<const InstructionSet *> &current() {
    static std::atomic<const InstructionSet *> set = usable_sets().back();
    return set;
}

} // namespace

template <> const Routines<float> &routines<float>() {
    return current().load()->f32;
}
template <> const Routines<double> &routines<double>() {
    return current().load()->f64;
}

std::vector<std::string> instruction_sets() {
    std::vector<std::string> names;
    for (const InstructionSet *set : usable_sets()) names.emplace_back(set->name);
    return names;
}

std::string use_instruction_set(const std::string &name) {
    const std::string before = current().load()->name;
    for (const InstructionSet *set : usable_sets())
        if (set->name == name) {
            current() = set;
            return before;
        }
    throw std::invalid_argument("no such instruction set here: " + name);
}

} // namespace icml::einfact
