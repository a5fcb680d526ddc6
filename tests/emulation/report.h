#pragma once

// How errors are told. The first one ends the process.

#include <span>
#include <vector>

#include "tests/emulation/state.h"

namespace tutti::emulation {

/// Ends the process: all these threads wait in `launch`.
[[noreturn]] void reportWaiting(const Launch& launch, const char* why,
                                std::span<const Thread* const> threads);

/// Fails where a thread that ends has copies, stores or wgmmas that it never waited for.
void checkNothingIsUnderWay(const Thread& thread);

/// Takes a thread that ends out of the barriers and collectives of its block.
void endThread(Thread& thread);

}  // namespace tutti::emulation
