#pragma once

// What the benchmarks of transports share: messages through rings, medians, and two processes.

#include <cstdint>
#include <functional>
#include <vector>

#include "transports/connection.h"

namespace tutti::bench {

inline constexpr int kPingPongs = 20'000;

double nowNs();

/// Both processes have come here, and all that they sent has left. By messages on channel 1; what
/// is measured goes through channel 0.
void barrier(transports::Endpoint& endpoint, int rank);
/// Half a round trip of 8 bytes, nanoseconds.
double pingPong(transports::Endpoint& endpoint, int rank);
/// `bytes` from rank 0's buffer through the slots into rank 1's, nanoseconds until it has all.
double stream(transports::Endpoint& endpoint, int rank, std::vector<char>& buffer, size_t bytes);

struct Sample {
  std::vector<double> values;
  /// 0.5 is the median.
  double at(double share);
};

/// Runs body(rank, socket) in two processes, each on a core of its own when there are two, joined
/// by a SOCK_SEQPACKET socket. Returns the exit code.
int inTwoProcesses(const std::function<void(int rank, int socket)>& body);

}  // namespace tutti::bench
