#pragma once

// Noticing a fork: threads do not survive it, so objects with a thread behave as dead in the child.

#include <cstdint>

namespace tutti::base {

/// A number that differs between a process and its forked children. As cheap as a load.
uint64_t processGeneration();

}  // namespace tutti::base
