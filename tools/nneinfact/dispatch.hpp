// The choice of instruction set, made once at run time.
#pragma once

#include "job.hpp"

#include <string>
#include <vector>

namespace icml::einfact {

// Names of the sets this machine can run, narrowest first.
std::vector<std::string> instruction_sets();

// Makes all later calls use the named set; returns the one used before.
std::string use_instruction_set(const std::string &name);

} // namespace icml::einfact
