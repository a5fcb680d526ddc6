// How many blocks of threads a communicator's kernels have on emulated GPUs: what its ranks ask
// for, and what a device has left.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <list>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "src/communicator/cuda/block_shares.h"
#include "src/communicator/inspection.h"
#include "src/executor/kernel/kernels.h"
#include "tests/communicator/gpu/ranks.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"
#include "tests/support/sanitized.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

class GpuBlocks : public CudaTest {};

/// What comes next on the second stream waits for what is on the first.
void fork(cudaStream_t from, cudaStream_t to) {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, from), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(to, event, 0), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

using communicator::BlockShare;
using communicator::BlockShares;

/// How many communicators of two ranks each can work beside others on one GPU.
size_t fitting(int blocks) {
  std::vector<Setting> made;
  for (;;) {
    made.emplace_back(2, 1, 16, CommunicatorOptions{.gpuBlocks = blocks});
    const Outcome outcome = outcomeOf([&] {
      Group group;
      for (int r = 0; r < 2; ++r) made.back().ranks[r].allReduce(made.back().args(r, 16));
    });
    if (outcome.text == "no error") continue;
    expectError(outcome, ErrorCode::Unsupported, "no blocks are left on cuda:0");
    return made.size() - 1;
  }
}

/// The process's blocks of a device are taken, but for those that are shared.
class Taken {
 public:
  explicit Taken(int device) : device_(device) { take(); }
  ~Taken() {
    last_ = {};
    while (count_-- > 0) shares_.give(kFirst + count_, device_);
  }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  /// What others have given since.
  void take() {
    const device::OnDevice on(device_);
    for (last_ = {}; !last_.shared; ++count_)
      last_ = shares_.take(kFirst + count_, device_, 1, ~0U);
  }
  /// Grows with each that shares what is kept back.
  long sharers() const { return last_.shared.use_count(); }

 private:
  static constexpr uint64_t kFirst = 1000;  // no communicator's, which are drawn from 2^64
  const int device_;
  BlockShares& shares_ = BlockShares::ofProcess();
  uint64_t count_ = 0;
  BlockShare last_;
};

// Of a device that has few blocks left, because a large one holds hundreds.
TEST_F(GpuBlocks, AreNoMoreThanRanksMayTakeThatShareADevice) {
  const device::OnDevice on(0);
  BlockShares& shares = BlockShares::ofProcess();
  uint32_t left = shares.residency().capacity(0);
  uint64_t taken = 0;
  while (left > 12) left -= 2 * shares.take(++taken, 0, 2, (left - 11) / 2).count;
  EXPECT_EQ(fitting(1), left / 2);
  EXPECT_LT(fitting(2), left / 2);
  EXPECT_LE(fitting(0), fitting(2));
  for (; taken > 0; --taken) shares.give(taken, 0);
  expectError(outcomeOf([] { makeRanks(1, 1, {.gpuBlocks = -1}); }), ErrorCode::InvalidArgument,
              "gpuBlocks is -1");
}

// Of the kernel of which a multiprocessor holds the fewest, as the runtime says.
TEST_F(GpuBlocks, FillADeviceWhenItHoldsNoMore) {
  using transports::p2p::Wire;
  int processors = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
  std::vector<const void*> kernels{executor::kernel::exchangeAddress()};
  for (const Wire wire : {Wire::Simple, Wire::LL, Wire::LL128})
    for (const size_t elementBytes : {1, 2, 4, 8})
      kernels.push_back(executor::kernel::interpreterAddress(wire, elementBytes));
  executor::kernel::Residency residency;
  ASSERT_GT(residency.capacity(0), 0U);  // by which the kernels are loaded
  int fewest = INT_MAX;
  for (const void* kernel : kernels) {
    int each = 0;
    ASSERT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel,
                                                            executor::kernel::kMostThreadsPerBlock,
                                                            executor::kernel::kMostSharedBytes),
              cudaSuccess);
    fewest = std::min(fewest, each);
  }
  const auto all = static_cast<uint32_t>(fewest * processors);
  const auto next = [&] { residency.reserve(0, 1, "the next"); };
  residency.reserve(0, all, "a test");
  expectError(outcomeOf(next), ErrorCode::InvalidUsage,
              "the next needs 1 blocks on device 0 at the same time as " + std::to_string(all) +
                  " of other ranks, and it holds " + std::to_string(all));
  residency.release(0, 1);
  EXPECT_NO_THROW(next());
  EXPECT_EQ(outcomeOf(next).code, ErrorCode::InvalidUsage);
}

