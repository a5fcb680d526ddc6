#pragma once

// The probe of a rank's pairs, as its kernel is launched.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "transports/p2p/links.h"

namespace tutti::transports::p2p {

inline constexpr uint32_t kProbeThreads = 128;

struct ProbeTarget {
  unsigned char* there;       ///< in the peer's memory; null: no pair
  const unsigned char* here;  ///< in this rank's
};

enum class ProbeState : uint32_t { None, Right, Late, Wrong };
struct ProbeFinding {
  ProbeState state = ProbeState::None;
  uint32_t firstWrong = 0;  ///< word
};

struct ProbeArguments {
  const ProbeTarget* pairs;  ///< by peer, in device memory
  ProbeFinding* findings;    ///< by peer, in pinned memory
  uint32_t rank, ranks;
  uint32_t seed;  ///< not 0, and not that of an earlier probe
  uint32_t words;
  uint64_t deadlineNs;
  const uint32_t* isOver;  ///< in pinned memory; null, or not 0 when nobody waits any more
};

/// Compiled as the executor's kernels are: probe.cu, and for the emulation by g++.
cudaError_t launchProbe(const ProbeArguments& arguments, cudaStream_t stream);
const void* probeAddress();

}  // namespace tutti::transports::p2p
