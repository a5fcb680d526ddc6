#pragma once

// What a test may have left behind on the machine, the seeds that replay it, and patience.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "tests/support/sanitized.h"

namespace tutti::tests {

/// Every wait of a test ends after this long; nothing that works needs it.
inline constexpr std::chrono::seconds kPatience{20};
/// The deadlines of the failure model, milliseconds: all survivors name a dead rank of their host,
/// and a rank of a host that is dead or cut off. Sanitizers may take longer.
inline constexpr int64_t kDeathNoticedMs = kSanitized ? 5000 : 1000;
inline constexpr int64_t kHostLossNoticedMs = kSanitized ? 10'000 : 5000;
/// Polls `condition` every millisecond; false when patience ended.
bool eventually(const std::function<bool()>& condition);

/// Moves this process to a network namespace of its own with a loopback, so that the sockets
/// counted there are the test's; false where that is not allowed. Before any thread is started.
bool enterOwnNetwork();
/// Abstract sockets of ours (@tutti-...), listening or connected, in this network namespace.
int countOurSockets();
int countDescriptors();
/// A temporary folder of this process's and its children's own, and what they have left of files.
class TemporaryFiles {
 public:
  TemporaryFiles();
  ~TemporaryFiles();
  TemporaryFiles(const TemporaryFiles&) = delete;
  TemporaryFiles& operator=(const TemporaryFiles&) = delete;
  /// Names, in that folder and, of ours, in /dev/shm; empty when there are none.
  std::string left() const;

 private:
  std::string folder_;
};
/// Shared memory in use on the whole machine, KiB: for tests that run alone (RUN_SERIAL).
long sharedMemoryKib();
/// The pages of shared memory that this process has mapped and touched, KiB.
long mappedSharedMemoryKib();
int countSharedMemoryDescriptors();

/// Of the run: TUTTI_TEST_SEED, else a random one; printed once, so that it can be replayed.
uint64_t testSeed();
/// TUTTI_TEST_KILLS, else `ordinary`.
int testKills(int ordinary);
/// How many messages to send: `ordinary`, or on a machine that is TUTTI_TEST_SLOWNESS times as slow
/// as others, an emulated one, so many times fewer; at least one.
uint64_t testMessages(uint64_t ordinary);

}  // namespace tutti::tests
