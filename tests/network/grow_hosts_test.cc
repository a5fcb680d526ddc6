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
std::unique_ptr<RankProcesses> startWithoutOne(const NetworkHosts& hosts,
                                               const CommunicatorOptions& options = kOptions) {
  GrowingRanks job{.size = 4, .options = options};
  job.old = [](const Context& context, Communicator& c, const GrowArgs& args) {
    context.say("grows");
    GrowingRanks::growAndSay(context, c, args);
    context.say("ended " + std::to_string(nowMs()));
  };
  job.fresh = [](const Context& context, const CommunicatorOptions& mine) {
    context.say("grows");
    GrowingRanks::createAndSay(context, mine);
    context.say("ended " + std::to_string(nowMs()));
  };
  auto ranks = job.start([&](int rank) { hosts.enter(rank); });
  for (int r = 0; r < 3; ++r) EXPECT_TRUE(ranks->awaitLine(r, "grows", 100s));
  std::this_thread::sleep_for(500ms);
  return ranks;
}

/// Who new ranks know of: without the rendezvous nothing but its address.
std::string nameOf(const RankProcesses& ranks, int rank, int of) {
  return rank == 0 && of == 2
             ? "the rendezvous at 10.77.0.1:"
             : "rank " + std::to_string(rank) + " (pid " + std::to_string(ranks.pid(rank));
}

/// All but `lost` have heard in time who was, and the existing ones among them are `usable`.
void expectTold(RankProcesses& ranks, int64_t began, int lost, int64_t withinMs, bool usable) {
  for (int r = 0; r < 3; ++r) {
    if (r == lost) continue;
    ASSERT_EQ(ranks.wait(r, 100s), 0) << ranks.output(r);
    const std::string said = ranks.output(r);
    EXPECT_TRUE(contains(said, "peer lost: ")) << said;
    EXPECT_TRUE(contains(said, nameOf(ranks, lost, r))) << said;
    EXPECT_EQ(contains(said, "usable"), usable && r < 2) << said;
    EXPECT_LE(std::stoll(said.substr(said.rfind("ended ") + 6)) - began, withinMs) << said;
  }
}

TEST_F(GrowHosts, ARankThatIsCutOffIsNamed) {
  const NetworkHosts network[2] = {NetworkHosts(3), NetworkHosts(3)};
  const std::unique_ptr<RankProcesses> jobs[2] = {startWithoutOne(network[0]),
                                                  startWithoutOne(network[1])};
  const int lost[2] = {0, 2};
  const int64_t began = nowMs();
  for (size_t i = 0; i < 2; ++i) network[i].unplug(lost[i]);
  for (size_t i = 0; i < 2; ++i) {
    expectTold(*jobs[i], began, lost[i], kHostLossNoticedMs, lost[i] == 2);
    EXPECT_EQ(jobs[i]->wait(lost[i], 100s), 0);
    EXPECT_TRUE(contains(jobs[i]->output(lost[i]), "peer lost: ")) << jobs[i]->output(lost[i]);
  }
}

TEST_F(GrowHosts, ARankThatIsKilledIsNamed) {
  for (const int lost : {0, 1, 2}) {
    const NetworkHosts hosts(3);
    const auto ranks = startWithoutOne(hosts);
    const int64_t began = nowMs();
    ranks->signal(lost, SIGKILL);
    expectTold(*ranks, began, lost, kHostLossNoticedMs, lost == 2);
  }
}

// Its kernel answers, so that it is not lost.
TEST_F(GrowHosts, AStoppedRankWithTheRendezvousIsNamedAtTheDeadline) {
  const NetworkHosts hosts(3);
  const auto ranks =
      startWithoutOne(hosts, {.setupTimeout = kSanitized ? 10s : 5s, .timeout = 100s});
  ranks->signal(0, SIGSTOP);
  for (const int r : {1, 2})
    EXPECT_TRUE(eventually([&] { return contains(ranks->output(r), "timeout: "); }));
  ranks->signal(0, SIGCONT);
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(ranks->wait(r, 100s), 0) << ranks->output(r);
    const std::string said = ranks->output(r);
    EXPECT_TRUE(contains(said, "timeout: ")) << said;
    EXPECT_EQ(contains(said, "usable"), r < 2) << said;
    if (r == 0) continue;
    EXPECT_TRUE(contains(said, nameOf(*ranks, 0, r))) << said;
    EXPECT_TRUE(contains(said, "that process is stopped")) << said;
  }
}

}  // namespace
}  // namespace tutti::tests
