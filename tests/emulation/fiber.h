#pragma once

// Stacks that can be switched between, by a few lines of assembly. Compilers keep addresses of
// thread_local variables across calls: a fiber goes on on the OS thread on which it was left,
// unless none that it is in the middle of touches one.

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
/// returns. There is no way to end one.
void makeFiber(Fiber& fiber, size_t stackBytes, void (*entry)());
/// Makes a fiber of what this OS thread runs on already.
void adoptThread(Fiber& fiber);
/// Leaves `from` and goes on where `to` was left; returns when somebody switches back.
void switchFiber(Fiber& from, Fiber& to);
/// First thing in an entry.
void beginFiber();

}  // namespace tutti::emulation
