// Communicators with a plan of their user's: it serves the calls that it is made for, and no other;
// and all ranks must have the same.

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <string>
#include <vector>

#include <tutti/tutti.h>

#include "tests/communicator/plan_file.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"
#include "tests/support/rank_processes.h"
#include "tests/support/temporary_folder.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using collectives::SpecRequest;
using plan::Algorithm;
using plan::Collective;
using plan::Protocol;
using Ints = std::vector<int32_t>;

constexpr int kRanks = 4;
constexpr int kCount = 1000;

void expectBy(const Communicator& c, bool file) {
  EXPECT_EQ(lastCall(c).find("by file") != std::string::npos, file) << lastCall(c);
}

void allReduce(Communicator& c, const CallOptions& options = {}) {
  Ints x(kCount);
  std::iota(x.begin(), x.end(), c.rank());
  c.allReduce({.send = x.data(),
               .recv = x.data(),
               .count = x.size(),
               .type = DataType::Int32,
               .options = options});
  for (int i = 0; i < kCount; ++i)
    ASSERT_EQ(x[static_cast<size_t>(i)], c.size() * i + c.size() * (c.size() - 1) / 2) << i;
}

void allGather(Communicator& c, const CallOptions& options = {}) {
  Ints out(static_cast<size_t>(c.size()) * kCount);
  const Ints in(kCount, c.rank());
  c.allGather({.send = in.data(),
               .recv = out.data(),
               .count = in.size(),
               .type = DataType::Int32,
               .options = options});
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], static_cast<int>(i / kCount)) << i;
}

void broadcast(Communicator& c, int root) {
  Ints x(kCount, c.rank());
  c.broadcast({.send = x.data(),
               .recv = x.data(),
               .count = x.size(),
               .type = DataType::Int32,
               .root = root});
  ASSERT_EQ(x, Ints(kCount, root));
}

class PlanFile : public testing::Test {
 protected:
  std::string written(const plan::WholePlan& whole, const std::string& name = "plan.json") const {
    return writePlan(whole, folder_.path() / name);
  }
  static std::vector<Communicator> ranksWith(CommunicatorOptions options) {
    options.timeout = 20s;
    return Communicator::createLocal(kRanks, options);
  }
  const TemporaryFolder folder_;
};

TEST_F(PlanFile, ServesItsCalls) {
  auto ranks = ranksWith({.algorithmFile = written(starOf4())});
  runRanks(ranks, [](Communicator& c) {
    for (int again = 0; again < 3; ++again) {
      allReduce(c);
      expectBy(c, true);
    }
    allReduce(c, {.algorithm = "file"});
    expectBy(c, true);
    // Who names another gets that.
    allReduce(c, {.algorithm = "ring"});
    expectBy(c, false);
    allGather(c);
    expectBy(c, false);
    broadcast(c, 3);
    expectBy(c, false);
    c.barrier();
    Communicator half = *c.split(c.rank() / 2, 0);
    allReduce(half);
    expectBy(half, false);
  });
}

TEST_F(PlanFile, ServesOtherCollectives) {
  auto gather = ranksWith(
      {.algorithmFile = written(
           planOf(Algorithm::Recursive, {Collective::AllGather, Protocol::Simple, kRanks, 0, 1}))});
  runRanks(gather, [](Communicator& c) {
    allGather(c);
    expectBy(c, true);
    allReduce(c);
    expectBy(c, false);
  });
  auto cast = ranksWith(
      {.algorithmFile = written(planOf(Algorithm::DoubleTree,
                                       {Collective::Broadcast, Protocol::Simple, kRanks, 2, 1}))});
  runRanks(cast, [](Communicator& c) {
    broadcast(c, 2);
    expectBy(c, true);
    broadcast(c, 1);
    expectBy(c, false);
  });
}

TEST_F(PlanFile, MayMapBuffers) {
  auto ranks = ranksWith(
      {.algorithmFile = written(
           planOf(Algorithm::TwoShot, {Collective::AllReduce, Protocol::Mapped, kRanks, 0, 1}))});
  runRanks(ranks, [](Communicator& c) {
    Memory x = c.allocate(kCount * sizeof(int32_t)), y = c.allocate(kCount * sizeof(int32_t));
    auto* const in = static_cast<int32_t*>(x.data());
    auto* const out = static_cast<int32_t*>(y.data());
    for (int again = 0; again < 3; ++again) {
      std::fill_n(in, kCount, c.rank() + again);
      c.allReduce({.send = in, .recv = out, .count = kCount, .type = DataType::Int32});
      EXPECT_EQ(Ints(out, out + kCount), Ints(kCount, 6 + 4 * again));
    }
    allReduce(c);  // in ordinary memory, by what is chosen
    // Which is known before, unlike where buffers lie.
    expectError(outcomeOf([&] {
                  c.allReduce({.send = in,
                               .recv = out,
                               .count = kCount,
                               .type = DataType::Int32,
                               .op = ReduceOp::PreMulSum,
                               .scalar = 2,
                               .options = {.algorithm = "file"}});
                }),
                ErrorCode::InvalidArgument, "maps buffers, which premulsum cannot");
  });
}

