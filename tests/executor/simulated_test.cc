// The real host operations of all ranks in one thread, over a wire that delays, reorders,
// duplicates and loses packets, on virtual time: every algorithm delivers, whatever the schedule;
// the same seed gives the same run; a death leaves the others waiting for somebody, never wrong.
// Full messages are sent zero-copy, and read again for every repetition: what is overwritten too
// early shows.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>

#include "collectives/algorithms.h"
#include "src/base/check.h"
#include "src/executor/host/exchange_operation.h"
#include "src/executor/host/host_operation.h"
#include "src/numbers/fill.h"
#include "src/plan/hosts.h"
#include "tests/support/leftovers.h"
#include "tests/support/sanitized.h"
#include "tests/support/sim/endpoint.h"

namespace tutti::tests {
namespace {

using executor::HostOperation;
using executor::Poll;
using plan::Collective;
using transports::sim::SimNetwork;
using transports::sim::SimOptions;

std::vector<std::unique_ptr<transports::Endpoint>> connectedEndpoints(
    const std::shared_ptr<SimNetwork>& network) {
  std::vector<std::unique_ptr<transports::Endpoint>> endpoints;
  for (int r = 0; r < network->size(); ++r)
    endpoints.push_back(transports::sim::makeSimEndpoint(network, r));
  for (int r = 0; r < network->size(); ++r)
    for (int peer = 0; peer < network->size(); ++peer)
      if (peer != r) endpoints[r]->connect(peer, endpoints[peer]->address(r));
  return endpoints;
}

std::optional<plan::PlanSpec> mappedPlan(const plan::PlanSpec& of) {
  for (const auto& info : collectives::registry().algorithms())
    if (auto spec = info.spec({of.collective, plan::Protocol::Mapped, of.ranks, of.root, 1}))
      return spec;
  return {};
}

/// Whether other ranks touch a buffer of this one in the mapped plan.
bool sendsZeroCopy(const plan::PlanSpec& of, int rank) {
  const auto spec = mappedPlan(of);
  return (spec->mapped.in && plan::isGiven(*spec, plan::Buffer::In, rank)) ||
         (spec->mapped.out && plan::isGiven(*spec, plan::Buffer::Out, rank));
}

/// Which ranks say, when they are asked, that their buffers are in windows; none is asked where
/// this is empty.
using Mapped = std::vector<bool>;

/// One collective on all ranks of a simulated network, once or several times. In place where asked,
/// and where a rank has both an input and an output.
class SimulatedRun {
 public:
  SimulatedRun(const plan::PlanSpec& spec, uint64_t count, const SimOptions& options,
               bool inPlace = false, Mapped mapped = {})
      : spec_(spec),
        count_(count),
        inPlace_(inPlace),
        calls_{std::move(mapped)},
        random_(options.seed),
        network_(std::make_shared<SimNetwork>(
            spec.ranks,
            transports::RingLayout{
                .channels = std::max(2, spec.channels), .slotCount = 2, .slotBytes = 4096},
            options)) {
    ranks_.resize(spec.ranks);
    auto endpoints = connectedEndpoints(network_);
    for (int r = 0; r < spec.ranks; ++r) {
      ranks_[r].endpoint = std::move(endpoints[r]);
      begin(r);
    }
  }

  /// More calls, which a rank begins when it is through with those before. Ahead of run().
  void then(const std::vector<Mapped>& calls) {
    calls_.insert(calls_.end(), calls.begin(), calls.end());
  }

  /// Polls ranks in random order; lets time pass only when nobody moves. Returns the ranks that are
  /// done when nothing will ever happen again.
  std::vector<bool> run() {
    std::vector<int> order(ranks_.size());
    std::iota(order.begin(), order.end(), 0);
    while (true) {
      std::shuffle(order.begin(), order.end(), random_);
      bool moved = false;
      for (const int r : order) moved |= poll(r);
      if (!moved && (allDone() || !network_->advance())) break;
    }
    std::vector<bool> done;
    for (const auto& rank : ranks_) done.push_back(rank.done);
    return done;
  }

