#pragma once

// Faults at addresses that the stand-in knows: memory that was freed, or just beyond an allocation.
// The process ends with a report that says so.

#include "tests/emulation/runtime/memory/memory.h"

namespace tutti::emulation {

/// Takes over SIGSEGV and SIGBUS, once; what it cannot explain goes on as before. Sanitizers have
/// reports of their own.
void watchFaults();
/// A fault in there is a use after free.
void rememberFreed(const Allocation& allocation);

}  // namespace tutti::emulation
