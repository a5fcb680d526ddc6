#pragma once

// What the emulation reads from its environment, once.

#include <cstddef>
#include <cstdint>

namespace tutti::emulation {

struct Environment {
  /// TUTTI_EMULATION_SEED: 0 runs threads in order and lands asynchronous copies as late as it can;
  /// any other number is a seed of a random order, and of random times.
  uint64_t seed = 0;
  /// TUTTI_EMULATION_WORKERS: OS threads of each launch. 2.
  int workers = 2;
  /// TUTTI_EMULATION_TIMEOUT: seconds that all threads may poll without any progress. 30.
  int timeoutSeconds = 30;
  /// TUTTI_EMULATION_STACK: KiB of stack of a CUDA thread. 64, with a sanitizer 256.
  size_t stackBytes = 0;
};

const Environment& environment();

}  // namespace tutti::emulation
