// Ranks as processes, whose memory CUDA's handles export: on devices of their own they are joined;
// two on one device are joined for copies alone, and say why. The test's process itself never calls
// CUDA.

#include <gtest/gtest.h>

#include "collectives/algorithms.h"
#include "src/base/check.h"
#include "tests/executor/kernel/calls.h"
#include "tests/executor/kernel/hub.h"

namespace tutti::tests {
namespace {

const transports::p2p::P2pLayout kLayout{
    .rings = {.channels = 2, .slotCount = 4, .slotBytes = 4096}, .lowLatencyBytes = 2048};

std::unique_ptr<DeviceEndpoint> connected(Hub& hub, int device, int rank, int ranks) {
  auto endpoint = std::make_unique<DeviceEndpoint>(device, rank, ranks, kLayout);
  const auto addresses = hub.exchange(rank, endpoint->address().blob);
  for (int peer = 0; peer < ranks; ++peer)
    if (peer != rank) endpoint->connect(peer, addresses[peer]);
  return endpoint;
}

/// Whether the rank's memory is as on the host after a call.
bool isRight(KernelExecutor& executor, const Call& call, int device, int rank, Wire wire,
             uint64_t seed) {
  const Memory memory = memoryOf(call, rank, seed);
  const auto plan = executor.prepareProgram(call.spec, collectives::build(call.spec, rank));
  DeviceBuffer buffer(device, memory.bytes, 0);
  cudaStream_t stream = nullptr;
  TUTTI_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto its = call.on(rank, buffer.data() + memory.in, buffer.data() + memory.out);
  launchOn(executor, {.plan = plan.get(), .call = its, .wire = wire}, stream);
  TUTTI_CUDA(cudaStreamSynchronize(stream));
  if (const auto failed = executor.failure()) throw *failed;
  return buffer.download() == hostResult(call, seed, kLayout.slotBytes(wire))[rank].bytes;
}

/// What one rank does; its exit code.
int runRank(Hub& hub, int rank, int ranks) {
  TUTTI_CUDA(cudaSetDevice(rank));
  const auto endpoint = connected(hub, rank, rank, ranks);
  hub.exchange(rank, kHere);  // all are ready to be written to
  endpoint->startProbe(1, 30'000'000'000);
  for (const std::string& fault : endpoint->finishProbe()) TUTTI_ASSERT(fault.empty(), fault);
  Residency residency;
  KernelExecutor executor(*endpoint, residency, {.blocks = 8, .threadsPerLane = 32});
  bool right = true;
  for (uint64_t seed = 1; seed <= 3; ++seed)
    for (const Wire wire : kWires)
      right &= isRight(executor, ringCall(ranks, 3000), rank, rank, wire, seed);
  bool refuses = false;
  try {
    const auto spec = mappedCall(ranks, 10).spec;
    executor.prepareProgram(spec, collectives::build(spec, rank));
  } catch (const Error& error) {
    refuses = std::string(error.what()).find("which is another process") != std::string::npos;
  }
  hub.exchange(rank, kHere);  // nobody writes to this one's memory any more
  return right ? refuses ? 0 : 3 : 2;
}

TEST(Processes, OnDevicesOfTheirOwnAreJoined) {
  constexpr int kRanks = 3;
  RanksAtHub ranks(kRanks, [](Hub& hub, int rank) { return runRank(hub, rank, kRanks); });
  ranks.serve(3);
  ranks.expectSuccess(kRanks);
}

int shareDevice(Hub& hub, int rank) {
  TUTTI_CUDA(cudaSetDevice(1));
  const auto endpoint = connected(hub, 1, rank, 2);
  hub.exchange(rank, kHere);
  if (!endpoint->isConnected(1 - rank) || !endpoint->takesTurns(1 - rank)) return 2;
  Residency residency;
  try {
    KernelExecutor executor(*endpoint, residency);
  } catch (const Error& error) {
    const std::string reason = error.what();
    return error.code() == ErrorCode::PeerLost &&
                   reason.find("another process on the same device 1") != std::string::npos
               ? 0
               : 3;
  }
  return 4;
}

TEST(Processes, OnOneDeviceRunNoKernelsThatWait) {
  RanksAtHub ranks(2, shareDevice);
  ranks.serve(2);
  ranks.expectSuccess(2);
}

}  // namespace
}  // namespace tutti::tests
