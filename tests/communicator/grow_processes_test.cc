// Communicators that grow, with ranks that are processes. failure/grow_failures_test.cc has what
// goes wrong. The test's own process has no thread when it forks.

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>

#include <tutti/tutti.h>

#include "tests/support/collective_checks.h"
#include "tests/support/growing_ranks.h"
#include "tests/support/outcome.h"
#include "tests/support/text.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Context = RankProcesses::Context;

constexpr auto kPatience = 60s;
const CommunicatorOptions kOptions{.setupTimeout = kPatience, .timeout = kPatience};

void checkAllOfIt(Communicator& c) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{5003}})
    for (const bool inPlace : {false, true})
      checkAll(c, {.count = count, .root = c.size() - 1, .inPlace = inPlace});
  checkExchanges(c);
}

TEST(Grow, ProcessesJoinProcesses) {
  const GrowingRanks job{.existing = 2, .size = 4, .processes = 4};
  const auto ranks = job.start();
  EXPECT_TRUE(ranks->allSucceed(kPatience));
  for (int r = 0; r < 4; ++r) {
    EXPECT_TRUE(contains(ranks->output(r), "grown, sum 10")) << ranks->output(r);
    EXPECT_EQ(contains(ranks->output(r), "usable"), r < 2) << ranks->output(r);
  }
}

// A new rank in the place of a dead one: shrink, then grow.
TEST(Grow, ReplacesADeadRank) {
  SharedId place;
  RankProcesses ranks(4, [&](const Context& context) {
    CommunicatorOptions options = kOptions;
    options.id = context.id;
    options.rank = context.rank;
    options.size = 3;
    if (context.rank == 3) {  // starts when the others have lost one
      options.id = place.await();
      options.rank = 2;
      Communicator c = Communicator::create(options);
      checkAllOfIt(c);
      return 0;
    }
    Communicator c = Communicator::create(options);
    context.say("joined");
    EXPECT_EQ(outcomeOf([&] {
                while (true) c.barrier();
              }).code,
              ErrorCode::PeerLost);
    Communicator rest = c.shrink();
    GrowArgs args{.size = 3};
    if (rest.rank() == 0) {
      args.id = rest.growId();
      place.publish(*args.id);
    }
    Communicator whole = rest.grow(args);
    EXPECT_EQ(whole.rank(), context.rank == 2 ? 1 : 0);
    checkAllOfIt(whole);
    return 0;
  });
  for (int r = 0; r < 3; ++r) ASSERT_TRUE(ranks.awaitLine(r, "joined", kPatience));
  ranks.signal(1, SIGKILL);
  for (const int r : {0, 2, 3}) EXPECT_EQ(ranks.wait(r, kPatience), 0) << ranks.output(r);
}

}  // namespace
}  // namespace tutti::tests
