#pragma once

// Copies of the asynchronous proxy: what is common to bulk copies and TMA. `move` moves the bytes
// while nobody is asked about races; the touches are told to ThreadSanitizer before.

#include <functional>

#include "tests/emulation/worker.h"

namespace tutti::emulation {

struct SharedRange {
  uint32_t address, bytes;
};

/// Global (or another block's shared) memory to `to` in `block`, counted at `barrier` there.
/// `touch` touches what is read.
struct ProxyLoad {
  Block* block;
  SharedRange to;
  uint32_t barrier;
  std::function<void()> touch;
  std::function<void()> move;
  const char* what;
};
void deferLoad(ProxyLoad load, Site site);

/// Shared to global memory, as part of the thread's bulk group. `touch` touches what is written, if
/// the moves do not do so themselves; `move` is given a copy of the shared bytes.
struct ProxyStore {
  SharedRange from;
  std::function<void()> touch;
  std::function<void(const char* bytes)> move;
  const char* what;
};
void deferStore(ProxyStore store, Site site);

}  // namespace tutti::emulation
