// Growing that fails: what is refused, and that existing and new ranks all hear who is missing, has
// died or does not agree, and when. Where no existing rank was lost, the communicator that was to
// grow stays usable.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <tutti/tutti.h>

#include "src/bootstrap/bootstrap.h"
#include "src/bootstrap/host_facts.h"
#include "src/bootstrap/rendezvous_client.h"
#include "src/bootstrap/rendezvous_server.h"
#include "tests/support/all_reduce_loop.h"
#include "tests/support/growing_ranks.h"
#include "tests/support/leftovers.h"
#include "tests/support/outcome.h"
#include "tests/support/text.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Context = RankProcesses::Context;

constexpr auto kPatience = 60s;
const CommunicatorOptions kLong{.setupTimeout = kPatience, .timeout = kPatience};
/// Where a deadline is what ends it. The time of operations is longer, and must not matter. What
/// grows has to be set up within it, too.
const CommunicatorOptions kShort{.setupTimeout = kThreadSanitized ? 10s : 4s, .timeout = kPatience};

/// All ranks but `silent` end well and have said each of `parts`; existing ones are "usable".
void expectAll(RankProcesses& ranks, int processes, int existing,
               const std::vector<std::string>& parts, bool usable = true, int silent = -1) {
  for (int r = 0; r < processes; ++r) {
    if (r == silent) continue;
    EXPECT_EQ(ranks.wait(r, kPatience), 0) << "rank " << r << ": " << ranks.output(r);
    for (const std::string& part : parts)
      EXPECT_TRUE(contains(ranks.output(r), part)) << "rank " << r << ": " << ranks.output(r);
    EXPECT_EQ(contains(ranks.output(r), "usable"), usable && r < existing)
        << "rank " << r << ": " << ranks.output(r);
  }
}

/// By itself or by the test.
void awaitStopped(const RankProcesses& ranks, int rank) {
  EXPECT_TRUE(eventually([&] {
    siginfo_t its{};
    return ::waitid(P_PID, static_cast<id_t>(ranks.pid(rank)), &its, WSTOPPED | WNOHANG) == 0 &&
           its.si_pid != 0;
  }));
}

std::string nameOf(const RankProcesses& ranks, int rank) {
  return "rank " + std::to_string(rank) + " (pid " + std::to_string(ranks.pid(rank));
}

// ---- arguments that disagree

TEST(GrowArguments, ExistingRanksThatDisagreeAreToldAndSoAreNewOnes) {
  GrowingRanks job{.options = kLong};
  job.old = [](const Context& context, Communicator& c, GrowArgs args) {
    if (context.rank == 1) args.size = 4;
    GrowingRanks::growAndSay(context, c, args);
  };
  const auto ranks = job.start();
  expectAll(*ranks, 3, 2, {"mismatch: ", "wants 3 ranks, ", "wants 4", nameOf(*ranks, 1)});
}

// As in any collective: both calls are named, and the communicator fails.
TEST(GrowArguments, AnotherCallInItsPlaceIsAMismatch) {
  GrowingRanks job{.options = kLong};
  job.old = [](const Context& context, Communicator& c, const GrowArgs& args) {
    if (context.rank == 0) return GrowingRanks::growAndSay(context, c, args);
    float x[8] = {};
    const Outcome outcome = outcomeOf([&] { c.allReduce({.send = x, .recv = x, .count = 8}); });
    context.say(std::string(toString(outcome.code)) + ": " + outcome.text);
  };
  const auto ranks = job.start();
  expectAll(*ranks, 3, 2, {"mismatch: ", "all_reduce of 8 float32", "all_gather"}, false);
}

TEST(GrowArguments, OptionsOfANewRankThatDisagreeAreNamed) {
  GrowingRanks job{.options = kLong};
  job.fresh = [](const Context& context, CommunicatorOptions options) {
    options.algorithm = "ring";
    GrowingRanks::createAndSay(context, options);
  };
  const auto ranks = job.start();
  expectAll(*ranks, 3, 2, {"mismatch: ", "ranks disagree about a communicator", "ring"});
}

// ---- new ranks

