// What one call asks for: an algorithm of its own, which holds for that call alone.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include <tutti/tutti.h>

#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"

namespace tutti::tests {
namespace {

constexpr int kRanks = 4;
constexpr size_t kCount = 1000;
using Ints = std::vector<int32_t>;

/// The last recorded call of a rank.
std::string lastCall(const Communicator& c) {
  const std::string text = c.describe();
  const size_t end = text.find_last_not_of('\n') + 1;
  const size_t begin = text.rfind('\n', end - 1) + 1;
  return text.substr(begin, end - begin);
}

AllReduceArgs argsWith(Ints& x, CallOptions options) {
  return {.send = x.data(),
          .recv = x.data(),
          .count = x.size(),
          .type = DataType::Int32,
          .options = options};
}

TEST(CallOptions, ForceAnAlgorithmForOneCall) {
  auto ranks = Communicator::createLocal(kRanks);
  runRanks(ranks, [](Communicator& c) {
    for (const char* name : {"ring", "double_tree", "recursive", "one_shot", "two_shot"}) {
      Ints x(kCount, c.rank() + 1);
      c.allReduce(argsWith(x, {.algorithm = name}));
      EXPECT_EQ(x, Ints(kCount, 10)) << name;
      EXPECT_NE(lastCall(c).find(std::string("by ") + name), std::string::npos) << lastCall(c);
    }
    Ints x(kCount, 1);
    c.allReduce(argsWith(x, {}));
    const std::string chosen = lastCall(c);
    c.allReduce(argsWith(x, {.algorithm = "ring"}));
    c.allReduce(argsWith(x, {}));
    const auto algorithmOf = [](const std::string& line) { return line.substr(line.find(" by ")); };
    EXPECT_EQ(algorithmOf(lastCall(c)), algorithmOf(chosen));
  });
}

TEST(CallOptions, GoBeforeTheCommunicatorsOwn) {
  auto ranks = Communicator::createLocal(kRanks, {.algorithm = "recursive"});
  runRanks(ranks, [](Communicator& c) {
    Ints x(kCount, 1);
    c.allReduce(argsWith(x, {.algorithm = "ring"}));
    EXPECT_NE(lastCall(c).find("by ring"), std::string::npos) << lastCall(c);
    c.allReduce(argsWith(x, {}));
    EXPECT_NE(lastCall(c).find("by recursive"), std::string::npos) << lastCall(c);
    // What is not possible leaves the communicator's.
    c.allReduce(argsWith(x, {.algorithm = "pairwise", .ifPossible = true}));
    EXPECT_NE(lastCall(c).find("by recursive"), std::string::npos) << lastCall(c);
  });
}

TEST(CallOptions, HoldForPreparedCallsAndInGroups) {
  auto ranks = Communicator::createLocal(kRanks);
  runRanks(ranks, [](Communicator& c) {
    Ints x(kCount, c.rank() + 1);
    std::string name = "double_tree";
    PreparedCall call = c.prepare(argsWith(x, {.algorithm = name.c_str()}));
    name = "nothing any more";
    call.start();
    EXPECT_EQ(x, Ints(kCount, 10));
    EXPECT_NE(lastCall(c).find("by double_tree"), std::string::npos) << lastCall(c);
    Group group;
    c.allReduce(argsWith(x, {.algorithm = "ring"}));
    group.end();
    EXPECT_EQ(x, Ints(kCount, 40));
    EXPECT_NE(lastCall(c).find("by ring"), std::string::npos) << lastCall(c);
  });
}

TEST(CallOptions, ThatCannotBeAreRefused) {
  auto ranks = Communicator::createLocal(2, {.timeout = std::chrono::seconds(20)});
  Communicator& c = ranks[0];
  Ints x(2 * kCount, 1);
  const auto refused = [&](const CallOptions& options, const std::string& words) {
    expectError(outcomeOf([&] { c.allReduce(argsWith(x, options)); }), ErrorCode::InvalidArgument,
                words);
  };
  refused({.algorithm = "pairwise"}, "the algorithm pairwise does not exist for all_reduce on 2");
  refused({.algorithm = "rng"}, "all_reduce on 2 ranks; there are ");
  refused({.algorithm = "rng"}, "ring");
  refused({.algorithm = "nonsense\n"}, "the algorithm nonsense? does not exist");
  refused({.gpuBlocks = -1}, "gpuBlocks is -1");
  refused({.gpuBlocks = 1025}, "gpuBlocks is 1025");
  // The calls were not made.
  runRanks(ranks, [](Communicator& rank) {
    Ints y(kCount, 1);
    rank.allReduce(argsWith(y, {.gpuBlocks = 1024}));
    EXPECT_EQ(y, Ints(kCount, 2));
  });
}

TEST(CallOptions, ThatDifferAreAMismatch) {
  auto ranks = Communicator::createLocal(2);
  runRanks(ranks, [](Communicator& c) {
    Ints x(kCount, 1);
    expectError(outcomeOf([&] {
                  c.allReduce(argsWith(x, {.algorithm = c.rank() == 0 ? "ring" : "double_tree"}));
                }),
                ErrorCode::Mismatch, "ranks disagree");
  });
}

TEST(CallOptions, HaveALimitOfDifferentOnes) {
  auto ranks = Communicator::createLocal(1);
  Ints x(4, 1);
  Outcome last = outcomeOf([] {});
  int made = 0;
  for (const char* name : {"ring", "recursive"})
    for (int blocks = 1; blocks <= 1024 && last.text == "no error"; ++blocks, ++made)
      last = outcomeOf([&] {
        ranks[0].allReduce(
            argsWith(x, {.algorithm = name, .ifPossible = true, .gpuBlocks = blocks}));
      });
  EXPECT_EQ(made, 2048) << last.text;
}

}  // namespace
}  // namespace tutti::tests