  /// Of the last call, and of all ranks in those before.
  size_t wrong() const {
    size_t wrong = wrongEarlier_;
    for (int r = 0; r < spec_.ranks; ++r) wrong += wrongOn(r);
    return wrong;
  }
  /// Elements of rank `r`'s result that are not what they must be.
  size_t wrongOn(int r) const { return wrongIn(r, ranks_[r].result.data()); }
  /// Also of a rank that is not done.
  size_t wrongSoFarOn(int r) const { return wrongIn(r, ranks_[r].at); }
  const SimNetwork& network() const { return *network_; }
  int waitingFor(int rank) const { return ranks_[rank].operation.waitingFor(); }
  /// Whether somebody was asked where a buffer lies: only who takes the mapped plan is.
  bool usedWindows() const {
    return std::ranges::any_of(ranks_, [](const Rank& r) { return r.windows.resolved > 0; });
  }
  /// Of each call that a rank has done, whether it was on mapped buffers.
  const std::vector<bool>& onMapped(int rank) const { return ranks_[rank].onMapped; }

 private:
  size_t wrongIn(int r, const std::byte* out) const;

  /// Each rank's buffers are window 1, its input, and window 2, its output.
  struct Windows final : executor::WindowResolver {
    executor::WindowPlace locate(const void* data, uint64_t) const override {
      if (!mapped) return {};
      return {data == run->ranks_[rank].at ? 2U : 1U, 0};
    }
    std::shared_ptr<std::byte> resolve(int peer, executor::WindowPlace place,
                                       uint64_t) const override {
      ++resolved;
      auto& buffer = place.window == 1 ? run->ranks_[peer].in : run->ranks_[peer].out;
      return {std::shared_ptr<void>(), buffer.data()};
    }
    SimulatedRun* run = nullptr;
    int rank = 0;
    bool mapped = false;
    mutable int resolved = 0;
  };

  struct Rank {
    std::unique_ptr<transports::Endpoint> endpoint;
    Windows windows;
    std::optional<executor::HostPlan> plan, mapped;
    std::vector<std::byte> in, out;
    HostOperation operation;
    bool done = false;
    const std::byte* at = nullptr;  // where its output is
    std::vector<std::byte> result;  // when done
    plan::MappedBufferPolicy mappedBufferPolicy;
    size_t call = 0;
    int resolvedBefore = 0;  // by earlier calls
    std::vector<bool> onMapped;
  };

  numbers::FillPattern pattern() const {
    return {.type = DataType::Float32, .op = ReduceOp::Sum, .seed = 5, .ranks = spec_.ranks};
  }

  void begin(int r) {
    Rank& rank = ranks_[r];
    rank.plan.emplace(spec_, collectives::build(spec_, r), r);
    const size_t block = count_ * 4, own = block * static_cast<size_t>(r);
    rank.in.resize(block * plan::blocksOf(spec_, plan::Buffer::In));
    rank.out.resize(block * plan::blocksOf(spec_, plan::Buffer::Out), std::byte{0x5a});
    std::byte *in = rank.in.data(), *out = rank.out.data();
    if (sharesBuffers(r)) {
      if (rank.in.size() > rank.out.size())
        out = in + own;
      else
        in = rank.in.size() < rank.out.size() ? out + own : out;
    }
    rank.at = out;
    numbers::fillInput(pattern(), r, 0, rank.in.size() / 4, in);
    const Mapped& mapped = calls_[rank.call];
    if (!mapped.empty()) {
      const auto spec = mappedPlan(spec_);
      rank.mapped.emplace(*spec, collectives::build(*spec, r), r);
      rank.windows.run = this;
      rank.windows.rank = r;
      rank.windows.mapped = mapped[r];
    }
    rank.operation.begin(
        {r, spec_.ranks, rank.endpoint.get(), &rank.windows},
        {.staged = &*rank.plan,
         .mapped = !mapped.empty() && rank.mappedBufferPolicy.next() ? &*rank.mapped : nullptr,
         .mappedBufferPolicy = &rank.mappedBufferPolicy},
        {.facts = {.type = DataType::Float32, .count = count_},
         .in = in,
         .out = out,
         .callHash = 77,
         .operation = static_cast<uint32_t>(rank.call + 1)});
  }

