#pragma once

// How a simulated network behaves.

#include <cstdint>
#include <string>
#include <vector>

#include "transports/connection.h"

namespace tutti::transports::sim {

inline constexpr int64_t kNever = INT64_MAX;

/// A rank that dies, at a time or once it has sent so many packets, whichever comes first.
struct Death {
  int rank = 0;
  int64_t atNs = kNever;
  int64_t afterPackets = kNever;
};

/// Who lets time pass.
enum class Drive {
  Virtual,  ///< one thread calls Network::advance(); the same seed gives the same run
  Threads,  ///< the real clock; the progress() of any endpoint moves what is due
};

struct SimOptions {
  uint64_t seed = 1;
  Drive drive = Drive::Threads;
  int64_t minLatencyNs = 1'000;
  int64_t maxLatencyNs = 5'000;
  double reorder = 0;    ///< probability that a packet is overtaken by later ones
  double loss = 0;       ///< probability that a packet never arrives; less than 1
  double duplicate = 0;  ///< probability that a packet arrives twice
  /// Of one ring in one direction; 0 means unlimited.
  uint64_t bytesPerSecond = 0;
  std::vector<Death> deaths;
  /// advance() handles everything that is due within this time of the next event at once.
  int64_t stepNs = 0;
  /// Number of the last message before the first, as if so many had been sent; for tests of the
  /// wrap-around.
  uint32_t firstNumber = 0;
};

/// Small slots, for there may be a thousand ranks in one process.
RingLayout chooseLayout(int size, int channels);

}  // namespace tutti::transports::sim
