#pragma once

// A long cable: a process that carries frames between two tap devices, for kernels without netem.

#include <chrono>
#include <string>

namespace tutti::tests {

struct DelayedLink {
  double bytesPerSecond = 0;
  std::chrono::nanoseconds delay{};
  int mostWaiting = 1000;  ///< frames that wait for the link's rate; more are dropped
};

/// A new tap device in this thread's network. Throws System.
int openTap(const std::string& name);
/// Carries what comes from `near` to `far` at the link's rate and so much later, and what comes
/// from `far` at once. Returns when a device is gone.
void carry(int near, int far, const DelayedLink& link);

}  // namespace tutti::tests
