// The parts of the shared text reader that this module's stream reader stands on, compiled into it.
#include "../../formats/number.cpp"   // NOLINT(bugprone-suspicious-include)
#include "../../formats/parallel.cpp" // NOLINT(bugprone-suspicious-include)
#include "../../formats/text.cpp"     // NOLINT(bugprone-suspicious-include)
