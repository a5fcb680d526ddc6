// Every collective over RDMA, between processes, on buffers from nothing to a megabyte.

#include <gtest/gtest.h>

#include <chrono>

#include <tutti/tutti.h>

#include "tests/support/collective_checks.h"
#include "tests/support/rank_processes.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 3;

void runOver(const std::function<void(Communicator&)>& body) {
  RankProcesses ranks(kRanks, [&](const RankProcesses::Context& context) {
    Communicator c = context.join({.timeout = 120s, .transport = "ucx"});
    body(c);
    return testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_TRUE(ranks.allSucceed(300s));
}

TEST(Collectives, AreRight) {
  runOver([](Communicator& c) {
    Windows windows(c, 16411 * sizeof(float) * c.size() + 192);
    for (const size_t count : {0, 1, 777, 16411})
      for (const bool inPlace : {false, true})
        checkAll(c, {.count = count,
                     .root = static_cast<int>(count) % c.size(),
                     .inPlace = inPlace,
                     .misalign = inPlace ? size_t{1} : size_t{0},
                     .windows = inPlace ? &windows : nullptr});
    checkExchanges(c);
  });
}

// Long enough for UCX's rendezvous, which reads user memory by RDMA.
TEST(Collectives, OfAMegabyteAreRight) {
  runOver([](Communicator& c) {
    const Case t{.count = 262'144};
    checkAllReduce(c, t);
    checkAllGather(c, t);
    checkAllToAll(c, t);
  });
}

}  // namespace
}  // namespace tutti::tests
