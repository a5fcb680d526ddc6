// Communicators of processes that share GPUs: no kernel may wait there for another process's, so
// copies and streams do the work. The test's process itself never calls CUDA.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

#include "src/base/env.h"
#include "tests/communicator/gpu/ranks.h"
#include "tests/support/collective_checks.h"
#include "tests/support/rank_processes.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Context = RankProcesses::Context;

constexpr size_t kCount = 5000;

/// Rank r on device r modulo `devices`, or modulo as many as there are.
Communicator join(const Context& context, int devices, CommunicatorOptions options = {}) {
  devices = std::min(devices, deviceCount(DeviceKind::Cuda));
  options.device = gpu(context.rank % devices);
  return context.join(options);
}

/// One rank's values and stream.
struct Part {
  explicit Part(const Communicator& c, size_t count = kCount)
      : stream(c.device()), values(c.device(), count, static_cast<float>(c.rank() + 1)) {}
  AllReduceArgs args(size_t count = kCount) const {
    return {
        .send = values.data(), .recv = values.data(), .count = count, .type = DataType::Float32};
  }
  Stream stream;
  Floats values;
};

/// Whether the rest is done.
#define EXPECT_IN_CHILD(condition)      \
  if (!(condition)) {                   \
    context.say("not so: " #condition); \
    return 1;                           \
  }

/// By copies or by kernels, as describe() says.
int checkWay(const Context& context, const Communicator& c, bool byCopies) {
  EXPECT_IN_CHILD((c.describe().find(" by p2p, with copies\n") != std::string::npos) == byCopies);
  EXPECT_IN_CHILD((c.describe().find(" by p2p\n") != std::string::npos) != byCopies);
  return 0;
}

int checkCollectives(const Context& context, int devices) {
  Communicator c = join(context, devices);
  if (checkWay(context, c, std::min(devices, deviceCount(DeviceKind::Cuda)) < c.size())) return 1;
  checkInAllPlaces(c);
  return testing::Test::HasFailure();
}

TEST(GpuProcesses, ThatShareOneGpuGiveWhatIsKnown) {
  RankProcesses ranks(2, [](const Context& context) { return checkCollectives(context, 1); });
  EXPECT_TRUE(ranks.allSucceed(90s));
}

// Those of ranks 0 and 2 share one, and those of 1 and 3.
TEST(GpuProcesses, ThatShareTwoGpusGiveWhatIsKnown) {
  RankProcesses ranks(4, [](const Context& context) { return checkCollectives(context, 2); });
  EXPECT_TRUE(ranks.allSucceed(120s));
}

TEST(GpuProcesses, OnGpusOfTheirOwnHaveKernels) {
  RankProcesses ranks(2, [](const Context& context) { return checkCollectives(context, 2); });
  EXPECT_TRUE(ranks.allSucceed(90s));
}

/// In a process of its own.
int countDevices() {
  RankProcesses counting(1, [](const Context&) { return deviceCount(DeviceKind::Cuda); });
  return counting.wait(0, 30s);
}

/// What two processes have: a list of the machine's GPUs each, and the number of its own there.
struct Lists {
  const char* visible[2];
  int own[2];
};

int joinByLists(const Context& context, const Lists& lists, bool byCopies) {
  Communicator c = context.join({.device = gpu(lists.own[context.rank])});
  if (checkWay(context, c, byCopies)) return 1;
  Part part(c);
  c.allReduce(part.args());
  EXPECT_IN_CHILD(part.values.are(3.0f));
  c.barrier();
  return 0;
}

// As launchers give each process its own: one GPU has several numbers, and several have one.
TEST(GpuProcesses, KnowWhetherTheyShareAGpuWhateverItsNumbersAre) {
  if (countDevices() < 2) GTEST_SKIP() << "needs two devices";
  const auto expect = [](const Lists& lists, bool byCopies) {
    RankProcesses ranks(
        2, [&](const Context& context) { return joinByLists(context, lists, byCopies); },
        [&](int rank) {
          for (const char* name : {"CUDA_VISIBLE_DEVICES", "TUTTI_EMULATION_VISIBLE_DEVICES"})
            setenv(name, lists.visible[rank], 1);
        });
    EXPECT_TRUE(ranks.allSucceed(60s)) << lists.visible[0] << " and " << lists.visible[1];
  };
  expect({.visible = {"0,1", "1,0"}, .own = {0, 1}}, true);
  expect({.visible = {"1", "0,1"}, .own = {0, 1}}, true);
  expect({.visible = {"0", "1"}, .own = {0, 0}}, false);
  expect({.visible = {"0,1", "1,0"}, .own = {1, 1}}, false);
  expect({.visible = {"0,1", "0"}, .own = {1, 0}}, false);
}

// The driver has descriptors for it; TUTTI_GPU_IPC=1 takes the older handles.
TEST(GpuProcesses, GetAtEachOthersMemoryByOneKindOfHandle) {
  RankProcesses ranks(2, [](const Context& context) {
    setLogSink([&](LogLevel, std::string_view line) {
      if (line.find("get at its memory") != line.npos) context.say(std::string(line));
    });
    join(context, 1).barrier();
    setLogSink([](LogLevel, std::string_view) {});
    return 0;
  });
  ASSERT_TRUE(ranks.allSucceed(90s));
  const std::string how = base::env().gpuIpc ? "by CUDA's IPC handles" : "by descriptors";
  for (const int rank : {0, 1})
    EXPECT_NE(ranks.output(rank).find(how), std::string::npos) << ranks.output(rank);
}

// Two of three share one; that concerns all.
int checkBlocksAndTransfers(const Context& context) {
  Communicator c = join(context, 2);
  Part part(c);
  const int r = c.rank();
  const std::vector<size_t> counts = {5, 0, 1000};
  const Floats out(c.device(), 1005, 0);
  c.allGatherV({.send = part.values.data(),
                .recv = out.data(),
                .counts = counts,
                .type = DataType::Float32});
  std::vector<float> all(1005);
  device::copyMemory(all.data(), out.data(), 4 * all.size());
  for (size_t i = 0; i < all.size(); ++i) EXPECT_IN_CHILD(all[i] == (i < 5 ? 1.0f : 3.0f));
  const Floats received(c.device(), kCount, 0);
  for (const size_t count : {size_t{1}, kCount}) {
    Group group;
    c.send({part.values.data(), count, DataType::Float32, (r + 1) % 3}, part.stream);
    c.receive({received.data(), count, DataType::Float32, (r + 2) % 3}, part.stream);
  }
  part.stream.synchronize();
  EXPECT_IN_CHILD(received.are(static_cast<float>((r + 2) % 3 + 1)));
  return 0;
}

TEST(GpuProcesses, HaveBlocksThatDifferAndTransfers) {
  RankProcesses ranks(3, checkBlocksAndTransfers);
  EXPECT_TRUE(ranks.allSucceed(90s));
}

int replay(const Context& context) {
  Communicator c = join(context, 1);
  Part part(c);
  const cudaStream_t stream = StreamRef(part.stream).cuda();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  EXPECT_IN_CHILD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  c.allReduce(part.args(), part.stream);
  c.allReduce(part.args(), part.stream);
  EXPECT_IN_CHILD(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  EXPECT_IN_CHILD(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  for (int turn = 1; turn <= 5; ++turn) {
    part.values.put(static_cast<float>(turn));
    EXPECT_IN_CHILD(cudaGraphLaunch(exec, stream) == cudaSuccess);
    part.stream.synchronize();
    EXPECT_IN_CHILD(part.values.are(4.0f * static_cast<float>(turn)));
  }
  EXPECT_IN_CHILD(cudaGraphExecDestroy(exec) == cudaSuccess);
  EXPECT_IN_CHILD(cudaGraphDestroy(graph) == cudaSuccess);
  c.barrier();
  return 0;
}

TEST(GpuProcesses, CaptureAndReplay) {
  RankProcesses ranks(2, replay);
  EXPECT_TRUE(ranks.allSucceed(90s));
}

/// Two ranks of each process, on streams of their own or on one.
int callTogether(const Context& context) {
  std::vector<std::optional<Communicator>> made(2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      made[t] = Communicator::create(
          {.id = context.id, .rank = 2 * context.rank + t, .size = 4, .device = gpu(0)});
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<Communicator> both;
  for (auto& communicator : made) both.push_back(std::move(*communicator));
  Setting s(std::move(both), kCount);
  for (const int last : {1, 0}) {
    for (int t = 0; t < 2; ++t) s.values[t].put(static_cast<float>(s.ranks[t].rank() + 1));
    {
      Group group;
      for (int t = 0; t < 2; ++t)
        s.ranks[t].allReduce(s.args(t, kCount), s.streams[std::min(t, last)]);
    }
    for (Stream& stream : s.streams) stream.synchronize();
    for (const Floats& values : s.values) EXPECT_IN_CHILD(values.are(10.0f));
  }
  // At the same time: each waits for those of the other process.
  std::thread leaving([&] { const Communicator gone = std::move(s.ranks[0]); });
  { const Communicator gone = std::move(s.ranks[1]); }
  leaving.join();
  return 0;
}

TEST(GpuProcesses, WithTwoRanksEachShareStreams) {
  RankProcesses ranks(2, callTogether);
  EXPECT_TRUE(ranks.allSucceed(90s));
}

// What rank 0 has sent is there, and rank 1 takes it later: after the time in which a failed rank
// would have told why.
TEST(GpuProcesses, LeaveWithoutHarm) {
  RankProcesses ranks(2, [](const Context& context) {
    Communicator c = join(context, 1);
    Part part(c);
    c.barrier();
    if (c.rank() == 1)
      EXPECT_IN_CHILD(cudaLaunchHostFunc(
                          StreamRef(part.stream).cuda(),
                          [](void*) { std::this_thread::sleep_for(2s); }, nullptr) == cudaSuccess);
    c.broadcast({.send = part.values.data(), .recv = part.values.data(), .count = kCount},
                part.stream);
    part.stream.synchronize();
    EXPECT_IN_CHILD(part.values.are(1.0f));
    EXPECT_IN_CHILD(!c.asyncError());
    return 0;
  });
  EXPECT_TRUE(ranks.allSucceed(60s));
}

/// What the call fails with is of this code and has these words.
int expectFailure(const Context& context, const Outcome& outcome, ErrorCode code,
                  std::initializer_list<const char*> words) {
  context.say(outcome.text);
  EXPECT_IN_CHILD(outcome.code == code);
  for (const char* word : words) EXPECT_IN_CHILD(outcome.text.find(word) != std::string::npos);
  return 0;
}

TEST(GpuProcesses, ThatDisagreeHaveAMismatchWithBothSides) {
  RankProcesses ranks(2, [](const Context& context) {
    Communicator c = join(context, 1);
    Part part(c);
    c.allReduce(part.args());
    const size_t count = c.rank() == 0 ? kCount : kCount - 1;
    const Outcome outcome = outcomeOf([&] { c.allReduce(part.args(count)); });
    return expectFailure(context, outcome, ErrorCode::Mismatch,
                         {"all_reduce of 5000 float32", "all_reduce of 4999 float32"});
  });
  EXPECT_TRUE(ranks.allSucceed(60s));
}

TEST(GpuProcesses, DoNotWaitForEver) {
  RankProcesses ranks(2, [](const Context& context) {
    Communicator c = join(context, 1, {.timeout = 500ms});
    Part part(c);
    c.barrier();
    if (c.rank() == 1) {
      const Outcome outcome = outcomeOf([&] { c.allReduce(part.args()); });
      EXPECT_IN_CHILD(outcome.text.find("received") == std::string::npos);  // nobody counts it
      return expectFailure(context, outcome, ErrorCode::Timeout,
                           {"did not complete within 500 ms", "it waits for rank 0"});
    }
    while (!c.asyncError()) std::this_thread::sleep_for(1ms);
    return expectFailure(context, {c.asyncError()->code(), c.asyncError()->what()},
                         ErrorCode::Timeout, {"reported by rank 1"});
  });
  EXPECT_TRUE(ranks.allSucceed(60s));
}

TEST(GpuProcesses, HearOfOneThatIsKilled) {
  RankProcesses ranks(2, [](const Context& context) {
    Communicator c = join(context, 1);
    Part part(c);
    c.barrier();
    context.say("ready");
    if (c.rank() == 1)
      while (true) pause();
    const Outcome outcome = outcomeOf([&] { c.allReduce(part.args()); });
    return expectFailure(context, outcome, ErrorCode::PeerLost, {"rank 1"});
  });
  EXPECT_TRUE(ranks.awaitLine(0, "ready", 30s));
  EXPECT_TRUE(ranks.awaitLine(1, "ready", 30s));
  ranks.signal(1, SIGKILL);
  EXPECT_EQ(ranks.wait(0, 30s), 0) << ranks.output(0);
}

/// Rank 1 is killed while the others' calls wait for it on their streams. They go on without it.
int goOnWithoutRank1(const Context& context, int devices) {
  Communicator c = join(context, devices);
  Part part(c);
  checkInAllPlaces(c);
  context.say("ready");
  if (c.rank() == 1)
    while (true) pause();
  const Outcome outcome = outcomeOf([&] {
    c.allReduce(part.args(), part.stream);
    c.allReduce(part.args(), part.stream);
  });
  context.say("waits");
  part.stream.synchronize();
  while (!c.asyncError()) std::this_thread::sleep_for(1ms);
  context.say(outcome.text + "; " + c.asyncError()->what());
  EXPECT_IN_CHILD(c.asyncError()->code() == ErrorCode::PeerLost);
  Communicator rest = c.shrink();
  EXPECT_IN_CHILD(rest.size() == 2 && rest.rank() == c.rank() / 2 && rest.device() == c.device());
  checkInAllPlaces(rest);
  part.values.put(static_cast<float>(c.rank() + 1));
  rest.allReduce(part.args(), part.stream);
  part.stream.synchronize();
  EXPECT_IN_CHILD(part.values.are(4));
  rest.barrier();
  return testing::Test::HasFailure();
}

// By copies, by copies on two GPUs of which one is shared, and by kernels.
TEST(GpuProcesses, ShrinkWhenOneIsKilled) {
  for (const int devices : {1, 2, 3}) {
    RankProcesses ranks(3,
                        [&](const Context& context) { return goOnWithoutRank1(context, devices); });
    EXPECT_TRUE(ranks.awaitLine(1, "ready", 60s));
    for (const int rank : {0, 2}) EXPECT_TRUE(ranks.awaitLine(rank, "waits", 60s));
    ranks.signal(1, SIGKILL);
    for (const int rank : {0, 2}) EXPECT_EQ(ranks.wait(rank, 90s), 0) << ranks.output(rank);
  }
}

}  // namespace
}  // namespace tutti::tests
