// Which transport joins the ranks, where the caller chooses.

#include <gtest/gtest.h>

#include <tutti/tutti.h>

#include "tests/support/collective_checks.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"
#include "tests/support/rank_processes.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

void checkSome(Communicator& c) {
  Windows windows(c, 70001 * sizeof(float) * c.size() + 192);
  for (const size_t count : {0, 1, 777, 70001})
    for (Windows* const where : {static_cast<Windows*>(nullptr), &windows})
      checkAll(c, {.count = count, .root = static_cast<int>(count) % c.size(), .windows = where});
}

TEST(Transport, ThreadsByUcx) {
  auto ranks = Communicator::createLocal(3, {.timeout = 30s, .transport = "ucx"});
  runRanks(ranks, checkSome);
  for (Communicator& c : ranks)
    EXPECT_NE(c.describe().find("by ucx\n"), std::string::npos) << c.describe();
}

TEST(Transport, ProcessesByUcx) {
  RankProcesses ranks(3, [](const RankProcesses::Context& context) {
    Communicator c = context.join({.timeout = 30s, .transport = "ucx"});
    checkSome(c);
    auto part = c.split(c.rank() / 2, 0);
    checkSome(*part);
    return testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_TRUE(ranks.allSucceed(90s));
}

TEST(Transport, RanksThatAskForDifferentOnesDisagree) {
  RankProcesses ranks(2, [](const RankProcesses::Context& context) {
    const Outcome outcome = outcomeOf([&] {
      context.join({.setupTimeout = 20s, .transport = context.rank == 0 ? "ucx" : "shm"});
    });
    const bool named = outcome.text.find("transport='ucx'") != std::string::npos &&
                       outcome.text.find("transport='shm'") != std::string::npos;
    context.say(outcome.text);
    return outcome.code == ErrorCode::Mismatch && named ? 0 : 1;
  });
  EXPECT_TRUE(ranks.allSucceed(60s));
}

TEST(Transport, AnUnknownOneIsRefused) {
  const Outcome outcome = outcomeOf([] { Communicator::createLocal(2, {.transport = "pigeon"}); });
  EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument);
  EXPECT_NE(outcome.text.find("\"pigeon\" is not shm or ucx"), std::string::npos) << outcome.text;
}

}  // namespace
}  // namespace tutti::tests
