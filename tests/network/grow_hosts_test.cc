// Communicators that grow over several hosts: existing ranks on two of them, new ones on a third.

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include <tutti/tutti.h>

#include "tests/support/all_reduce_loop.h"
#include "tests/support/collective_checks.h"
#include "tests/support/growing_ranks.h"
#include "tests/support/leftovers.h"
#include "tests/support/network_hosts.h"
#include "tests/support/text.h"
#include "tests/support/with_network_hosts.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Context = RankProcesses::Context;

const CommunicatorOptions kOptions{.setupTimeout = 100s, .timeout = 100s};

using GrowHosts = WithNetworkHosts;

void checkAllOfIt(Communicator& c) {
  for (const size_t count : {size_t{1}, size_t{70001}}) checkAll(c, {.count = count});
  checkExchanges(c);
  EXPECT_EQ(c.hosts().back(), 2);
}

TEST_F(GrowHosts, ARankOfAThirdJoinsThoseOfTwo) {
  for (const bool withKey : {false, true}) {
    if (withKey) ::setenv("TUTTI_JOB_KEY", "a secret of this job alone, long enough", 1);
    const NetworkHosts hosts(3);
    GrowingRanks job{.existing = 3, .size = 5, .processes = 5, .options = kOptions};
    job.options.encryption = withKey;
    job.old = [](const Context&, Communicator& c, const GrowArgs& args) {
      Communicator grown = c.grow(args);
      checkAllOfIt(grown);
      EXPECT_EQ(sumOfRanks(c), 6);
    };
    job.fresh = [](const Context&, const CommunicatorOptions& options) {
      Communicator c = Communicator::create(options);
      checkAllOfIt(c);
    };
    const auto ranks = job.start([&](int rank) { hosts.enter(rank / 2); });
    EXPECT_TRUE(ranks->allSucceed(100s));
    ::unsetenv("TUTTI_JOB_KEY");
  }
}

/// The hosts are 0, 1 and 2, as the ranks; a fourth rank is missing when something happens.
std::unique_ptr<RankProcesses> startWithoutOne(const NetworkHosts& hosts) {
  GrowingRanks job{.size = 4, .options = kOptions};
  job.old = [](const Context& context, Communicator& c, const GrowArgs& args) {
    context.say("grows");
    GrowingRanks::growAndSay(context, c, args);
    context.say("ended " + std::to_string(nowMs()));
  };
  job.fresh = [](const Context& context, const CommunicatorOptions& options) {
    context.say("grows");
    GrowingRanks::createAndSay(context, options);
    context.say("ended " + std::to_string(nowMs()));
  };
  return job.start([&](int rank) { hosts.enter(rank); });
}

/// All but `lost` have heard in time who was, and the existing ones among them are `usable`.
void expectTold(RankProcesses& ranks, int64_t began, int lost, int64_t withinMs, bool usable) {
  for (int r = 0; r < 3; ++r) {
    if (r == lost) continue;
    ASSERT_EQ(ranks.wait(r, 100s), 0) << ranks.output(r);
    const std::string said = ranks.output(r);
    EXPECT_TRUE(contains(said, "peer lost: ")) << said;
    EXPECT_TRUE(contains(said, "rank " + std::to_string(lost) + " (pid ")) << said;
    EXPECT_EQ(contains(said, "usable"), usable && r < 2) << said;
    EXPECT_LE(std::stoll(said.substr(said.rfind("ended ") + 6)) - began, withinMs) << said;
  }
}

TEST_F(GrowHosts, ANewRankThatIsCutOffIsNamed) {
  const NetworkHosts hosts(3);
  const auto ranks = startWithoutOne(hosts);
  for (int r = 0; r < 3; ++r) ASSERT_TRUE(ranks->awaitLine(r, "grows", 100s));
  std::this_thread::sleep_for(500ms);
  const int64_t began = nowMs();
  hosts.unplug(2);
  expectTold(*ranks, began, 2, kHostLossNoticedMs, true);
  EXPECT_EQ(ranks->wait(2, 100s), 0);
  EXPECT_TRUE(contains(ranks->output(2), "ended during set-up")) << ranks->output(2);
}

TEST_F(GrowHosts, AnExistingRankThatIsKilledIsNamed) {
  const NetworkHosts hosts(3);
  const auto ranks = startWithoutOne(hosts);
  for (int r = 0; r < 3; ++r) ASSERT_TRUE(ranks->awaitLine(r, "grows", 100s));
  std::this_thread::sleep_for(500ms);
  const int64_t began = nowMs();
  ranks->signal(1, SIGKILL);
  expectTold(*ranks, began, 1, kHostLossNoticedMs, false);
}

}  // namespace
}  // namespace tutti::tests
