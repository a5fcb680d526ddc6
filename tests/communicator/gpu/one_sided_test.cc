// One-sided calls on GPU memory and on streams of GPUs: between GPUs of one process and of several
// hosts; captured, aborted, and refused.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <vector>

#include "tests/communicator/gpu/hosts.h"
#include "tests/communicator/gpu/puts.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

class GpuOneSided : public CudaTest, public testing::WithParamInterface<bool> {};

INSTANTIATE_TEST_SUITE_P(Devices, GpuOneSided, testing::Values(false, true),
                         [](const auto& each) { return each.param ? "OneGpu" : "GpusOfTheirOwn"; });

TEST_P(GpuOneSided, PutsComeBeforeTheirSignals) {
  const int devices = GetParam() ? 1 : 3;
  Setting s(3, devices, 1);
  runRanks(s.ranks,
           [&](Communicator& c) { passAround(c, s.streams[static_cast<size_t>(c.rank())], true); });
}

// By the calling thread, and between memory of a GPU and of the host.
TEST_P(GpuOneSided, WorkWithoutAStreamAndWithHostMemory) {
  Setting s(2, GetParam() ? 1 : 2, 1);
  runRanks(s.ranks, [&](Communicator& c) {
    Floats values(c.device(), kPutCount, static_cast<float>(1 + c.rank()));
    std::vector<float> host(kPutCount, 5);
    const bool hasHost = c.rank() == 0;
    const Window window =
        c.window({hasHost ? static_cast<void*>(host.data()) : values.data(), 4 * kPutCount});
    if (hasHost) {
      c.put({.send = host.data(), .count = kPutCount, .peer = 1, .window = &window});
      waitFor(c, 1);
      EXPECT_TRUE(std::ranges::all_of(host, [](float x) { return x == 5; }));
    } else {
      waitFor(c, 0);
      EXPECT_TRUE(values.are(5));
      Floats sent(c.device(), kPutCount, 5);
      c.put(all(sent, 0, window));
    }
    c.barrier();
  });
}

