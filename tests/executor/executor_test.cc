// The questions of Executor mean the same in each: ranks of two go through the same story by the
// host executor, the kernel executor and the copy executor.

#include "src/executor/executor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "collectives/algorithms.h"
#include "src/executor/host/host_executor.h"
#include "tests/executor/copy/copy_ranks.h"
#include "tests/executor/kernel/calls.h"
#include "tests/executor/kernel/device_ranks.h"
#include "tests/support/sim/endpoint.h"

namespace tutti::tests {
namespace {

using executor::Executor;
using executor::HostExecutor;

constexpr uint64_t kCount = 3000;

/// Two ranks, whose operations are a sum and one message from rank 0 to rank 1.
class TwoRanks {
 public:
  virtual ~TwoRanks() = default;
  virtual Executor& executor(int rank) = 0;
  virtual void callSum(int rank) = 0;
  virtual void sendOrReceive(int rank) = 0;
  /// What an owner does now and then.
  virtual void look() = 0;
  virtual bool isDone(int rank) = 0;

  void finish() {
    until([&] { return isDone(0) && isDone(1); }, "both ranks have ended");
  }
  void until(const std::function<bool()>& holds, const char* what) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!holds()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "not so: " << what;
      look();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
};

class OnHost final : public TwoRanks {
 public:
  OnHost() {
    for (int r = 0; r < 2; ++r) {
      ranks_.push_back(std::make_unique<Rank>(r));
      ranks_[r]->endpoint = transports::sim::makeSimEndpoint(network_, r);
    }
    for (int r = 0; r < 2; ++r) {
      ranks_[r]->endpoint->connect(1 - r, ranks_[1 - r]->endpoint->address(r));
      ranks_[r]->plan = ranks_[r]->executor.prepare(call_.spec, programsOf(call_.spec));
    }
  }
  Executor& executor(int rank) override { return ranks_[rank]->executor; }
  void callSum(int r) override {
    Rank& rank = *ranks_[r];
    rank.executor.enter(true);
    rank.operation = &rank.executor.begin(placeOf(r), {.staged = rank.plan.get()},
                                          call_.on(r, rank.in.data(), rank.out.data()));
  }
  void sendOrReceive(int r) override {
    Rank& rank = *ranks_[r];
    rank.executor.enter(false);
    executor::Exchange exchange;
    if (r == 0) exchange.sends.push_back({1, rank.in.data(), 16});
    if (r == 1) exchange.receives.push_back({0, rank.out.data(), 16});
    rank.operation = &rank.executor.begin(placeOf(r), std::move(exchange));
  }
  void look() override {
    for (const auto& rank : ranks_) {
      if (!rank->operation || rank->operation->poll() != executor::Poll::Done) continue;
      rank->operation = nullptr;
      rank->executor.end(true);
    }
    network_->advance();
  }
  bool isDone(int rank) override { return ranks_[rank]->operation == nullptr; }

 private:
  struct Rank {
    explicit Rank(int rank) : executor(rank) {}
    std::unique_ptr<transports::Endpoint> endpoint;
    HostExecutor executor;
    std::unique_ptr<executor::PreparedPlan> plan;
    Buffer in = Buffer(4 * kCount), out = Buffer(4 * kCount);
    executor::Operation* operation = nullptr;
  };
  executor::HostRank placeOf(int rank) { return {rank, 2, ranks_[rank]->endpoint.get()}; }

  const Call call_ = ringCall(2, kCount);
  const std::shared_ptr<transports::sim::SimNetwork> network_ =
      std::make_shared<transports::sim::SimNetwork>(
          2, transports::RingLayout{.channels = 2, .slotCount = 4, .slotBytes = 4096},
          transports::sim::SimOptions{.drive = transports::sim::Drive::Virtual});
  std::vector<std::unique_ptr<Rank>> ranks_;
};

template <class Ranks>
class OnGpus : public TwoRanks {
 public:
  Executor& executor(int rank) override { return ranks_.executor(rank); }
  void callSum(int rank) override { ranks_.launch(rank); }
  void sendOrReceive(int r) override {
    executor::Exchange exchange;
    if (r == 0) exchange.sends.push_back({1, memory_[0].data(), 16});
    if (r == 1) exchange.receives.push_back({0, memory_[1].data(), 16});
    exchangeOn(ranks_.executor(r), exchange, ranks_.stream(r));
  }
  void look() override {
    for (int r = 0; r < 2; ++r) ranks_.executor(r).watch();
  }
  bool isDone(int rank) override {
    const device::OnDevice on(ranks_.deviceOf(rank));
    return device::hasEnded(ranks_.stream(rank));
  }

