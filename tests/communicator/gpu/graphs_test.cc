// Calls that were captured, and what becomes of their graphs when ranks leave: whatever is replayed
// ends. By kernels and by copies.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <thread>

#include "tests/communicator/gpu/ranks.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

constexpr size_t kCount = 5000;

class GpuGraphs : public CudaTest, public testing::WithParamInterface<bool> {
 protected:
  /// Two ranks on devices of their own.
  static Setting setting(std::chrono::milliseconds timeout = 60s) {
    return {2, 2, kCount, {.timeout = timeout, .gpuCopies = GetParam()}};
  }
  static cudaStream_t streamOf(const Setting& s, int rank) {
    return StreamRef(s.streams[rank]).cuda();
  }
};

/// An AllReduce of each rank, captured; replayed by whoever asks.
class Replays {
 public:
  explicit Replays(Setting& s) : s_(s) {
    for (int r = 0; r < 2; ++r)
      graphs_.push_back(capture(s.ranks[r], StreamRef(s.streams[r]).cuda(),
                                [&] { s.ranks[r].allReduce(s.args(r, kCount), s.streams[r]); }));
  }
  ~Replays() {
    for (cudaGraphExec_t graph : graphs_) EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
  }
  Replays(const Replays&) = delete;
  Replays& operator=(const Replays&) = delete;
  void launch(int rank) const {
    EXPECT_EQ(cudaGraphLaunch(graphs_[rank], StreamRef(s_.streams[rank]).cuda()), cudaSuccess);
  }

 private:
  const Setting& s_;
  std::vector<cudaGraphExec_t> graphs_;
};

Error awaitError(const Communicator& c) {
  for (const auto until = std::chrono::steady_clock::now() + 60s;
       !c.asyncError() && std::chrono::steady_clock::now() < until;)
    std::this_thread::sleep_for(1ms);
  return c.asyncError().value_or(Error(ErrorCode::Internal, "nothing has failed"));
}

TEST_P(GpuGraphs, ThatNeedARankThatHasLeftEnd) {
  Setting s = setting();
  const Replays replays(s);
  for (int replay = 0; replay < 3; ++replay)
    for (int r = 0; r < 2; ++r) replays.launch(r);
  for (int r = 0; r < 2; ++r) s.streams[r].synchronize();
  EXPECT_TRUE(s.values[0].are(12));  // 3, and doubled twice
  s.ranks.pop_back();
  replays.launch(0);
  const Error error = awaitError(s.ranks[0]);
  EXPECT_EQ(error.code(), ErrorCode::PeerLost) << error.what();
  EXPECT_NE(std::string(error.what()).find("left; rank 0"), std::string::npos) << error.what();
  s.streams[0].synchronize();
}

