#pragma once

// Collectives of a warp: lanes meet, the last to come does the work for all.

#include "tests/emulation/state.h"

namespace tutti::emulation {

constexpr unsigned kFullWarp = ~0u;

/// Waits for the lanes of `mask`, then complete(slots, lanes) runs once, with what each lane gave
/// as its slot, while all lanes wait. `orders`: what a lane wrote before is seen by the others
/// after it. Lanes that have exited are not waited for, and not in `lanes`.
void meetInWarp(unsigned mask, void* slot, void (*complete)(void** slots, unsigned lanes),
                bool orders, Site site);

/// The current thread's number in its warp.
inline unsigned laneOf(const Thread& thread) { return thread.linear % 32; }

/// For a thread that ends: others no longer wait for it.
void leaveWarp(Thread& thread);

/// The thread's warpgroup; fails, with the instruction's name, where that has fewer than 128
/// threads.
Warpgroup& warpgroupOf(Thread& thread, const char* instruction, Site site);

/// The name of the collective, and fails unless all 32 lanes have come.
void requireFullWarp(unsigned lanes, const char* instruction);

}  // namespace tutti::emulation