  bool poll(int r) {
    Rank& rank = ranks_[r];
    if (rank.done || !network_->alive(r)) return false;
    const Poll result = rank.operation.poll();
    rank.done = result == Poll::Done;
    if (rank.done) {  // from now on its memory is its own again
      rank.result.assign(rank.at, rank.at + rank.out.size());
      std::ranges::fill(rank.in, std::byte{0xee});
      std::ranges::fill(rank.out, std::byte{0xee});
      rank.onMapped.push_back(rank.windows.resolved > rank.resolvedBefore);
      rank.resolvedBefore = rank.windows.resolved;
      if (rank.call + 1 < calls_.size()) {
        wrongEarlier_ += wrongOn(r);
        ++rank.call;
        rank.done = false;
        begin(r);
      }
    }
    return result != Poll::Idle;
  }

  bool sharesBuffers(int r) const {
    return inPlace_ && spec_.inPlaceSafe && plan::isGiven(spec_, plan::Buffer::In, r) &&
           plan::isGiven(spec_, plan::Buffer::Out, r);
  }

  bool allDone() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.done; });
  }

  const plan::PlanSpec spec_;
  const uint64_t count_;
  const bool inPlace_;
  std::vector<Mapped> calls_;
  size_t wrongEarlier_ = 0;
  std::mt19937_64 random_;
  std::shared_ptr<SimNetwork> network_;
  std::vector<Rank> ranks_;
};

size_t SimulatedRun::wrongIn(int r, const std::byte* out) const {
  switch (spec_.collective) {
    case Collective::AllReduce:
      return numbers::compareWithExpected(pattern(), 0, count_, out).wrong;
    case Collective::Reduce:
      return r == spec_.root ? numbers::compareWithExpected(pattern(), 0, count_, out).wrong : 0;
    case Collective::ReduceScatter:
      return numbers::compareWithExpected(pattern(), count_ * r, count_, out).wrong;
    case Collective::Broadcast:
      return numbers::compareWithInput(pattern(), spec_.root, 0, count_, out).wrong;
    case Collective::Scatter:
      return numbers::compareWithInput(pattern(), spec_.root, count_ * r, count_, out).wrong;
    case Collective::Gather:
    case Collective::AllGather:
    case Collective::AllToAll: {
      if (!plan::isGiven(spec_, plan::Buffer::Out, r)) return 0;
      const size_t first = spec_.collective == Collective::AllToAll ? count_ * r : 0;
      size_t wrong = 0;
      for (int from = 0; from < spec_.ranks; ++from)
        wrong += numbers::compareWithInput(pattern(), from, first, count_, out + from * count_ * 4)
                     .wrong;
      return wrong;
    }
    case Collective::Scan: {
      numbers::FillPattern upToHere = pattern();
      upToHere.addends = r + 1;
      return numbers::compareWithExpected(upToHere, 0, count_, out).wrong;
    }
    case Collective::Barrier: return 0;
  }
  return 1;
}

SimOptions hostile(uint64_t seed) {
  return {.seed = seed,
          .drive = transports::sim::Drive::Virtual,
          .minLatencyNs = 100,
          .maxLatencyNs = 50'000,
          .reorder = 0.2,
          .loss = 0.1,
          .duplicate = 0.1};
}

std::vector<plan::PlanSpec> allPlans(int ranks, int channels = 1) {
  std::vector<plan::PlanSpec> plans;
  for (const auto& info : collectives::registry().algorithms())
    for (int c = 0; c < plan::kCollectiveCount; ++c)
      if (const auto spec = info.spec(
              {static_cast<Collective>(c), plan::Protocol::Simple, ranks, ranks - 1, channels}))
        plans.push_back(*spec);
  return plans;
}

/// As between hosts: those of one channel, and of four.
std::vector<plan::PlanSpec> allPlansOfFewAndManyLanes(int ranks) {
  auto plans = allPlans(ranks);
  const auto more = allPlans(ranks, 4);
  plans.insert(plans.end(), more.begin(), more.end());
  return plans;
}

class Simulated : public testing::TestWithParam<int> {};