// Each replay reads it behind what is on its stream.
TEST_P(GpuGraphs, ReadTheScalarEachTime) {
  Setting s = setting();
  std::vector<Floats> scalars;
  std::vector<cudaGraphExec_t> graphs;
  for (int r = 0; r < 2; ++r) scalars.emplace_back(s.ranks[r].device(), 1, -1.0f);
  for (int r = 0; r < 2; ++r)
    graphs.push_back(capture(s.ranks[r], streamOf(s, r), [&] {
      AllReduceArgs args = s.args(r, kCount);
      args.op = ReduceOp::PreMulSum;
      args.scalarAt = scalars[r].data();
      s.ranks[r].allReduce(args, s.streams[r]);
    }));
  float expected = 0;
  for (const auto& [first, second] : {std::pair(2.0f, 3.0f), std::pair(1.0f, 0.5f)}) {
    const float now[] = {first, second};
    for (int r = 0; r < 2; ++r) {
      ASSERT_EQ(
          cudaMemcpyAsync(scalars[r].data(), &now[r], 4, cudaMemcpyHostToDevice, streamOf(s, r)),
          cudaSuccess);
      ASSERT_EQ(cudaGraphLaunch(graphs[r], streamOf(s, r)), cudaSuccess);
    }
    expected = expected == 0 ? first + 2 * second : expected * (first + second);
    for (int r = 0; r < 2; ++r) {
      s.streams[r].synchronize();
      EXPECT_TRUE(s.values[r].are(expected)) << r << " " << expected;
    }
  }
  for (cudaGraphExec_t graph : graphs) EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

// Nobody is missed who has left behind the last of them.
TEST_P(GpuGraphs, ThatHaveEndedNeedNobody) {
  Setting s = setting();
  const Replays replays(s);
  for (int replay = 0; replay < 3; ++replay)
    for (int r = 0; r < 2; ++r) replays.launch(r);
  s.streams[1].synchronize();
  s.ranks.pop_back();
  s.streams[0].synchronize();
  std::this_thread::sleep_for(1500ms);
  EXPECT_FALSE(s.ranks[0].asyncError());
}

TEST_P(GpuGraphs, OfARankThatLeavesAreAwaited) {
  Setting s = setting();
  const Replays replays(s);
  replays.launch(1);
  std::this_thread::sleep_for(100ms);  // it has begun
  std::thread leaving([&] { s.ranks.pop_back(); });
  std::this_thread::sleep_for(200ms);
  replays.launch(0);
  s.streams[0].synchronize();
  EXPECT_TRUE(s.values[0].are(3));
  leaving.join();
  s.streams[1].synchronize();
}

// Neither the one under way nor what comes after the communicator's end.
TEST_P(GpuGraphs, ThatNobodyElseReplaysEnd) {
  Setting s = setting(300ms);
  const Replays replays(s);
  replays.launch(1);
  s.ranks.pop_back();
  s.streams[1].synchronize();
  replays.launch(1);
  s.streams[1].synchronize();
}

TEST_P(GpuGraphs, KeepTheirMemory) {
  const auto inUse = [] {
    size_t free = 0, total = 0;
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    return total - free;
  };
  size_t before = 0;
  const auto stay = [&] {
    const Setting s = setting();
    before = inUse();
  };
  stay();
  const size_t without = inUse();
  {
    Setting s = setting();
    const Replays replays(s);
    for (int r = 0; r < 2; ++r) replays.launch(r);
    for (int r = 0; r < 2; ++r) s.streams[r].synchronize();
    s.ranks.clear();
    EXPECT_GT(inUse(), without + (before - without) / 2);
  }
  // CUDA tells in its own time that the graphs are gone, and a driver may keep some memory for
  // others.
  const size_t kept = device::cudaSupport().emulated ? 0 : (before - without) / 2;
  for (int turn = 0; turn < 200 && inUse() > without + kept; ++turn) {
    std::this_thread::sleep_for(10ms);
    stay();
  }
  EXPECT_LE(inUse(), without + kept);
}

// Of a communicator whose calls take several lanes.
TEST_P(GpuGraphs, MayBeCapturedSideBySide) {
  Setting s(3, 3, kCount, {.gpuCopies = GetParam()});
  std::vector<Floats> received;
  std::vector<cudaGraphExec_t> graphs;
  for (int r = 0; r < 3; ++r) received.emplace_back(s.ranks[r].device(), 2 * kCount, 0.0f);
  for (int r = 0; r < 3; ++r) {
    const auto exchange = [&](StreamRef stream, size_t place) {
      Group group;
      for (const int peer : {(r + 1) % 3, (r + 2) % 3}) {
        s.ranks[r].send({s.values[r].data(), kCount / 2, DataType::Float32, peer}, stream);
        s.ranks[r].receive({received[r].data() + place, kCount / 2, DataType::Float32, peer},
                           stream);
        place += kCount / 2;
      }
    };
    const Stream other(s.ranks[r].device());
    cudaGraphExec_t inner = nullptr;
    graphs.push_back(capture(s.ranks[r], streamOf(s, r), [&] {
      exchange(s.streams[r], 0);
      inner = capture(s.ranks[r], StreamRef(other).cuda(), [&] { exchange(other, kCount); });
      exchange(s.streams[r], 0);
    }));
    graphs.push_back(inner);
  }
  for (int r = 0; r < 3; ++r)
    for (const int graph : {2 * r, 2 * r + 1})
      ASSERT_EQ(cudaGraphLaunch(graphs[graph], streamOf(s, r)), cudaSuccess);
  for (int r = 0; r < 3; ++r) {
    s.streams[r].synchronize();
    std::vector<float> all(2 * kCount);
    device::copyMemory(all.data(), received[r].data(), 4 * all.size());
    for (size_t i = 0; i < all.size(); ++i)
      ASSERT_EQ(all[i], static_cast<float>((r + 1 + 2 * i / kCount % 2) % 3 + 1)) << r << " " << i;
  }
  for (const cudaGraphExec_t graph : graphs) EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

// A rank has one call at a time in each of several captures that are under way: of the outer one's
// branches, between which another capture begins and ends, too.
TEST_P(GpuGraphs, HaveCallsInOrderOnBranchesOfEach) {
  Setting s = setting(10s);
  std::vector<Stream> branches;
  std::vector<Floats> others;
  std::vector<cudaGraphExec_t> graphs, inner;
  cudaEvent_t event = nullptr;
  for (int r = 0; r < 2; ++r) {
    branches.emplace_back(s.ranks[r].device());
    others.emplace_back(s.ranks[r].device(), kCount, 0.0f);
  }
  for (int r = 0; r < 2; ++r) {
    const Stream apart(s.ranks[r].device());
    const cudaStream_t stream = streamOf(s, r), branch = StreamRef(branches[r]).cuda();
    ASSERT_EQ(cudaSetDevice(s.ranks[r].device().index), cudaSuccess);
    ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    AllReduceArgs args = s.args(r, kCount);
    args.send = args.recv = others[r].data();
    graphs.push_back(capture(s.ranks[r], stream, [&] {
      EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
      EXPECT_EQ(cudaStreamWaitEvent(branch, event, 0), cudaSuccess);
      s.ranks[r].allReduce(s.args(r, kCount), s.streams[r]);
      inner.push_back(capture(s.ranks[r], StreamRef(apart).cuda(),
                              [&] { s.ranks[r].allReduce(s.args(r, kCount), apart); }));
      s.ranks[r].allReduce(args, branches[r]);
      EXPECT_EQ(cudaEventRecord(event, branch), cudaSuccess);
      EXPECT_EQ(cudaStreamWaitEvent(stream, event, 0), cudaSuccess);
    }));
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  }
  for (int replay = 1; replay <= 3; ++replay) {
    for (int r = 0; r < 2; ++r) {
      s.values[r].put(static_cast<float>(r + 1));
      others[r].put(static_cast<float>(10 * r + replay));
    }
    for (int r = 0; r < 2; ++r) ASSERT_EQ(cudaGraphLaunch(graphs[r], streamOf(s, r)), cudaSuccess);
    for (int r = 0; r < 2; ++r) s.streams[r].synchronize();
    for (int r = 0; r < 2; ++r) {
      EXPECT_TRUE(s.values[r].are(3)) << r;
      EXPECT_TRUE(others[r].are(static_cast<float>(10 + 2 * replay))) << r;
      ASSERT_FALSE(s.ranks[r].asyncError()) << s.ranks[r].asyncError()->what();
    }
  }
  for (const auto& all : {graphs, inner})
    for (const cudaGraphExec_t graph : all) EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

// Replays and calls of one rank come in the order in which they are launched, on whatever streams
// they are: else what is on a stream that is late would meet another call of the peer.
TEST_P(GpuGraphs, AndCallsBesideThemComeInTheirOrder) {
  constexpr size_t kHead = 1000;
  constexpr int kPlaces = 5;  // of each rank, with a stream and a buffer
  Setting s = setting(20s);
  std::vector<std::vector<Stream>> streams(2);
  std::vector<std::vector<Floats>> values(2);
  std::vector<cudaGraphExec_t> graphs;
  std::deque<CudaGate> gates;
  for (int r = 0; r < 2; ++r) {
    for (int i = 0; i < kPlaces; ++i) {
      streams[r].emplace_back(s.ranks[r].device());
      values[r].emplace_back(s.ranks[r].device(), kCount, static_cast<float>(r + i));
    }
    const auto call = [&](int i, size_t count) {
      AllReduceArgs args = s.args(r, count);
      args.send = args.recv = values[r][i].data();
      s.ranks[r].allReduce(args, streams[r][i]);
    };
    for (const int i : {1, 2})
      graphs.push_back(capture(s.ranks[r], StreamRef(streams[r][i]).cuda(), [&] {
        call(i, kCount);
        call(i, kHead);
      }));
    const auto replay = [&](int i, int on) {
      EXPECT_EQ(cudaGraphLaunch(graphs[2 * r + i - 1], StreamRef(streams[r][on]).cuda()),
                cudaSuccess);
    };
    for (int i = 0; r == 0 && i + 1 < kPlaces; ++i) gates.emplace_back(streams[r][i]);
    call(0, kHead);
    replay(1, 1);
    replay(2, 2);
    call(3, kCount);
    replay(1, 4);
    call(4, kHead);
  }
  for (auto gate = gates.rbegin(); gate != gates.rend(); ++gate) {
    std::this_thread::sleep_for(30ms);
    gate->open();
  }
  for (int r = 0; r < 2; ++r)
    for (Stream& stream : streams[r]) stream.synchronize();
  for (int r = 0; r < 2; ++r) {
    ASSERT_FALSE(s.ranks[r].asyncError()) << s.ranks[r].asyncError()->what();
    const auto are = [&](int i, float head, float tail) {
      std::vector<float> expected(kCount, tail), found(kCount);
      std::fill_n(expected.begin(), kHead, head);
      device::copyMemory(found.data(), values[r][i].data(), 4 * kCount);
      EXPECT_EQ(found, expected) << "rank " << r << ", buffer " << i;
    };
    are(0, 1, static_cast<float>(r));
    are(1, 3 * 8, 3 * 2);  // replayed twice, of two calls and of one
    are(2, 5 * 2, 5);
    are(3, 7, 7);
    are(4, 9, static_cast<float>(r + 4));
  }
  for (const cudaGraphExec_t graph : graphs) EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

// A captured call is recorded once, and ends as often as it is replayed: what fails behind it is
// not named by a number of either.
TEST_P(GpuGraphs, AreNotNamedWhereAnotherCallFails) {
  constexpr size_t kLarge = 200'000;  // in several slices, where the GPU is large enough
  for (const int count : {0, 3}) {
    Setting s = setting(2s);
    const Floats large(s.ranks[0].device(), kLarge, 1.0f);
    std::vector<cudaGraphExec_t> graphs;
    for (int r = 0; r < 2; ++r)
      graphs.push_back(capture(s.ranks[r], streamOf(s, r), [&] {
        s.ranks[r].broadcast({s.values[r].data(), s.values[r].data(), kCount}, s.streams[r]);
      }));
    for (int replay = 0; replay < count; ++replay)
      for (int r = 0; r < 2; ++r)
        EXPECT_EQ(cudaGraphLaunch(graphs[r], streamOf(s, r)), cudaSuccess);
    for (int r = 0; r < 2; ++r) s.streams[r].synchronize();
    s.ranks[0].allReduce({.send = large.data(), .recv = large.data(), .count = kLarge},
                         s.streams[0]);
    const Error error = awaitError(s.ranks[0]);
    EXPECT_EQ(error.code(), ErrorCode::Timeout);
    const std::string text = error.what(),
                      named = GetParam() ? "a call, or a replay of one" : "all_reduce";
    EXPECT_NE(text.find(named), std::string::npos) << text;
    EXPECT_EQ(text.find("broadcast"), std::string::npos) << text;
    s.streams[0].synchronize();
    for (const cudaGraphExec_t graph : graphs) EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
  }
}

// Whoever captures in global mode asks of all threads to do nothing then that a capture forbids;
// what communicators need for themselves is no part of it.
TEST_P(GpuGraphs, MayBeCapturedWhileCommunicatorsAreMadeAndLeave) {
  Setting s = setting();
  const cudaStream_t stream = streamOf(s, 0);
  const auto makeAndLeave = [] {
    Setting other = setting();
    for (const size_t count : {size_t{10}, kCount})
      for (int r = 0; r < 2; ++r) other.ranks[r].allReduce(other.args(r, count), other.streams[r]);
    for (Stream& each : other.streams) each.synchronize();
  };
  ASSERT_EQ(cudaSetDevice(s.ranks[0].device().index), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  std::thread(makeAndLeave).join();
  makeAndLeave();
  s.ranks[0].allReduce(s.args(0, kCount), s.streams[0]);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_P(GpuGraphs, AreOfBorrowedStreamsOfAnyDevice) {
  Setting s = setting();
  std::vector<cudaGraphExec_t> graphs;
  for (int r = 0; r < 2; ++r)
    graphs.push_back(capture(s.ranks[r], streamOf(s, r), [&] {
      EXPECT_EQ(cudaSetDevice(s.ranks[1 - r].device().index), cudaSuccess);
      const StreamRef borrowed = StreamRef::cuda(streamOf(s, r));
      EXPECT_EQ(borrowed.device(), s.ranks[r].device());
      EXPECT_EQ(currentDevice(), s.ranks[1 - r].device().index);
      s.ranks[r].allReduce(s.args(r, kCount), borrowed);
    }));
  for (int r = 0; r < 2; ++r) EXPECT_EQ(cudaGraphLaunch(graphs[r], streamOf(s, r)), cudaSuccess);
  for (int r = 0; r < 2; ++r) s.streams[r].synchronize();
  for (int r = 0; r < 2; ++r) EXPECT_TRUE(s.values[r].are(3));
  for (cudaGraphExec_t graph : graphs) EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

INSTANTIATE_TEST_SUITE_P(By, GpuGraphs, testing::Bool(),
                         [](const auto& by) { return by.param ? "Copies" : "Kernels"; });

}  // namespace
}  // namespace tutti::tests
