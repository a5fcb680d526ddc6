// Where a communicator's calls run: what their buffers and streams say, and what is refused by
// name.

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include <tutti/communicator.h>

#include "src/communicator/placement.h"
#include "tests/device/cuda_test.h"
#include "tests/support/local_ranks.h"

namespace tutti::tests {
namespace {

using communicator::CallBuffer;
using communicator::CallPlacement;
using communicator::placementOf;
using communicator::runsOnGpu;
using Side = CallPlacement::Side;

const CallPlacement kAny{Side::Any, "barrier"}, kOnHost{Side::Host, "scan", "send"},
    kOnGpu{Side::Gpu, "reduce", "recv"};

class CudaPlacement : public CudaTest {};
class CudaCommunicator : public CudaTest {};

/// One of each memory that a rank on someGpu(1) may meet; `other` is its own where there is one
/// GPU.
struct Memories {
  std::vector<char> host = std::vector<char>(64);
  Memory pinned = allocatePinned(64), own = allocateOn(someGpu(1), 64),
         other = allocateOn(someGpu(2), 64);
};

CallPlacement place(const void* send, const void* recv) {
  const CallBuffer buffers[] = {{"send", send, 8}, {"recv", recv, 8}};
  return placementOf("all_reduce", buffers, someGpu(1));
}

TEST_F(CudaPlacement, IsThatOfTheMemory) {
  Memories m;
  EXPECT_EQ(place(m.host.data(), m.host.data()).side, Side::Host);
  EXPECT_EQ(place(m.own.data(), m.own.data()).side, Side::Gpu);
  EXPECT_EQ(place(m.pinned.data(), m.pinned.data()).side, Side::Any);
  EXPECT_EQ(place(m.pinned.data(), m.own.data()).side, Side::Gpu);
  EXPECT_STREQ(place(m.pinned.data(), m.own.data()).argument, "recv");
  EXPECT_EQ(place(m.host.data(), m.pinned.data()).side, Side::Host);
  const CallBuffer unused[] = {{"send", m.other.data(), 0}, {"recv", nullptr, 0}};
  EXPECT_EQ(placementOf("reduce", unused, someGpu(1)).side, Side::Any)
      << "without bytes nothing is asked";
  EXPECT_EQ(placementOf("barrier", {}, someGpu(1)).side, Side::Any);
}

TEST_F(CudaPlacement, OfMemoryThatIsNobodysIsRefusedByName) {
  if (devices() < 3) GTEST_SKIP() << "three GPUs are needed";
  Memories m;
  expectError(
      outcomeOf([&] { place(m.own.data(), m.other.data()); }), ErrorCode::InvalidArgument,
      "all_reduce: recv is memory of cuda:2, and this rank works on memory of cuda:1 and of "
      "the host");
  expectError(outcomeOf([&] { place(m.other.data(), m.own.data()); }), ErrorCode::InvalidArgument,
              "all_reduce: send is memory of cuda:2");
}

TEST_F(CudaPlacement, OfMemoryOfTwoKindsIsRefusedByName) {
  Memories m;
  expectError(outcomeOf([&] { place(m.host.data(), m.own.data()); }), ErrorCode::InvalidArgument,
              "all_reduce: send is ordinary memory of the host, and recv is memory of a GPU");
}

// On the host nobody asks CUDA: what would be refused elsewhere is not even looked at.
TEST_F(CudaPlacement, OfTheHostIsTheHost) {
  Memories m;
  const CallBuffer buffers[] = {{"send", m.other.data(), 8}};
  EXPECT_EQ(placementOf("broadcast", buffers, {}).side, Side::Host);
}

TEST_F(CudaPlacement, GoesWithTheStream) {
  const Device device = someGpu(1);
  Stream host, own(device);
  EXPECT_FALSE(runsOnGpu(kAny, device, {}));
  EXPECT_FALSE(runsOnGpu(kAny, device, host));
  EXPECT_TRUE(runsOnGpu(kAny, device, own));
  EXPECT_FALSE(runsOnGpu(kOnHost, device, {}));
  EXPECT_FALSE(runsOnGpu(kOnHost, device, host));
  EXPECT_TRUE(runsOnGpu(kOnGpu, device, {}));
  EXPECT_TRUE(runsOnGpu(kOnGpu, device, own));
  const std::string name = toString(device);
  expectError(outcomeOf([&] { runsOnGpu(kOnHost, device, own); }), ErrorCode::InvalidArgument,
              "scan: stream is of " + name + ", and send is ordinary memory of the host");
  expectError(outcomeOf([&] { runsOnGpu(kOnGpu, device, host); }), ErrorCode::InvalidArgument,
              "reduce: stream is the host's, and recv is memory of a GPU");
  expectError(outcomeOf([&] { runsOnGpu(kAny, Device{}, own); }), ErrorCode::InvalidArgument,
              "barrier: stream is of " + name + ", and this rank's device is host:0");
}

TEST_F(CudaPlacement, IsRefusedStreamsOfOtherDevices) {
  if (devices() < 2) GTEST_SKIP() << "two GPUs are needed";
  Stream other(gpu(0));
  for (const CallPlacement& placement : {kAny, kOnHost, kOnGpu})
    expectError(outcomeOf([&] { runsOnGpu(placement, gpu(1), other); }), ErrorCode::InvalidArgument,
                "stream is of cuda:0, and this rank's device is cuda:1");
}

std::vector<Communicator> onGpus(int ranks) {
  CommunicatorOptions options;
  for (int r = 0; r < ranks; ++r) options.devices.push_back(someGpu(r));
  return Communicator::createLocal(ranks, options);
}

TEST_F(CudaCommunicator, HasTheDeviceOfItsOptions) {
  std::vector<Communicator> ranks = onGpus(3);
  for (int r = 0; r < 3; ++r) EXPECT_EQ(ranks[r].device(), someGpu(r));
  EXPECT_EQ(Communicator::createLocal(1, {.device = someGpu(2)})[0].device(), someGpu(2));
  EXPECT_EQ(Communicator::createLocal(1)[0].device(), Device{});
  expectError(outcomeOf([] { Communicator::createLocal(1, {.device = gpu(devices())}); }),
              ErrorCode::Unsupported,
              "there is no device " + toString(gpu(devices())) + ": CUDA sees " +
                  std::to_string(devices()));
  expectError(outcomeOf([] { Communicator::createLocal(2, {.devices = {gpu(0)}}); }),
              ErrorCode::InvalidArgument, "1 devices for 2 ranks");
  EXPECT_EQ(currentDevice(), 0);
}

// The host's memory is worked on by the host, on such ranks too; so are splits and barriers.
TEST_F(CudaCommunicator, WorksOnTheHostsMemoryAsBefore) {
  std::vector<Communicator> ranks = onGpus(3);
  runRanks(ranks, [](Communicator& c) {
    int value = c.rank() + 1;
    c.allReduce({.send = &value, .recv = &value, .count = 1, .type = DataType::Int32});
    EXPECT_EQ(value, 6);
    Memory pinned = allocatePinned(sizeof(int));
    *pinned.as<int>() = value;
    Stream host;
    c.allReduce({pinned.data(), pinned.data(), 1, DataType::Int32}, host);
    host.synchronize();
    EXPECT_EQ(*pinned.as<int>(), 18);
    c.barrier();
    EXPECT_EQ(c.split(0, 0)->device(), c.device());
  });
}

// Refused before anything is sent: the communicator stays usable, and nobody waits for the call.
TEST_F(CudaCommunicator, RefusesWhatItCannotRunAndGoesOn) {
  std::vector<Communicator> ranks = onGpus(2);
  Communicator& c = ranks[1];
  Stream stream(someGpu(1));
  Memories m;
  void* const own = m.own.data();
  const AllReduceArgs args{
      .send = own,
      .recv = own,
      .count = 2,
      .type = DataType::Float32,
      .reduction = {"mine", DataType::Float32, [](const void*, void*, size_t) {}}};
  const std::string words =
      "all_reduce on " + toString(c.device()) + ": the reduction mine is a function of the host";
  expectError(outcomeOf([&] { c.allReduce(args); }), ErrorCode::Unsupported, words);
  expectError(outcomeOf([&] { c.allReduce(args, stream); }), ErrorCode::Unsupported, "rank 1");
  PreparedCall prepared = c.prepare(args);
  expectError(outcomeOf([&] { prepared.start(stream); }), ErrorCode::Unsupported, words);
  {
    Group group;
    expectError(outcomeOf([&] { c.allReduce(args, stream); }), ErrorCode::Unsupported, words);
    group.end();
  }
  runRanks(ranks, [](Communicator& rank) { rank.barrier(); });
}

TEST_F(CudaCommunicator, RefusesByTheNameOfTheArgument) {
  if (devices() < 3) GTEST_SKIP() << "three GPUs are needed";
  std::vector<Communicator> ranks = onGpus(2);
  Communicator& c = ranks[1];
  Stream stream(gpu(1)), other(gpu(0));
  Memories m;
  void* const host = m.host.data();
  expectError(outcomeOf([&] {
                c.allReduce({.send = host, .recv = host, .count = 2, .type = DataType::Float32},
                            stream);
              }),
              ErrorCode::InvalidArgument, "all_reduce: stream is of cuda:1, and send is ordinary");
  expectError(
      outcomeOf([&] {
        c.allReduce({.send = host, .recv = m.own.data(), .count = 2, .type = DataType::Float32});
      }),
      ErrorCode::InvalidArgument, "all_reduce: send is ordinary memory of the host, and recv");
  expectError(
      outcomeOf([&] {
        c.receive({.recv = m.other.data(), .count = 2, .type = DataType::Float32, .peer = 0});
      }),
      ErrorCode::InvalidArgument, "exchange: recv is memory of cuda:2");
  expectError(outcomeOf([&] { c.barrier(other); }), ErrorCode::InvalidArgument,
              "barrier: stream is of cuda:0, and this rank's device is cuda:1");
  std::vector<Communicator> hosts = Communicator::createLocal(1);
  expectError(outcomeOf([&] { hosts[0].barrier(stream); }), ErrorCode::InvalidArgument,
              "barrier: stream is of cuda:1, and this rank's device is host:0");
  runRanks(ranks, [](Communicator& rank) { rank.barrier(); });
}

}  // namespace
}  // namespace tutti::tests
