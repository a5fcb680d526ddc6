#pragma once

// Global memory as instructions see it: aligned, and watched by ThreadSanitizer.

#include <cstdint>

#include "tests/emulation/worker.h"

namespace tutti::emulation {

/// Fails where the address is null or no multiple of `alignment`.
void requireAligned(const void* address, size_t alignment, const char* what, Site site);

/// Before an atomic access: lets another thread run now and then.
void beforeAtomic(Site site);
/// After a load that somebody may spin on: a thread that looks again and again pauses.
void afterLook(Site site);

// Loads and stores of flags, 4 or 8 bytes, with an order of __ATOMIC_*. Fences around relaxed ones
// make them acquire and release.
template <class Word>
Word loadFlag(const Word* from, int order, Site site);
template <class Word>
void storeFlag(Word* to, Word value, int order, Site site);

/// The order of a relaxed write after a fence; and, for the next fence, that the word was read.
int orderAfterFence(int order);
void noteRead(const void* word, int order);

}  // namespace tutti::emulation