// As a training has for its axes. On a large device the last has as many as the first.
TEST_F(GpuBlocks, OfSixCommunicatorsAreAlike) {
  executor::kernel::Residency residency;
  BlockShares shares(residency);
  std::vector<uint32_t> blocks;
  for (uint64_t group = 1; group <= 6; ++group)
    blocks.push_back(shares.take(group, 0, 1, communicator::wantedBlocks(1)).count);
  const bool isLarge = residency.capacity(0) >= 7 * blocks.front();
  EXPECT_EQ(blocks.front() == blocks.back(), isLarge) << blocks.front() << " " << blocks.back();
}

TEST_F(GpuBlocks, OfAnyNumberOfCommunicatorsFit) {
  executor::kernel::Residency residency;
  const uint32_t capacity = residency.capacity(0);
  for (const uint32_t wanted : {1U, 3U, communicator::wantedBlocks(1), capacity}) {
    BlockShares shares(residency);
    const uint64_t groups = capacity + 5;
    uint32_t own = 0;
    const communicator::SharedBlocks* shared = nullptr;
    for (uint64_t group = 1; group <= groups; ++group) {
      const BlockShare part = shares.take(group, 0, 1, wanted);
      ASSERT_GE(part.count, std::min(wanted, std::max(capacity / 32, 1U))) << group;
      EXPECT_EQ(shares.take(group, 0, 1, wanted).shared, part.shared);
      shares.give(group, 0);
      if (!part.shared) {
        own += part.count;
        EXPECT_EQ(shared, nullptr) << group;
        continue;
      }
      EXPECT_TRUE(!shared || shared == part.shared.get());
      shared = part.shared.get();
      EXPECT_LE(part.count, shared->count());
    }
    ASSERT_NE(shared, nullptr);
    EXPECT_LE(own + shared->count(), capacity);
    EXPECT_EQ(shares.take(groups + 1, 0, capacity, 1).count, 0);
    for (uint64_t group = 1; group <= groups; ++group) shares.give(group, 0);
    residency.reserve(0, capacity, "a test");  // nothing is left of them
    residency.release(0, capacity);
  }
}

// More than have blocks of their own, with calls of all under way at the same time.
TEST_F(GpuBlocks, OfManyCommunicatorsWorkTogether) {
  constexpr size_t kCount = 3000;
  const int size = std::min(devices(), 2);  // each rank has a device to itself
  std::vector<Setting> all;
  for (int i = 0; i < 12; ++i) all.emplace_back(size, size, kCount);
  for (int turn = 0; turn < 2; ++turn)
    for (int r = 0; r < size; ++r)
      for (Setting& s : all) s.ranks[r].allReduce(s.args(r, kCount), s.streams[r]);
  for (Setting& s : all)
    for (int r = 0; r < size; ++r) {
      s.streams[r].synchronize();
      ASSERT_FALSE(s.ranks[r].asyncError()) << s.ranks[r].asyncError()->what();
      EXPECT_TRUE(s.values[r].are(size == 2 ? 6 : 1));
    }
}

/// Has a call of its own buffer, which its rank alone would end at once.
struct Caller {
  static constexpr size_t kCount = 1000;
  explicit Caller(int size = 1, const CommunicatorOptions& options = {})
      : s(size, size, kCount, options) {
    for (const Communicator& c : s.ranks) results.emplace_back(c.device(), kCount, 0.0f);
  }
  cudaStream_t stream(int r = 0) const { return StreamRef(s.streams[r]).cuda(); }
  void call(int r = 0) {
    AllReduceArgs args = s.args(r, kCount);
    args.recv = results[r].data();
    s.ranks[r].allReduce(args, s.streams[r]);
  }
  Setting s;
  std::vector<Floats> results;
};

/// Two, of so many ranks on as many devices, that take turns.
class Sharers {
 public:
  explicit Sharers(int size = 1, const CommunicatorOptions& options = {}) {
    for (int device = 0; device < size; ++device) taken_.emplace_back(device);
    // Communicators that had graphs give their blocks when others are made, which have them then.
    do {
      for (auto& each : callers_) each.reset();
      for (Taken& taken : taken_) taken.take();
    } while (!(shares(callers_[0], size, options) && shares(callers_[1], size, options)));
  }
  Caller& first() { return *callers_[0]; }
  Caller& second() { return *callers_[1]; }

