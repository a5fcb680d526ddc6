#pragma once

// Stacks that can be switched between, by a few lines of assembly. A fiber stays on the OS thread
// that made it: compilers keep addresses of thread_local variables across calls.

#include <cstddef>

#include "tests/emulation/sanitizers.h"

namespace tutti::emulation {

struct Fiber {
  void* stackPointer = nullptr;
  char* stack = nullptr;  // its lowest byte, above a guard page
  size_t stackBytes = 0;
  ThreadContext context = nullptr;
  void* fakeStack = nullptr;  // AddressSanitizer's
};

/// A fiber with a stack of its own that calls `entry` when it is first switched to; `entry` never
/// returns.
void makeFiber(Fiber& fiber, size_t stackBytes, void (*entry)());
/// It has been left, and is never switched to again. Not for AddressSanitizer, which is not told.
void endFiber(Fiber& fiber);
/// Of the process, made and not ended.
int fiberCount();
/// Makes a fiber of what this OS thread runs on already.
void adoptThread(Fiber& fiber);
/// Leaves `from` and goes on where `to` was left; returns when somebody switches back.
void switchFiber(Fiber& from, Fiber& to);
/// First thing in an entry.
void beginFiber();

}  // namespace tutti::emulation