// Rank 1 reads its input after it has overwritten its block of the output, which in place is the
// input.
plan::WholePlan unsafeInPlace() {
  plan::WholePlan whole =
      planOf(Algorithm::OneShot, {Collective::AllGather, Protocol::Mapped, kRanks, 0, 1});
  whole.spec.mapped.in = true;
  whole.spec.inPlaceSafe = whole.spec.unevenSafe = false;
  auto& steps = whole.programs[1].lanes[0].steps;
  steps.insert(steps.begin(), {.sources = {plan::mapped(0, plan::Buffer::In, 0)},
                               .targets = {plan::local(plan::Buffer::Out, 1)}});
  return whole;
}

// In place is another address on each rank.
TEST_F(PlanFile, IsNotTakenWhereOneRankIsInPlaceAndItIsNotSafe) {
  auto ranks = ranksWith({.algorithmFile = written(unsafeInPlace())});
  runRanks(ranks, [](Communicator& c) {
    Memory x = c.allocate(kCount * sizeof(int32_t));
    Memory y = c.allocate(kRanks * kCount * sizeof(int32_t));
    auto* const out = static_cast<int32_t*>(y.data());
    for (const int inPlace : {kRanks, 0, 1, 3}) {  // which rank; or none
      std::fill_n(out, kRanks * kCount, -1);
      auto* const in =
          inPlace == c.rank() ? out + c.rank() * kCount : static_cast<int32_t*>(x.data());
      std::fill_n(in, kCount, c.rank());
      c.allGather({.send = in, .recv = out, .count = kCount, .type = DataType::Int32});
      for (int i = 0; i < kRanks * kCount; ++i)
        ASSERT_EQ(out[i], i / kCount) << "rank " << inPlace << " in place, element " << i;
    }
  });
}

TEST_F(PlanFile, IsForcedLikeAnyAlgorithm) {
  auto ranks = ranksWith({.algorithm = "file", .algorithmFile = written(starOf4())});
  runRanks(ranks, [](Communicator& c) {
    allReduce(c);
    expectBy(c, true);
    allGather(c);  // for which it does not exist
    expectBy(c, false);
    allGather(c, {.algorithm = "file", .ifPossible = true});
    expectBy(c, false);
    expectError(outcomeOf([&] { allGather(c, {.algorithm = "file"}); }), ErrorCode::InvalidArgument,
                "the algorithm file does not exist for all_gather on 4 ranks: the plan of ");
    allReduce(c);
  });
  expectError(outcomeOf([] { ranksWith({.algorithm = "file"}); }), ErrorCode::InvalidArgument,
              "the algorithm file needs a file");
  auto plain = ranksWith({});
  expectError(outcomeOf([&] { allReduce(plain[0], {.algorithm = "file"}); }),
              ErrorCode::InvalidArgument, "the algorithm file needs a file");
}

TEST_F(PlanFile, IsRefusedWhereItIsWrong) {
  plan::WholePlan wrong = starOf4();
  wrong.programs[1].lanes[0].steps[0].sources.pop_back();  // its own input
  expectError(outcomeOf([&] { ranksWith({.algorithmFile = written(wrong)}); }),
              ErrorCode::InvalidArgument, "plan.json: the plan is refused: rank 1, lane 0, step 0");
  expectError(outcomeOf([&] { ranksWith({.algorithmFile = folder_.path() / "none"}); }),
              ErrorCode::InvalidArgument, "/none is not there");
}

/// What each of three processes says of joining; `files` by rank.
void expectOfProcesses(const std::vector<std::string>& files, ErrorCode code,
                       const std::vector<std::string>& words) {
  RankProcesses ranks(3, [&](const RankProcesses::Context& context) {
    const Outcome outcome = outcomeOf([&] {
      Communicator c = context.join(
          {.setupTimeout = 60s, .algorithmFile = files[static_cast<size_t>(context.rank)]});
      allReduce(c);
      if (lastCall(c).find("by file") == std::string::npos)
        throw Error(ErrorCode::Internal, lastCall(c));
    });
    context.say(outcome.text);
    return outcome.code == code ? 0 : 1;
  });
  EXPECT_TRUE(ranks.allSucceed(30s));
  for (int rank = 0; rank < 3; ++rank)
    for (const std::string& part : words)
      EXPECT_NE(ranks.output(rank).find(part), std::string::npos)
          << part << " in: " << ranks.output(rank);
}

TEST_F(PlanFile, IsTheSameOnAllRanks) {
  const SpecRequest sum{Collective::AllReduce, Protocol::Simple, 3, 0, 1};
  const std::string ring = written(planOf(Algorithm::Ring, sum), "ring.json");
  const std::string same = written(planOf(Algorithm::Ring, sum), "same.json");
  const std::string tree = written(planOf(Algorithm::DoubleTree, sum), "tree.json");
  expectOfProcesses({ring, same, ring}, ErrorCode::Unsupported, {"no error"});
  expectOfProcesses({ring, tree, ring}, ErrorCode::Mismatch,
                    {"ranks disagree about the algorithm file", "rank 1 (pid", ring, tree});
  expectOfProcesses(
      {ring, ring, ""}, ErrorCode::Mismatch,
      {"ranks disagree about the algorithm file", "rank 2 (pid", ring, "has no algorithm file"});
  expectOfProcesses({"/none", ring, ring}, ErrorCode::InvalidArgument,
                    {"rank 0 (pid", "/none is not there"});
}

}  // namespace
}  // namespace tutti::tests