TEST_P(Simulated, EveryAlgorithmDeliversOverAHostileWire) {
  const uint64_t seed = testSeed();
  for (const auto& spec : allPlansOfFewAndManyLanes(GetParam()))
    for (const uint64_t count : {1, 100, 9000})
      for (const bool inPlace : {false, true}) {
        SimulatedRun run(spec, count, hostile(seed), inPlace);
        const auto where = [&] {
          return base::message(spec.describe(), " count ", count, inPlace ? ", in place\n" : "\n",
                               run.network().describe());
        };
        for (const bool done : run.run()) ASSERT_TRUE(done) << where();
        ASSERT_EQ(run.wrong(), 0u) << where();
      }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Simulated,
                         testing::ValuesIn(kSanitized ? std::vector{2, 3, 5}
                                                      : std::vector{2, 3, 4, 5, 7, 8}));

// Asked whether their buffers are mapped, ranks answer differently, and one that says no goes
// ahead; the answers of the others are on the same channels as what the staged plan sends.
TEST_P(Simulated, AllTakeTheMappedPlanOrNone) {
  const int ranks = GetParam();
  const Mapped all(ranks, true), none(ranks, false);
  Mapped most = all, few = none;
  most[ranks / 2] = false;
  few[0] = true;
  for (const auto& spec : allPlansOfFewAndManyLanes(ranks)) {
    if (!mappedPlan(spec)) continue;
    for (const Mapped& mapped : {all, none, most, few}) {
      constexpr uint64_t kCount = 2000;  // two messages
      SimulatedRun run(spec, kCount, hostile(testSeed()), false, mapped);
      const auto where = [&] { return spec.describe() + "\n" + run.network().describe(); };
      for (const bool done : run.run()) ASSERT_TRUE(done) << where();
      ASSERT_EQ(run.wrong(), 0u) << where();
      bool expected = true;
      for (int r = 0; r < ranks; ++r) expected &= mapped[r] || !sendsZeroCopy(spec, r);
      ASSERT_EQ(run.usedWindows(), expected) << where();
    }
  }
}

class SimulatedHosts : public testing::TestWithParam<std::vector<int>> {};

TEST_P(SimulatedHosts, HierarchicalPlansDeliverOverAHostileWire) {
  const std::vector<int> hosts = plan::hostsInOrder(GetParam());
  const auto ranks = static_cast<int>(hosts.size());
  const auto& info = collectives::registry().find(plan::Algorithm::Hierarchical);
  int plans = 0;
  for (int c = 0; c < plan::kCollectiveCount; ++c) {
    for (const int channels : {1, 4}) {
      const auto spec = info.spec(
          {static_cast<Collective>(c), plan::Protocol::Simple, ranks, ranks - 1, channels, hosts});
      if (!spec) continue;
      ++plans;
      for (const uint64_t count : {1, 100, 9000}) {
        SimulatedRun run(*spec, count, hostile(testSeed()));
        for (const bool done : run.run())
          ASSERT_TRUE(done) << spec->describe() << " count " << count << "\n"
                            << run.network().describe();
        ASSERT_EQ(run.wrong(), 0u) << spec->describe() << " count " << count << "\n"
                                   << run.network().describe();
      }
    }
  }
  EXPECT_EQ(plans, 12);
}

using Hosts = std::vector<int>;
INSTANTIATE_TEST_SUITE_P(Placements, SimulatedHosts,
                         testing::Values(Hosts{0, 0, 1}, Hosts{0, 0, 1, 1}, Hosts{0, 1, 0, 1},
                                         Hosts{0, 0, 0, 1, 2, 2, 2, 2},
                                         Hosts{2, 0, 1, 1, 0, 2, 1, 0, 2}));

TEST(SimulatedSeed, ReplaysTheSameRun) {
  const auto spec = allPlans(5).front();
  const auto trace = [&](uint64_t seed) {
    SimulatedRun run(spec, 3000, hostile(seed));
    run.run();
    return run.network().traceHash();
  };
  EXPECT_EQ(trace(1), trace(1));
  EXPECT_NE(trace(1), trace(2));
}