 protected:
  Ranks ranks_{{.ranks = 2}};
  DeviceBuffer memory_[2]{{ranks_.deviceOf(0), Buffer(16), 0}, {ranks_.deviceOf(1), Buffer(16), 0}};
};

class ByKernel final : public OnGpus<DeviceRanks> {
 public:
  ByKernel() { ranks_.begin(ringCall(2, kCount), Wire::Simple, 1); }
};
class ByCopies final : public OnGpus<CopyRanks> {
 public:
  ByCopies() { ranks_.begin(ringCall(2, kCount), 1); }
};

using MakeRanks = std::unique_ptr<TwoRanks> (*)();
template <class Ranks>
std::unique_ptr<TwoRanks> make() {
  return std::make_unique<Ranks>();
}

class Questions : public testing::TestWithParam<MakeRanks> {};

/// By copies what has ended is seen by a look.
void expectQuiet(TwoRanks& ranks, int rank, uint64_t collectives) {
  Executor& executor = ranks.executor(rank);
  EXPECT_FALSE(executor.isRunning());
  ranks.until([&] { return !executor.underWay(); }, "nothing is under way");
  EXPECT_EQ(executor.collectivesEnded().value_or(collectives), collectives);
}

TEST_P(Questions, OfCollectives) {
  const auto ranks = GetParam()();
  for (int r = 0; r < 2; ++r) expectQuiet(*ranks, r, 0);
  for (uint64_t ended = 0; ended < 3; ++ended) {
    Executor& first = ranks->executor(0);
    ranks->callSum(0);
    ranks->until([&] { return first.underWay() == ended; }, "rank 0's call is under way");
    EXPECT_TRUE(first.isRunning());
    expectQuiet(*ranks, 1, ended);
    ranks->callSum(1);
    ranks->finish();
    for (int r = 0; r < 2; ++r) expectQuiet(*ranks, r, ended + 1);
  }
}

// Of sends and receives that wait, nothing is told but that they do; they count as operations.
TEST_P(Questions, OfExchanges) {
  const auto ranks = GetParam()();
  Executor& receiver = ranks->executor(1);
  ranks->sendOrReceive(1);
  ranks->until([&] { return receiver.isRunning(); }, "rank 1 receives");
  for (int i = 0; i < 20; ++i) {
    ranks->look();
    EXPECT_EQ(receiver.underWay(), std::nullopt);
  }
  ranks->sendOrReceive(0);
  ranks->finish();
  for (int r = 0; r < 2; ++r) expectQuiet(*ranks, r, 0);
  ranks->callSum(0);
  ranks->until([&] { return ranks->executor(0).underWay() == 1; }, "rank 0's call is its second");
  ranks->callSum(1);
  ranks->finish();
}

TEST_P(Questions, PreparedPlansHaveTheirSpecs) {
  const auto ranks = GetParam()();
  for (const plan::PlanSpec& spec : stagedPlans(2, 2)) {
    const auto plan = ranks->executor(1).prepare(spec, programsOf(spec));
    EXPECT_EQ(plan->spec(), spec);
  }
}

INSTANTIATE_TEST_SUITE_P(Executors, Questions,
                         testing::Values(make<OnHost>, make<ByKernel>, make<ByCopies>));

// When a rank has left, nobody hears any more of what a graph replays.
template <class Ranks>
void expectNothingOnceItHasLeft(Ranks& ranks) {
  ranks.launch(0);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!ranks.executor(0).underWay() && std::chrono::steady_clock::now() < end)
    ranks.executor(0).watch();
  EXPECT_EQ(ranks.executor(0).underWay(), 0);
  ranks.executor(0).leave();
  EXPECT_FALSE(ranks.executor(0).isRunning());
  EXPECT_EQ(ranks.executor(0).underWay(), std::nullopt);
  EXPECT_FALSE(ranks.executor(0).failure());
  EXPECT_EQ(ranks.executor(0).missedLeaver({0, 0}), -1);
}

TEST(Questions, OfWhoHasLeft) {
  DeviceRanks kernels({.ranks = 2});
  kernels.begin(ringCall(2, kCount), Wire::Simple, 1);
  expectNothingOnceItHasLeft(kernels);
  CopyRanks copies({.ranks = 2});
  copies.begin(ringCall(2, kCount), 1);
  expectNothingOnceItHasLeft(copies);
}

}  // namespace
}  // namespace tutti::tests
