#pragma once

// What tests of failing launches look at.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <list>
#include <string>
#include <thread>

#include "src/device/any_stream.h"
#include "tests/device/cuda_test.h"
#include "tests/executor/kernel/calls.h"

namespace tutti::tests {

/// Code and text of a rank's failure; `Internal` and nothing where there is none.
inline Error failureOf(DeviceRanks& ranks, int rank) {
  const auto failure = ranks.executor(rank).failure();
  return failure ? Error(*failure) : Error(ErrorCode::Internal, "");
}

inline void expectNames(const Error& error, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << part << " is not in: " << error.what();
}

/// Launches of all ranks end without success; some rank has an error of this code.
inline Error firstOf(DeviceRanks& ranks, ErrorCode code) {
  for (int r = 0; r < ranks.size(); ++r) ranks.wait(r);
  Error found(ErrorCode::Internal, "no rank has that error");
  for (int r = 0; r < ranks.size(); ++r) {
    const Error error = failureOf(ranks, r);
    EXPECT_TRUE(error.code() == code || error.code() == ErrorCode::PeerLost)
        << "rank " << r << ": " << error.what();
    if (error.code() == code) found = error;
  }
  EXPECT_EQ(found.code(), code) << found.what();
  return found;
}

/// What begin() has prepared is launched on every rank, as `change(launch, rank)` leaves it.
template <class Ranks, class Change>
void launchChanged(Ranks& ranks, const Change& change) {
  for (int r = 0; r < ranks.size(); ++r) {
    auto launch = ranks.launchOf(r);
    change(launch, r);
    ranks.launch(r, launch);
  }
}
/// Ranks launch calls of different fingerprints: 1000, 1001.
template <class Ranks>
void launchDifferentCalls(Ranks& ranks) {
  launchChanged(ranks, [](auto& launch, int rank) {
    launch.call.callHash = 1000 + static_cast<uint32_t>(rank);
  });
}

/// Of two ranks that have begun a call.
inline void expectDifferentCallsAreAMismatch(DeviceRanks& ranks) {
  launchDifferentCalls(ranks);
  expectNames(firstOf(ranks, ErrorCode::Mismatch),
              {"fingerprint 1000", "fingerprint 1001", "rank 0", "rank 1", "operation 0"});
}

/// Of two ranks that have begun a call of 300: their caller's fingerprints say that they are alike.
inline void expectDifferentCountsAreAMismatch(DeviceRanks& ranks) {
  launchChanged(ranks, [](DeviceLaunch& launch, int rank) {
    launch.call.facts.count = rank == 0 ? 300 : 200;
  });
  expectNames(firstOf(ranks, ErrorCode::Mismatch), {"640 bytes", "448 bytes"});
}

/// Of two ranks that have begun a call, and wait for 30 ms: rank 1 alone launches it.
inline void expectTimeout(DeviceRanks& ranks) {
  ranks.launch(1);
  ranks.wait(1);
  EXPECT_EQ(failureOf(ranks, 1).code(), ErrorCode::Timeout);
  expectNames(failureOf(ranks, 1), {"rank 1, operation 0", "waiting for rank 0"});
}

/// Of two ranks that have begun a call: rank 1 takes it for a later operation.
inline void expectSkippedIsMismatch(DeviceRanks& ranks) {
  const uint32_t skipped = 5;
  TUTTI_CUDA(cudaMemcpy(&ranks.endpoint(1).words()->operation, &skipped, sizeof skipped,
                        cudaMemcpyHostToDevice));
  TUTTI_CUDA(cudaDeviceSynchronize());
  for (int r = 0; r < 2; ++r) ranks.launch(r);
  expectNames(firstOf(ranks, ErrorCode::Mismatch), {"operation 0", "operation 5"});
}

/// Two launches of every rank wait on its stream for other work, and are discarded meanwhile; the
/// second one begins later.
inline void discard(DeviceRanks& ranks, const std::function<void(int rank)>& launch) {
  std::list<CudaGate> gates[2];
  for (int r = 0; r < ranks.size(); ++r)
    for (auto& gate : gates) {
      gate.emplace_back(device::AnyStream::cudaRef(ranks.stream(r), ranks.deviceOf(r)));
      launch(r);
    }
  for (int r = 0; r < ranks.size(); ++r) {
    ranks.executor(r).abort();
    EXPECT_TRUE(ranks.executor(r).discard());
  }
  for (CudaGate& gate : gates[0]) gate.open();
  // Each has told that it has begun.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  for (int r = 0; r < ranks.size(); ++r) EXPECT_FALSE(ranks.executor(r).isRunning());
  for (CudaGate& gate : gates[1]) gate.open();
  for (int r = 0; r < ranks.size(); ++r) {
    ranks.wait(r);
    EXPECT_EQ(ranks.executor(r).completed(), 0U);
    EXPECT_FALSE(ranks.executor(r).isRunning());
    EXPECT_FALSE(ranks.executor(r).failure());
  }
}

/// Such a launch of the call.
inline void expectDiscardedTouchesNothing(const Call& call, Wire wire) {
  DeviceRanks ranks({.ranks = call.spec.ranks});
  ranks.begin(call, wire, 1);
  discard(ranks, [&](int r) { ranks.launch(r); });
  for (int r = 0; r < ranks.size(); ++r)
    EXPECT_EQ(ranks.buffer(r).download(), memoryOf(call, r, 1).bytes) << "rank " << r;
}

}  // namespace tutti::tests