// A rank dies, early or late: ranks that depend on it stay unfinished and say whom they wait for;
// those that finish have the right result.
TEST(SimulatedDeath, LeavesNobodyWrong) {
  int finished = 0, unfinished = 0;
  for (uint64_t run = 0; run < 40; ++run)
    for (const auto& spec : allPlans(4)) {
      if (spec.collective == Collective::Barrier) continue;
      const uint64_t seed = testSeed() + run;
      SimOptions options = hostile(seed);
      options.deaths = {{.rank = 2, .afterPackets = static_cast<int64_t>(run * run / 8)}};
      SimulatedRun simulated(spec, 1500, options);
      const auto done = simulated.run();
      for (int r = 0; r < 4; ++r) {
        if (r == 2) continue;
        const auto where = [&] {
          return spec.describe() + ", rank " + std::to_string(r) + ", death after " +
                 std::to_string(run * run / 8) + " packets, seed " + std::to_string(seed);
        };
        (done[r] ? finished : unfinished) += 1;
        if (done[r])
          EXPECT_EQ(simulated.wrongOn(r), 0u) << where();
        else
          EXPECT_GE(simulated.waitingFor(r), 0) << where();
      }
    }
  EXPECT_GT(finished, 100);
  EXPECT_GT(unfinished, 100);
}

// Everybody's sum has something of everybody: with a rank dead from the start nobody gets through.
TEST(SimulatedDeath, LetsNobodyThroughAnAllReduce) {
  for (const auto& spec : allPlans(4)) {
    if (spec.collective != Collective::AllReduce) continue;
    SimOptions options = hostile(testSeed());
    options.deaths = {{.rank = 2, .afterPackets = 0}};
    SimulatedRun run(spec, 1500, options);
    const auto done = run.run();
    EXPECT_EQ(std::count(done.begin(), done.end(), true), 0) << spec.describe();
  }
}

// An ordinary buffer is enough to know that nothing is mapped: who has one, or is told of it, is
// through with its part of the staged plan before rank 3 has come, though not with the operation.
TEST(SimulatedMappedBufferPolicy, WhoRefusesDoesNotWaitForTheOthersAnswers) {
  int plans = 0;
  for (const auto& spec : allPlans(4)) {
    if (spec.collective != Collective::Scan || spec.algorithm != plan::Algorithm::Ring) continue;
    ++plans;
    for (const bool refuses : {true, false}) {
      SimOptions options = hostile(testSeed());
      options.deaths = {{.rank = 3, .afterPackets = 0}};
      SimulatedRun run(spec, 100, options, false, {true, !refuses, true, true});
      const auto done = run.run();
      EXPECT_EQ(std::count(done.begin(), done.end(), true), 0);
      for (const int r : {0, 1, 2}) {
        EXPECT_EQ(run.waitingFor(r), 3);
        EXPECT_EQ(run.wrongSoFarOn(r) == 0, refuses) << "rank " << r;
      }
    }
  }
  EXPECT_EQ(plans, 1);
}

// After kPatience calls on ordinary memory, be it one rank's alone, each kEvery-th call asks, until
// one finds that all is mapped: all ranks agree on which, however far one is ahead of another.
TEST(SimulatedMappedBufferPolicy, StopsWhereItIsInVainAndFindsMappedBuffersAgain) {
  constexpr size_t kPatience = plan::MappedBufferPolicy::kPatience,
                   kEvery = plan::MappedBufferPolicy::kEvery;
  std::vector<Mapped> calls;
  std::vector<bool> expected;
  const auto call = [&](bool mapped, bool asks) {
    calls.push_back({true, mapped, true, true});
    expected.push_back(mapped && asks);
  };
  for (int turn = 0; turn < 3; ++turn) {
    for (size_t i = 0; i + 1 < kPatience; ++i) call(false, true);
    call(true, true);
    for (size_t i = 0; i < kPatience; ++i) call(false, true);
    for (size_t i = 1; i < kEvery; ++i) call(true, false);
    if (turn == 1) {  // in vain once more
      call(false, true);
      for (size_t i = 1; i < kEvery; ++i) call(true, false);
    }
    for (int i = 0; i < 3; ++i) call(true, true);
  }
  int plans = 0;
  for (const auto& spec : allPlans(4)) {
    if (spec.collective != Collective::AllReduce || !mappedPlan(spec)) continue;
    ++plans;
    SimulatedRun run(spec, 100, hostile(testSeed()), false, calls.front());
    run.then({calls.begin() + 1, calls.end()});
    const auto done = run.run();
    EXPECT_EQ(std::count(done.begin(), done.end(), true), 4) << spec.describe();
    EXPECT_EQ(run.wrong(), 0U);
    for (int r = 0; r < 4; ++r) EXPECT_EQ(run.onMapped(r), expected) << "rank " << r;
  }
  EXPECT_GT(plans, 3);
}