 private:
  /// Makes the caller. False where it has blocks of its own on some device.
  bool shares(std::optional<Caller>& caller, int size, const CommunicatorOptions& options) {
    std::vector<long> before;
    for (const Taken& taken : taken_) before.push_back(taken.sharers());
    caller.emplace(size, options);
    return std::ranges::equal(taken_, before, std::ranges::greater{}, &Taken::sharers);
  }

  std::list<Taken> taken_;
  std::optional<Caller> callers_[2];
};

/// Is set when all that is on the stream has ended.
class Ended {
 public:
  void follow(cudaStream_t on) {
    const auto set = [](void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); };
    EXPECT_EQ(cudaLaunchHostFunc(on, set, &ended_), cudaSuccess);
  }
  bool comes(std::chrono::milliseconds within) const {
    for (const auto until = std::chrono::steady_clock::now() + within;
         !ended_ && std::chrono::steady_clock::now() < until;)
      std::this_thread::sleep_for(1ms);
    return ended_;
  }

 private:
  std::atomic<bool> ended_{false};
};

enum class How { Calls, Replays, OneGraph };

/// Of two communicators the first one's call is late: by what they are called, and whether they
/// share blocks.
class GpuTurns : public CudaTest, public testing::WithParamInterface<std::tuple<How, bool>> {};