TEST(GrowNewRanks, ThatDoNotComeAreNamedAtTheDeadline) {
  GrowingRanks job{.size = 5, .processes = 4, .options = kShort};
  job.fresh = [](const Context& context, CommunicatorOptions options) {
    if (context.rank == 3) {  // another version's id: it says so itself, and does not come
      options.id->bytes[8] = std::byte{1};
      const Outcome outcome = outcomeOf([&] { Communicator::create(options); });
      EXPECT_TRUE(contains(outcome.text, "speaks version")) << outcome.text;
      return context.say("timeout: missing: 3, 4 of others");
    }
    GrowingRanks::createAndSay(context, options);
  };
  const auto ranks = job.start();
  expectAll(*ranks, 4, 2, {"timeout: ", "missing: 3, 4"});
}

TEST(GrowNewRanks, OfAnotherSizeAreNamed) {
  GrowingRanks job{.options = kLong};
  job.fresh = [](const Context& context, CommunicatorOptions options) {
    options.size = 4;
    GrowingRanks::createAndSay(context, options);
  };
  const auto ranks = job.start();
  expectAll(*ranks, 3, 2, {"refused: ", "has world size 4", "has world size 3"});
}

TEST(GrowNewRanks, WithTheNumberOfAnExistingOneAreNamed) {
  GrowingRanks job{.options = kLong};
  job.fresh = [](const Context& context, CommunicatorOptions options) {
    options.rank = 1;
    GrowingRanks::createAndSay(context, options);
  };
  const auto ranks = job.start();
  expectAll(*ranks, 3, 2,
            {"refused: ", "rank 1 (pid " + std::to_string(ranks->pid(2)), "one of its 2 ranks",
             "from 2 on"});
}

TEST(GrowNewRanks, ThatComeTwiceAreRefusedOnce) {
  GrowingRanks job{.processes = 4, .options = kLong};
  job.fresh = [](const Context& context, CommunicatorOptions options) {
    options.rank = 2;
    GrowingRanks::createAndSay(context, options);
  };
  const auto ranks = job.start();
  for (int r = 0; r < 4; ++r) ASSERT_EQ(ranks->wait(r, kPatience), 0) << ranks->output(r);
  for (int r = 0; r < 2; ++r) EXPECT_TRUE(contains(ranks->output(r), "grown, sum 6"));
  const int grown = contains(ranks->output(2), "grown, sum 6") ? 2 : 3;
  EXPECT_TRUE(contains(ranks->output(grown), "grown, sum 6")) << ranks->output(grown);
  // It comes before the growing is over, while it ends, or afterwards.
  const std::string said = ranks->output(5 - grown);
  EXPECT_TRUE(contains(said, "has joined already") || contains(said, "was used")) << said;
}

/// Arrives, gets the table of all ranks, and dies.
void dieWithTheTable(const CommunicatorOptions& options) {
  bootstrap::RendezvousClient client(bootstrap::decode(*options.id), options.rank, options.size,
                                     base::Deadline::after(kPatience));
  client.send(bootstrap::Arrival{.info = bootstrap::describeThisProcess(),
                                 .listening = wire::randomUnixAddress()});
  wire::PollSet set;
  while (!client.hasTable()) {
    set.clear();
    client.watch(set);
    set.wait(100);
    client.advance(set);
  }
  raise(SIGKILL);
}

/// The same when all are connected, and make transports.
void dieWithTheControlPlane(const CommunicatorOptions& options) {
  const auto plane = bootstrap::join(
      {.rank = options.rank, .size = options.size, .id = *options.id, .source = "test"},
      base::Deadline::after(kPatience));
  raise(SIGKILL);
}

TEST(GrowNewRanks, ThatDieWhileTheyJoinAreNamed) {
  for (const auto die : {dieWithTheTable, dieWithTheControlPlane}) {
    GrowingRanks job{.size = 4, .processes = 4, .options = kLong};
    job.fresh = [=](const Context& context, const CommunicatorOptions& options) {
      if (context.rank == 3) die(options);
      GrowingRanks::createAndSay(context, options);
    };
    const auto ranks = job.start();
    expectAll(*ranks, 4, 2, {"peer lost: ", nameOf(*ranks, 3)}, true, 3);
  }
}

