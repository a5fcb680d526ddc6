// Ranks as processes, over UCX: as on two hosts, the first of which has all ranks but the last.
// Those of one are joined by p2p, on devices of their own. The test's process itself never calls
// CUDA.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "collectives/algorithms.h"
#include "tests/executor/kernel/calls.h"
#include "tests/executor/kernel/hub.h"
#include "tests/transports/ucx/fabrics.h"

namespace tutti::tests {
namespace {

const transports::p2p::P2pLayout kLayout{
    .rings = {.channels = 2, .slotCount = 4, .slotBytes = 4096}, .lowLatencyBytes = 2048};
/// A message of these is a while on its way.
const transports::p2p::P2pLayout kLong{
    .rings = {.channels = 2, .slotCount = 4, .slotBytes = 1 << 20}, .lowLatencyBytes = 2048};
constexpr uint32_t kDirectBytes = 3000;  // a part of the messages is shorter

/// One rank's endpoints, connected, and its executor.
struct Member {
  std::unique_ptr<DeviceEndpoint> endpoint;
  Residency residency;
  std::unique_ptr<KernelExecutor> executor;
};

void join(Member& member, Hub& hub, int rank, int ranks,
          uint32_t directBytes = transports::p2p::kNoMessage,
          const transports::p2p::P2pLayout& layout = kLayout) {
  TUTTI_CUDA(cudaSetDevice(rank));
  const int last = ranks - 1;
  member.endpoint = std::make_unique<DeviceEndpoint>(rank, rank, ranks, layout);
  const auto addresses = hub.exchange(rank, member.endpoint->address().blob);
  auto remote = transports::ucx::makeUcxEndpoint(transports::ucx::makeWorker(overTcp()), rank,
                                                 ranks, executor::kernel::remoteLayout(layout));
  for (int to = 0; to < ranks; ++to) {
    const auto blobs = hub.exchange(rank, to == rank ? kHere : remote->address(to).blob);
    for (int from = 0; from < ranks && to == rank; ++from)
      if (from != rank) remote->connect(from, {blobs[from], {}});
  }
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == rank) continue;
    if (peer == last || rank == last) {
      member.endpoint->connectThroughHost(peer, directBytes);
      executor::kernel::goDirect(*member.endpoint, *remote, peer);
    } else {
      member.endpoint->connect(peer, addresses[peer]);
    }
  }
  hub.exchange(rank, kHere);  // all know who may connect
  const KernelOptions options{.blocks = 8, .threadsPerLane = 32};
  member.executor = std::make_unique<KernelExecutor>(*member.endpoint, member.residency, options,
                                                     std::move(remote));
  hub.exchange(rank, kHere);  // all are ready to be written to
}

constexpr int exchangesToJoin(int ranks) { return ranks + 3; }

/// The rank's memory after a call.
Buffer run(Member& member, const Call& call, int rank, Wire wire, uint64_t seed) {
  const Memory memory = memoryOf(call, rank, seed);
  const auto plan = member.executor->prepareProgram(call.spec, collectives::build(call.spec, rank));
  DeviceBuffer buffer(rank, memory.bytes, 0);
  cudaStream_t stream = nullptr;
  TUTTI_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto its = call.on(rank, buffer.data() + memory.in, buffer.data() + memory.out);
  launchOn(*member.executor, {.plan = plan.get(), .call = its, .wire = wire}, stream);
  TUTTI_CUDA(cudaStreamSynchronize(stream));
  if (const auto failed = member.executor->failure()) throw *failed;
  return buffer.download();
}

/// What one rank does; its exit code.
int compare(Hub& hub, int rank, int ranks, uint32_t directBytes) {
  Member member;
  join(member, hub, rank, ranks, directBytes);
  bool right = true;
  for (uint64_t seed = 1; seed <= 3; ++seed)
    for (const Wire wire : kWires) {
      const Call call = ringCall(ranks, 3000);
      right &= run(member, call, rank, wire, seed) ==
               hostResult(call, seed, kLayout.slotBytes(wire))[rank].bytes;
    }
  hub.exchange(rank, kHere);  // nobody writes to this one's memory any more
  return right ? 0 : 2;
}

void expectAllRight(int ranks, uint32_t directBytes = transports::p2p::kNoMessage) {
  RanksAtHub members(ranks,
                     [&](Hub& hub, int rank) { return compare(hub, rank, ranks, directBytes); });
  members.serve(exchangesToJoin(ranks) + 1);
  members.expectSuccess(ranks);
}

TEST(RemoteProcesses, TwoAreJoined) { expectAllRight(2); }
TEST(RemoteProcesses, TwoOfOneHostAndOneOfAnotherAreJoined) { expectAllRight(3); }
TEST(RemoteProcesses, TheirDevicesAreJoined) { expectAllRight(3, kDirectBytes); }

/// Who heard first of rank 2's death has told the other.
int exitOf(const Error& error, int rank) {
  const std::string text = error.what();
  const bool isNamed =
      text.find("rank 2 was lost: its connection broke") != std::string::npos ||
      text.find(rank == 0 ? "rank 1 has given up" : "rank 0 has given up") != std::string::npos;
  fprintf(stderr, "rank %d: %s\n", rank, error.what());
  return error.code() == ErrorCode::PeerLost && isNamed ? 0 : 3;
}

/// Rank 2 is killed when the others wait for it.
int loseTheLast(Hub& hub, int rank) try {
  Member member;
  join(member, hub, rank, 3);
  run(member, ringCall(3, 3000), rank, Wire::Simple, 1);
  hub.exchange(rank, kHere);
  if (rank == 2)
    while (true) pause();
  run(member, ringCall(3, 3000), rank, Wire::Simple, 2);
  return 2;
} catch (const Error& error) {
  return exitOf(error, rank);
}

TEST(RemoteProcesses, AKilledRankIsNamed) {
  RanksAtHub members(3, loseTheLast);
  members.serve(exchangesToJoin(3) + 1);
  members.kill(2);
  members.expectSuccess(2);
}

/// Rank 2 is killed while long messages are on their way to it, and from there.
int loseTheLastOnTheWay(Hub& hub, int rank) try {
  Member member;
  join(member, hub, rank, 3, kDirectBytes, kLong);
  hub.exchange(rank, kHere);
  while (true) run(member, ringCall(3, 3 << 20), rank, Wire::Simple, 1);
} catch (const Error& error) {
  return exitOf(error, rank);
}

TEST(RemoteProcesses, AKilledRankIsNamedAlsoInTheMiddleOfMessages) {
  for (const int afterMs : {0, 40, 200}) {
    RanksAtHub members(3, loseTheLastOnTheWay);
    members.serve(exchangesToJoin(3) + 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(afterMs));
    members.kill(2);
    members.expectSuccess(2);
  }
}

}  // namespace
}  // namespace tutti::tests
