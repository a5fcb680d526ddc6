#pragma once

// A training's use of memory and of the network, in lines for people.

#include <string>

#include "parallel/engine/engine.h"

namespace tutti::parallel {

/// What is held, by kind.
std::string describe(const TrainingMemory& memory);
/// What collectives of a step there were, with the bytes of their larger sides.
std::string describe(const Collectives& collectives);

}  // namespace tutti::parallel