// The others go on at once, also the one whose process has the rendezvous: most ranks never come.
TEST(GrowNewRanks, ThatCannotTakePartAreNamed) {
  GrowingRanks job{.size = 60, .options = kLong};
  job.fresh = [](const Context& context, const CommunicatorOptions& options) {
    std::this_thread::sleep_for(300ms);  // the others wait for it
    const rlimit limit{64, 64};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    GrowingRanks::createAndSay(context, options);
  };
  const auto ranks = job.start();
  expectAll(*ranks, 3, 2, {"system error: ", "a world of 60 ranks needs", "RLIMIT_NOFILE"});
  for (const int r : {0, 1})
    EXPECT_TRUE(contains(ranks->output(r), nameOf(*ranks, 2))) << ranks->output(r);
}

TEST(GrowNewRanks, ThatGiveUpAreNamed) {
  GrowingRanks job{.size = 4, .options = kLong};
  job.fresh = [](const Context& context, CommunicatorOptions options) {
    std::stop_source stop;
    options.stop = stop.get_token();
    const std::jthread stopper([&] {
      std::this_thread::sleep_for(500ms);
      stop.request_stop();
    });
    GrowingRanks::createAndSay(context, options);
  };
  const auto ranks = job.start();
  expectAll(*ranks, 3, 2, {"aborted: ", "set-up of rank 2 of 4 was stopped"});
}

// Whoever comes when all others have gone on hears why nobody waits.
TEST(GrowNewRanks, ThatComeLateAreToldWhy) {
  GrowingRanks job{.options = kLong};
  job.old = [](const Context& context, Communicator& c, GrowArgs args) {
    if (context.rank == 1) args.size = 4;
    GrowingRanks::growAndSay(context, c, args);
    std::this_thread::sleep_for(3s);
  };
  job.fresh = [](const Context& context, const CommunicatorOptions& options) {
    std::this_thread::sleep_for(bootstrap::RendezvousServer::kLinger + 500ms);
    GrowingRanks::createAndSay(context, options);
  };
  const auto ranks = job.start();
  expectAll(*ranks, 3, 2, {"mismatch: ", "wants 3 ranks, ", "wants 4", nameOf(*ranks, 1)});
}

// ---- existing ranks

// Before it has called, after all have voted, and with the rendezvous in its process.
TEST(GrowExistingRanks, ThatDieAreNamed) {
  for (const int dead : {0, 2})
    for (const bool before : {false, true}) {
      GrowingRanks job{.existing = 3, .size = 5, .processes = 4, .options = kLong};
      job.old = [=](const Context& context, Communicator& c, const GrowArgs& args) {
        context.say("grows");
        if (context.rank == dead && before) std::this_thread::sleep_for(kPatience);
        sayHow(context, [&] { return c.grow(args); });
        if (c.asyncError()) context.say("failed");  // at once: whoever catches it decides by that
        Communicator rest = c.shrink();
        context.say("rest of " + std::to_string(rest.size()));
      };
      job.fresh = [=](const Context& context, const CommunicatorOptions& options) {
        context.say("grows");
        GrowingRanks::createAndSay(context, options);
      };
      const auto ranks = job.start();
      for (int r = 0; r < 4; ++r) ASSERT_TRUE(ranks->awaitLine(r, "grows", kPatience));
      std::this_thread::sleep_for(300ms);
      const int64_t began = nowMs();
      ranks->signal(dead, SIGKILL);
      for (int r = 0; r < 4; ++r)
        EXPECT_TRUE(r == dead || eventually([&] { return contains(ranks->output(r), ": "); }));
      EXPECT_LE(nowMs() - began, kDeathNoticedMs);
      expectAll(*ranks, 4, 3, {"peer lost: "}, false, dead);
      for (const int r : {0, 1, 2})
        if (r != dead) {
          EXPECT_TRUE(contains(ranks->output(r), nameOf(*ranks, dead))) << ranks->output(r);
          EXPECT_TRUE(contains(ranks->output(r), "failed\nrest of 2")) << ranks->output(r);
        }
      // Without the rendezvous a new rank knows nothing but that it is gone, and whose it was.
      const std::string who = dead == 0 ? "the rendezvous at " : nameOf(*ranks, dead);
      EXPECT_TRUE(contains(ranks->output(3), who)) << ranks->output(3);
    }
}