TEST(SimulatedPlan, ForMoreSlotsThanTheChannelsHaveIsRefused) {
  plan::PlanSpec spec = allPlans(2).front();
  spec.minSlots = 3;  // of 2
  EXPECT_THROW(SimulatedRun(spec, 10, hostile(1)), Error);
}

// Around a ring; who is done writes over what it has sent.
TEST(SimulatedExchange, IsNotDoneBeforeItsZeroCopySendsComplete) {
  constexpr int kRanks = 3;
  constexpr uint64_t kBytes = 50'000;
  auto network = std::make_shared<SimNetwork>(
      kRanks, transports::RingLayout{.channels = 1, .slotCount = 4, .slotBytes = 4096},
      hostile(testSeed()));
  const auto endpoints = connectedEndpoints(network);
  std::vector<std::byte> out[kRanks], in[kRanks];
  executor::ExchangeOperation operations[kRanks];
  for (int r = 0; r < kRanks; ++r) {
    const int to = (r + 1) % kRanks, from = (r + 2) % kRanks;
    out[r].assign(kBytes, static_cast<std::byte>(r));
    in[r].resize(kBytes);
    operations[r].begin(
        {r, kRanks, endpoints[r].get()},
        {.sends = {{to, out[r].data(), kBytes}}, .receives = {{from, in[r].data(), kBytes}}});
  }
  bool done[kRanks] = {};
  for (int left = kRanks; left > 0;) {
    bool moved = false;
    for (int r = 0; r < kRanks; ++r) {
      if (done[r]) continue;
      const Poll result = operations[r].poll();
      moved |= result != Poll::Idle;
      if (result != Poll::Done) continue;
      done[r] = true;
      --left;
      std::ranges::fill(out[r], std::byte{0xee});
    }
    if (!moved && !network->advance()) FAIL() << "nothing happens\n" << network->describe();
  }
  for (int r = 0; r < kRanks; ++r)
    EXPECT_EQ(in[r], std::vector<std::byte>(kBytes, static_cast<std::byte>((r + 2) % kRanks))) << r;
}

// What arrives with another fingerprint is refused before it is delivered.
TEST(SimulatedMismatch, IsSeenByTheReceiver) {
  const auto spec = allPlans(2).front();
  auto network = std::make_shared<SimNetwork>(
      2, transports::RingLayout{.channels = 2, .slotCount = 2, .slotBytes = 4096}, hostile(3));
  const auto endpoints = connectedEndpoints(network);
  std::vector<executor::HostPlan> plans;
  for (int r = 0; r < 2; ++r) plans.emplace_back(spec, collectives::build(spec, r), r);
  std::vector<float> in(100, 1.0f), out[2] = {std::vector<float>(100), std::vector<float>(100)};
  HostOperation operations[2];
  for (int r = 0; r < 2; ++r)
    operations[r].begin({r, 2, endpoints[r].get()}, {.staged = &plans[r]},
                        {.facts = {.type = DataType::Float32, .count = 100},
                         .in = reinterpret_cast<const std::byte*>(in.data()),
                         .out = reinterpret_cast<std::byte*>(out[r].data()),
                         .callHash = static_cast<uint32_t>(r),
                         .operation = 1});
  bool seen = false;
  for (int i = 0; i < 100000 && !seen; ++i) {
    try {
      bool moved = false;
      for (auto& operation : operations) moved |= operation.poll() != Poll::Idle;
      if (!moved && !network->advance()) FAIL() << "nothing happens, and nobody noticed";
    } catch (const executor::MismatchSeen& mismatch) {
      seen = true;
      EXPECT_EQ(mismatch.callHash, static_cast<uint32_t>(mismatch.peer));
    }
  }
  EXPECT_TRUE(seen);
}

}  // namespace
}  // namespace tutti::tests