TEST_P(GpuTurns, AreTakenByThoseThatShareBlocks) {
  const auto [how, isShared] = GetParam();
  std::optional<Sharers> sharers;
  std::optional<Caller> own[2];
  if (isShared)
    sharers.emplace();
  else
    for (auto& each : own) each.emplace();
  Caller& first = isShared ? sharers->first() : *own[0];
  Caller& second = isShared ? sharers->second() : *own[1];
  std::optional<CudaGate> gate;
  Ended ended;
  std::vector<cudaGraphExec_t> graphs;
  if (how == How::OneGraph) {
    graphs.push_back(capture(first.s.ranks[0], first.stream(), [&] {
      fork(first.stream(), second.stream());
      gate.emplace(first.s.streams[0]);
      first.call();
      second.call();
      ended.follow(second.stream());
      fork(second.stream(), first.stream());
    }));
    ASSERT_EQ(cudaGraphLaunch(graphs[0], first.stream()), cudaSuccess);
  } else {
    if (how == How::Replays)
      for (Caller* each : {&first, &second})
        graphs.push_back(capture(each->s.ranks[0], each->stream(), [&] { each->call(); }));
    gate.emplace(first.s.streams[0]);
    for (Caller* each : {&first, &second}) {
      if (how == How::Calls)
        each->call();
      else
        ASSERT_EQ(cudaGraphLaunch(graphs[each == &second], each->stream()), cudaSuccess);
    }
    ended.follow(second.stream());
  }
  EXPECT_EQ(ended.comes(isShared ? 200ms : 20s), !isShared);
  gate->open();
  for (Caller* each : {&first, &second}) {
    each->s.streams[0].synchronize();
    EXPECT_TRUE(each->results[0].are(1));
  }
  for (const cudaGraphExec_t graph : graphs) EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

std::string nameOf(const testing::TestParamInfo<GpuTurns::ParamType>& by) {
  constexpr const char* kNames[] = {"Calls", "Replays", "OneGraph"};
  const auto [how, isShared] = by.param;
  return std::string(kNames[static_cast<int>(how)]) + (isShared ? "OfSharedBlocks" : "OfOwnBlocks");
}

INSTANTIATE_TEST_SUITE_P(By, GpuTurns,
                         testing::Combine(testing::Values(How::Calls, How::Replays, How::OneGraph),
                                          testing::Bool()),
                         nameOf);

class GpuSharers : public CudaTest {
 protected:
  int size() const { return std::min(devices(), 2); }  // each rank has a device to itself
};

// Their kernels have no turn before the first one's call ends, which may be after all deadlines.
TEST_F(GpuSharers, ThatAreAbortedWaitForNoTurn) {
  constexpr size_t kMany = 1 << 18;
  Sharers sharers(size());
  Caller& first = sharers.first();
  Setting& second = sharers.second().s;
  std::list<CudaGate> gates;
  std::vector<Floats> small, large, received;
  for (int r = 0; r < size(); ++r) {
    gates.emplace_back(first.s.streams[r]);
    first.call(r);
    for (auto* results : {&small, &large, &received}) results->emplace_back(gpu(r), kMany, 0.0f);
  }
  const Floats sent[] = {{gpu(0), kMany, 1.0f}, {gpu(size() - 1), kMany, 2.0f}};
  for (int r = 0; r < size(); ++r) {
    Communicator& rank = second.ranks[r];
    AllReduceArgs args{
        .send = sent[r].data(), .recv = small[r].data(), .count = 10, .type = DataType::Float32};
    rank.allReduce(args, second.streams[r]);
    args.recv = large[r].data();
    args.count = kMany;
    rank.allReduce(args, second.streams[r]);
    const int peer = size() - 1 - r;
    Group group;
    rank.send({sent[r].data(), kMany, DataType::Float32, peer}, second.streams[r]);
    rank.receive({received[r].data(), kMany, DataType::Float32, peer}, second.streams[r]);
  }
  second.ranks[0].abort();
  second.ranks.clear();
  Caller third(size());  // what was kept is not freed
  for (int r = 0; r < size(); ++r) third.call(r);
  for (CudaGate& gate : gates) gate.open();
  for (int r = 0; r < size(); ++r) {
    for (Caller* each : {&first, &third}) {
      each->s.streams[r].synchronize();
      EXPECT_TRUE(each->results[r].are(size() > 1 ? 3 : 1));
    }
    second.streams[r].synchronize();
    for (auto* results : {&small, &large, &received}) EXPECT_TRUE((*results)[r].are(0));
  }
}

TEST_F(GpuSharers, ThatAreAbortedInACallGoOn) {
  Sharers sharers;
  Caller &first = sharers.first(), &second = sharers.second();
  CudaGate gate(first.s.streams[0]);
  first.call();
  AllReduceArgs args = second.s.args(0, Caller::kCount);
  args.recv = second.results[0].data();
  Communicator& rank = second.s.ranks[0];
  std::atomic<bool> hasReturned{false};
  std::thread waiting([&] {
    expectError(outcomeOf([&] { rank.allReduce(args); }), ErrorCode::Aborted, "abort() was called");
    hasReturned = true;
  });
  while (communicator::Inspection::gpuHasLeftStreams(rank) && !hasReturned)
    std::this_thread::sleep_for(1ms);
  rank.abort();
  waiting.join();
  std::vector<Communicator> subset;
  subset.push_back(rank.subset(std::vector{0}));
  Setting after(std::move(subset), Caller::kCount);
  after.ranks[0].allReduce(after.args(0, Caller::kCount), after.streams[0]);
  gate.open();
  for (Setting* each : {&first.s, &after}) each->streams[0].synchronize();
  EXPECT_TRUE(first.results[0].are(1));
  EXPECT_TRUE(second.results[0].are(0));
  EXPECT_FALSE(after.ranks[0].asyncError());
}

// Who comes behind it waits for the same turn.
TEST_F(GpuSharers, ThatFailGiveTheirTurn) {
  Sharers sharers(size(), {.timeout = 60s});
  CudaGate gate(sharers.first().s.streams[0]);
  sharers.first().call(0);
  sharers.first().s.ranks[0].abort();
  for (int r = 0; r < size(); ++r) sharers.second().call(r);
  gate.open();
  for (int r = 0; r < size(); ++r) {
    sharers.second().s.streams[r].synchronize();
    EXPECT_FALSE(sharers.second().s.ranks[r].asyncError());
    EXPECT_TRUE(sharers.second().results[r].are(size() > 1 ? 3 : 1));
  }
}

// Their calls are launched, and end, before those that come behind them.
TEST_F(GpuSharers, ThatLeaveGiveTheirTurn) {
  Sharers sharers(size(), {.timeout = 60s});
  for (Caller* each : {&sharers.first(), &sharers.second()})
    for (int r = 0; r < size(); ++r) each->call(r);
  sharers.first().s.ranks.clear();
  for (int r = 0; r < size(); ++r) sharers.second().call(r);
  for (Caller* each : {&sharers.first(), &sharers.second()})
    for (int r = 0; r < size(); ++r) {
      each->s.streams[r].synchronize();
      EXPECT_TRUE(each->results[r].are(size() > 1 ? 3 : 1));
    }
}

// A group has calls of some that take turns, and of one that does not.
TEST_F(GpuSharers, MayBeInOneGroup) {
  constexpr size_t kCount = Caller::kCount;
  Caller own(size(), {.timeout = 60s});
  Sharers sharers(size(), {.timeout = 60s});
  std::vector<Floats> sent, received;
  for (int r = 0; r < size(); ++r) {
    sent.emplace_back(gpu(r), kCount, static_cast<float>(10 + r));
    received.emplace_back(gpu(r), kCount, 0.0f);
  }
  for (int turn = 0; turn < 3; ++turn) {
    Group group;
    for (int r = 0; r < size(); ++r) {
      const int peer = size() - 1 - r;
      Setting& s = sharers.first().s;
      sharers.first().call(r);
      own.call(r);
      sharers.second().call(r);
      s.ranks[r].send({sent[r].data(), kCount, DataType::Float32, peer}, s.streams[r]);
      s.ranks[r].receive({received[r].data(), kCount, DataType::Float32, peer}, s.streams[r]);
    }
  }
  for (int r = 0; r < size(); ++r) {
    for (Caller* each : {&own, &sharers.first(), &sharers.second()}) {
      each->s.streams[r].synchronize();
      EXPECT_TRUE(each->results[r].are(size() > 1 ? 3 : 1)) << r;
    }
    EXPECT_TRUE(received[r].are(static_cast<float>(10 + size() - 1 - r))) << r;
  }
}

// Of a group the first call of each comes before the second of any, on all ranks alike, whichever
// calls a rank could have in one launch: here the second call of the first waits behind a call of
// the second that is late.
TEST_F(GpuSharers, HaveTheirFirstCallsBeforeTheSecondOfAny) {
  Sharers sharers(1, {.timeout = 60s});
  Caller &first = sharers.first(), &second = sharers.second();
  CudaGate gate(second.s.streams[0]);
  {
    Group group;
    first.call();
    second.call();
    first.call();
  }
  Ended ended;
  ended.follow(first.stream());
  EXPECT_FALSE(ended.comes(200ms));
  gate.open();
  for (Caller* each : {&first, &second}) {
    each->s.streams[0].synchronize();
    EXPECT_TRUE(each->results[0].are(1));
  }
  EXPECT_TRUE(ended.comes(20s));
}

// Of sends and receives: to and from more ranks than there are lanes. Those of some are more than
// slots hold, so whoever sends waits for its receiver.
TEST_F(GpuBlocks, HoldFewerLanesThanAGroupHasPeers) {
  constexpr int kSize = kThreadSanitized ? 9 : 12;  // it knows no more than 8128 threads
  constexpr size_t kLarge = 150'000, kSmall = 100;
  const auto countOf = [](int from, int to) {
    return (to - from + kSize) % kSize % 4 == 1 ? kLarge : kSmall;
  };
  Setting s(kSize, devices(), 1, {.timeout = std::chrono::seconds(60), .gpuBlocks = 1});
  std::vector<std::vector<Floats>> sent(kSize), received(kSize);
  for (int r = 0; r < kSize; ++r)
    for (int peer = 0; peer < kSize; ++peer) {
      sent[r].emplace_back(s.ranks[r].device(), countOf(r, peer),
                           static_cast<float>(100 * r + peer));
      received[r].emplace_back(s.ranks[r].device(), countOf(peer, r), -1.0f);
    }
  const auto streamOf = [&](int r) -> Stream& { return s.streams[r % devices()]; };
  {
    Group group;
    for (int r = 0; r < kSize; ++r)
      for (int i = 0; i < kSize; ++i) {
        const int peer = (i * 5 + r) % kSize;  // in some order
        s.ranks[r].send({sent[r][peer].data(), countOf(r, peer), DataType::Float32, peer},
                        streamOf(r));
        s.ranks[r].receive({received[r][peer].data(), countOf(peer, r), DataType::Float32, peer},
                           streamOf(r));
      }
  }
  for (int r = 0; r < kSize; ++r) {
    streamOf(r).synchronize();
    ASSERT_FALSE(s.ranks[r].asyncError()) << s.ranks[r].asyncError()->what();
    for (int peer = 0; peer < kSize; ++peer)
      EXPECT_TRUE(received[r][peer].are(static_cast<float>(100 * peer + r))) << r << " " << peer;
  }
}

/// A rank for each of them, which asks for so many.
std::vector<Communicator> makeRanksWith(const std::vector<int>& blocks, int devices) {
  CommunicatorOptions options{.id = UniqueId::create(UniqueId::Reach::Host),
                              .size = static_cast<int>(blocks.size())};
  devices = std::min(devices, deviceCount(DeviceKind::Cuda));
  std::vector<std::optional<Communicator>> made(blocks.size());
  std::vector<std::thread> threads;
  for (int r = 0; r < options.size; ++r) {
    options.rank = r;
    options.device = gpu(r % devices);
    options.gpuBlocks = blocks[r];
    threads.emplace_back([&made, options] { made[options.rank] = Communicator::create(options); });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Communicator> ranks;
  for (auto& communicator : made) ranks.push_back(std::move(*communicator));
  return ranks;
}

constexpr size_t kCount = 1 << 18;  // in many slices, where there are blocks for them

unsigned blocksOfKernel(Setting& s, int rank) { return kernelOf(s, rank, kCount).gridDim.x; }

// Into how many slices a call is cut follows from the blocks, and is the same on all ranks.
TEST_F(GpuBlocks, OfKernelsAreTheFewestThatARankAsksFor) {
  for (const int devices : {1, 2})
    for (const auto& blocks : {std::vector{2, 5}, std::vector{0, 3}, std::vector{7, 1, 4}}) {
      auto ranks = makeRanksWith(blocks, devices);
      if (!kSanitized) runRanks(ranks, checkInAllPlaces);
      Setting s(std::move(ranks), kCount);
      const auto size = static_cast<int>(blocks.size());
      std::vector<unsigned> launched;
      for (int r = 0; r < size; ++r) launched.push_back(blocksOfKernel(s, r));
      EXPECT_EQ(std::ranges::count(launched, launched[0]), size);
      const int least = blocks[0] == 0 ? blocks[1] : std::ranges::min(blocks);
      EXPECT_LE(launched[0], static_cast<unsigned>(least));
      for (int r = 0; r < size; ++r) s.ranks[r].allReduce(s.args(r, kCount), s.streams[r]);
      for (int r = 0; r < size; ++r) s.streams[r].synchronize();
      const auto sum = static_cast<float>(size * (size + 1) / 2);
      for (int r = 0; r < size; ++r) EXPECT_TRUE(s.values[r].are(sum)) << r;
    }
}

// A call may have fewer than its communicator, and more than there are is as many as there are.
TEST_F(GpuBlocks, OfACallAreAsFewAsItAsksFor) {
  Setting s(2, 2, kCount);
  const unsigned all = blocksOfKernel(s, 0);
  for (const int most : {1, 2, 3, 1000}) {
    const CallOptions options{.gpuBlocks = most};
    for (int r = 0; r < 2; ++r) {
      const unsigned blocks = kernelOf(s, r, kCount, options).gridDim.x;
      EXPECT_LE(blocks, static_cast<unsigned>(most));
      EXPECT_TRUE(static_cast<unsigned>(most) < all || blocks == all) << blocks;
    }
    for (int r = 0; r < 2; ++r) {
      s.values[r].put(static_cast<float>(r + 1));
      AllReduceArgs args = s.args(r, kCount);
      args.options = options;
      s.ranks[r].allReduce(args, s.streams[r]);
    }
    for (int r = 0; r < 2; ++r) s.streams[r].synchronize();
    for (int r = 0; r < 2; ++r) EXPECT_TRUE(s.values[r].are(3)) << most;
  }
  EXPECT_EQ(blocksOfKernel(s, 0), all);
}

// A device of four multiprocessors has room for no more than some ranks ask for above; one that
// works on more slices has.
TEST_F(GpuBlocks, OfKernelsAreManyWhereNobodyAsksForFew) {
  Setting s(2, 2, kCount);
  int processors = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
  for (int r = 0; r < 2; ++r) EXPECT_EQ(blocksOfKernel(s, r) > 3, processors >= 16) << processors;
}

}  // namespace
}  // namespace tutti::tests