TEST(GrowExistingRanks, ThatLeaveInsteadAreNamed) {
  GrowingRanks job{.options = kLong};
  job.old = [](const Context& context, Communicator& c, const GrowArgs& args) {
    if (context.rank == 0) return GrowingRanks::growAndSay(context, c, args);
    const Communicator gone = std::move(c);
    context.say("peer lost: left");
  };
  const auto ranks = job.start();
  expectAll(*ranks, 3, 2, {"peer lost: ", "left"}, false);
  for (const int r : {0, 2})
    EXPECT_TRUE(contains(ranks->output(r), nameOf(*ranks, 1))) << ranks->output(r);
}

TEST(GrowExistingRanks, ThatDoNotCallAreNamedAtTheDeadline) {
  GrowingRanks job{.options = kShort};
  job.old = [](const Context& context, Communicator& c, const GrowArgs& args) {
    if (context.rank == 0) return GrowingRanks::growAndSay(context, c, args);
    while (!c.asyncError()) std::this_thread::sleep_for(10ms);
    context.say(std::string(toString(c.asyncError()->code())) + ": " + c.asyncError()->what());
  };
  const auto ranks = job.start();
  expectAll(*ranks, 3, 2, {"timeout: "}, false);
  for (const int r : {0, 1})
    EXPECT_TRUE(contains(ranks->output(r), nameOf(*ranks, 1))) << ranks->output(r);
}

TEST(GrowExistingRanks, ThatHaveFailedBeforeCannotGrowAndNewRanksAreTold) {
  GrowingRanks job{.options = kLong};
  job.old = [](const Context& context, Communicator& c, const GrowArgs& args) {
    context.say("ready");
    if (context.rank == 1) {
      raise(SIGSTOP);  // until rank 0 is ready, too
      c.abort();
    }
    while (!c.asyncError()) std::this_thread::sleep_for(1ms);
    GrowingRanks::growAndSay(context, c, args);
  };
  const auto ranks = job.start();
  awaitStopped(*ranks, 1);
  ASSERT_TRUE(ranks->awaitLine(0, "ready", kPatience));
  ranks->signal(1, SIGCONT);
  expectAll(*ranks, 3, 2, {"aborted: ", "abort() was called by " + nameOf(*ranks, 1)}, false);
}

// ---- ranks that are stopped

/// Rank 3 is new and comes last, when `stopped` is.
std::unique_ptr<RankProcesses> startAndStop(int stopped, const CommunicatorOptions& options) {
  GrowingRanks job{.size = 4, .processes = 4, .options = options};
  job.old = [](const Context& context, Communicator& c, const GrowArgs& args) {
    context.say("grows");
    GrowingRanks::growAndSay(context, c, args);
  };
  job.fresh = [](const Context& context, const CommunicatorOptions& mine) {
    context.say("grows");
    if (context.rank == 3) raise(SIGSTOP);
    GrowingRanks::createAndSay(context, mine);
  };
  auto ranks = job.start();
  for (int r = 0; r < 4; ++r) EXPECT_TRUE(ranks->awaitLine(r, "grows", kPatience));
  awaitStopped(*ranks, 3);
  std::this_thread::sleep_for(200ms);
  ranks->signal(stopped, SIGSTOP);
  awaitStopped(*ranks, stopped);
  ranks->signal(3, SIGCONT);
  return ranks;
}

// Rank 0 has the rendezvous, rank 1 is an existing one, rank 2 a new one.
TEST(GrowStopped, RanksThatGoOnAreWaitedFor) {
  for (const int stopped : {0, 1, 2}) {
    const auto ranks = startAndStop(stopped, kLong);
    std::this_thread::sleep_for(300ms);
    ranks->signal(stopped, SIGCONT);
    expectAll(*ranks, 4, 2, {"grown, sum 10"});
  }
}

TEST(GrowStopped, RanksThatDoNotGoOnAreNamedAtTheDeadline) {
  std::vector<std::unique_ptr<RankProcesses>> jobs;
  for (const int stopped : {0, 1, 2}) jobs.push_back(startAndStop(stopped, kShort));
  for (const int stopped : {0, 1, 2}) {
    RankProcesses& ranks = *jobs[static_cast<size_t>(stopped)];
    for (int r = 0; r < 4; ++r)
      EXPECT_TRUE(r == stopped || eventually([&] { return contains(ranks.output(r), ": "); }));
    ranks.signal(stopped, SIGCONT);
    expectAll(ranks, 4, 2, {"timeout: "});
    for (int r = 0; r < 4; ++r) {
      if (r == stopped) continue;
      // New ranks do not know whose the rendezvous is.
      const std::string pid = "pid " + std::to_string(ranks.pid(stopped));
      const bool known = stopped != 0 || r < 2;
      EXPECT_TRUE(contains(ranks.output(r), known ? nameOf(ranks, stopped) : pid))
          << "rank " << r << ": " << ranks.output(r);
      EXPECT_EQ(contains(ranks.output(r), "that process is stopped"), stopped == 0)
          << "rank " << r << ": " << ranks.output(r);
    }
  }
}