TEST_P(GpuOneSided, GraphsReplayThem) {
  Setting s(2, GetParam() ? 1 : 2, kPutCount);
  std::vector<Floats> inboxes;
  std::vector<Window> windows;
  for (Communicator& c : s.ranks) inboxes.emplace_back(c.device(), kPutCount, 0.0f);
  for (size_t r = 0; r < 2; ++r)
    windows.push_back(s.ranks[r].window({inboxes[r].data(), kPutCount}));
  std::vector<cudaGraphExec_t> graphs;
  for (int r = 0; r < 2; ++r)
    graphs.push_back(capture(s.ranks[r], StreamRef(s.streams[r]).cuda(), [&] {
      s.ranks[r].put(all(s.values[r], 1 - r, windows[r]), s.streams[r]);
      waitFor(s.ranks[r], 1 - r, s.streams[r]);
    }));
  for (int replay = 1; replay <= 4; ++replay) {
    for (int r = 0; r < 2; ++r) s.values[r].put(static_cast<float>(10 * replay + r));
    for (int r = 0; r < 2; ++r)
      ASSERT_EQ(cudaGraphLaunch(graphs[r], StreamRef(s.streams[r]).cuda()), cudaSuccess);
    for (Stream& stream : s.streams) stream.synchronize();
    for (int r = 0; r < 2; ++r)
      EXPECT_TRUE(inboxes[r].are(static_cast<float>(10 * replay + 1 - r))) << replay;
  }
  // When the communicator is gone a replay does nothing, and ends.
  windows.clear();
  s.ranks.clear();
  ASSERT_EQ(cudaGraphLaunch(graphs[0], StreamRef(s.streams[0]).cuda()), cudaSuccess);
  s.streams[0].synchronize();
  for (const cudaGraphExec_t graph : graphs) EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

// A call on a stream is its communicator's last owner: its end waits for streams, which the call
// holds back no more.
TEST_P(GpuOneSided, CallsMayOutliveTheCallersCommunicator) {
  Setting s(2, GetParam() ? 1 : 2, 1);
  std::vector<Window> windows;
  for (Communicator& c : s.ranks) windows.push_back(c.window({}));
  waitFor(s.ranks[0], 1, s.streams[0]);
  windows.erase(windows.begin());
  s.ranks.erase(s.ranks.begin());
  s.ranks[0].signal({.peer = 0});
  s.streams[0].synchronize();
  const Outcome outcome = outcomeOf([&] { waitFor(s.ranks[0], 0); });
  EXPECT_EQ(outcome.code, ErrorCode::PeerLost) << outcome.text;
}

// A graph that was never launched does not keep its communicator.
TEST_P(GpuOneSided, GraphsKeepNoCommunicator) {
  Setting s(2, GetParam() ? 1 : 2, 1, {.timeout = 20s});
  std::vector<Window> windows;
  for (Communicator& c : s.ranks) windows.push_back(c.window({}));
  const cudaGraphExec_t graph = capture(s.ranks[0], StreamRef(s.streams[0]).cuda(),
                                        [&] { waitFor(s.ranks[0], 1, s.streams[0]); });
  windows.erase(windows.begin());
  s.ranks.erase(s.ranks.begin());
  const Outcome outcome = outcomeOf([&] { waitFor(s.ranks[0], 0); });
  EXPECT_EQ(outcome.code, ErrorCode::PeerLost) << outcome.text;
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

TEST_P(GpuOneSided, GroupsAreInFlightAtOnce) {
  Setting s(2, GetParam() ? 1 : 2, kPutCount);
  std::vector<Floats> inboxes;
  std::vector<Window> windows;
  for (Communicator& c : s.ranks) inboxes.emplace_back(c.device(), kPutCount, 0.0f);
  for (size_t r = 0; r < 2; ++r)
    windows.push_back(s.ranks[r].window({inboxes[r].data(), kPutCount}));
  Group group;
  for (int r = 0; r < 2; ++r) {
    waitFor(s.ranks[r], 1 - r, s.streams[r]);
    s.ranks[r].put(all(s.values[r], 1 - r, windows[r]), s.streams[r]);
  }
  group.end();
  for (Stream& stream : s.streams) stream.synchronize();
  for (int r = 0; r < 2; ++r) EXPECT_TRUE(inboxes[r].are(static_cast<float>(2 - r)));
}

TEST_P(GpuOneSided, AbortAndDeadlinesEndWaitsOnStreams) {
  for (const bool aborts : {true, false}) {
    Setting s(2, GetParam() ? 1 : 2, 1, {.timeout = aborts ? 60s : 700ms});
    std::vector<Window> windows;
    for (Communicator& c : s.ranks) windows.push_back(c.window({}));
    waitFor(s.ranks[0], 1, s.streams[0]);
    if (aborts) s.ranks[1].abort();
    s.streams[0].synchronize();
    const Outcome outcome = outcomeOf([&] { waitFor(s.ranks[0], 1, s.streams[0]); });
    EXPECT_EQ(outcome.code, aborts ? ErrorCode::Aborted : ErrorCode::Timeout) << outcome.text;
    const char* const words =
        aborts ? "abort() was called by rank 1" : "wait for 1 signal of rank 1 did not complete";
    EXPECT_NE(outcome.text.find(words), std::string::npos) << outcome.text;
  }
}

class GpuOneSidedHere : public CudaTest {};

TEST_F(GpuOneSidedHere, RefuseWhatDoesNotGoTogether) {
  Setting s(2, 2, kPutCount);
  std::vector<Window> windows;
  for (size_t r = 0; r < 2; ++r)
    windows.push_back(s.ranks[r].window({s.values[r].data(), kPutCount}));
  const auto refused = [](const std::string& text, const auto& call) {
    const Outcome outcome = outcomeOf(call);
    EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument) << outcome.text;
    EXPECT_NE(outcome.text.find(text), std::string::npos) << outcome.text;
  };
  Communicator& c = s.ranks[0];
  std::vector<float> host(kPutCount);
  Stream onHost;
  refused("put: stream is the host's", [&] { c.put(all(s.values[0], 1, windows[0]), onHost); });
  refused("which a GPU's stream does not work on", [&] {
    c.put({.send = host.data(), .count = kPutCount, .peer = 1, .window = &windows[0]},
          s.streams[0]);
  });
  refused("go beyond memory of cuda:0", [&] { c.window({s.values[0].data(), size_t{1} << 38}); });
  if (deviceCount(DeviceKind::Cuda) > 1) {
    refused("put: send is memory of cuda:1", [&] { c.put(all(s.values[1], 1, windows[0])); });
    refused("window: buffer is memory of cuda:1", [&] { c.window({s.values[1].data(), 1}); });
    refused("this rank's device is cuda:0", [&] { waitFor(c, 1, s.streams[1]); });
  }
  auto onHosts = Communicator::createLocal(1);
  const Window window = onHosts[0].window({});
  refused("this rank's device is host:0", [&] { waitFor(onHosts[0], 0, s.streams[0]); });
}

// Ranks of several hosts: through pinned memory and the network.
TEST_F(GpuOneSidedHere, GoBetweenHosts) {
  for (const char* const transport : {"shm+tcp", "shm+ucx"}) {
    auto ranks = makeRanksOn({0, 1}, {.transport = transport});
    runRanks(ranks, [&](Communicator& c) {
      Stream stream(c.device());
      passAround(c, stream, false);
    });
  }
}

}  // namespace
}  // namespace tutti::tests