// ---- what ends it

using Act = std::function<void(Communicator&, std::stop_source&)>;

/// A while later rank 1 does `act`.
void growWhile(const Act& act, const Context& context, Communicator& c, GrowArgs args) {
  std::stop_source stop;
  std::jthread actor;
  if (context.rank == 1) {
    args.stop = stop.get_token();
    actor = std::jthread([&] {
      std::this_thread::sleep_for(500ms);
      act(c, stop);
    });
  }
  GrowingRanks::growAndSay(context, c, args);
}

/// All ranks of a job that lacks one hear `parts` when rank 1 has done `act`.
void expectEndedBy(const Act& act, const std::vector<std::string>& parts, bool usable) {
  GrowingRanks job{.size = 4, .options = kLong};
  job.old = [&](const Context& context, Communicator& c, GrowArgs args) {
    growWhile(act, context, c, args);
  };
  const auto ranks = job.start();
  expectAll(*ranks, 3, 2, parts, usable);
}

TEST(GrowEnds, ByARequestToStop) {
  expectEndedBy([](Communicator&, std::stop_source& stop) { stop.request_stop(); },
                {"aborted: ", "set-up of rank 1 of 4 was stopped"}, true);
}

TEST(GrowEnds, ByAnAbortOfTheCommunicatorThatGrows) {
  expectEndedBy([](Communicator& c, std::stop_source&) { c.abort(); },
                {"aborted: ", "abort() was called by rank 1"}, false);
}

/// A job whose rank 3 is connected, and does not say where its transports are. Rank 1 calls `act`.
std::unique_ptr<RankProcesses> startWithASilentRank(const CommunicatorOptions& options,
                                                    const Act& act) {
  GrowingRanks job{.size = 4, .processes = 4, .options = options};
  job.adjust = [](int rank, CommunicatorOptions& its) {  // existing ranks end it
    if (rank >= 2) its.setupTimeout = kPatience;
  };
  job.old = [=](const Context& context, Communicator& c, GrowArgs args) {
    growWhile(act, context, c, args);
  };
  job.fresh = [](const Context& context, const CommunicatorOptions& mine) {
    if (context.rank == 2) return GrowingRanks::createAndSay(context, mine);
    const auto plane =
        bootstrap::join({.rank = mine.rank, .size = mine.size, .id = *mine.id, .source = "test"},
                        base::Deadline::after(kPatience));
    context.say("joined");
    std::this_thread::sleep_for(kPatience);
  };
  return job.start();
}

TEST(GrowEnds, AlsoWhileTransportsAreMade) {
  const std::unique_ptr<RankProcesses> jobs[] = {
      startWithASilentRank(kShort, [](Communicator&, std::stop_source&) {}),
      startWithASilentRank(kLong, [](Communicator&, std::stop_source& s) { s.request_stop(); }),
      startWithASilentRank(kLong, [](Communicator& c, std::stop_source&) { c.abort(); })};
  const std::string reasons[] = {"timeout: ", "aborted: set-up of rank 1 (pid ",
                                 "aborted: abort() was called by rank 1"};
  for (size_t i = 0; i < 3; ++i) {
    RankProcesses& ranks = *jobs[i];
    for (int r = 0; r < 3; ++r) {
      EXPECT_EQ(ranks.wait(r, kPatience / 2), 0) << ranks.output(r);
      EXPECT_TRUE(contains(ranks.output(r), reasons[i])) << ranks.output(r);
      EXPECT_TRUE(i != 0 || contains(ranks.output(r), nameOf(ranks, 3))) << ranks.output(r);
      EXPECT_EQ(contains(ranks.output(r), "usable"), i < 2 && r < 2) << ranks.output(r);
    }
    EXPECT_TRUE(ranks.awaitLine(3, "joined", kPatience));
  }
}

}  // namespace
}  // namespace tutti::tests
