// Growing that fails: what is refused, and that existing and new ranks all hear who is missing, has
// died or does not agree, and when. Where no existing rank was lost, the communicator that was to
// grow stays usable.

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <tutti/tutti.h>

#include "src/bootstrap/bootstrap.h"
#include "src/bootstrap/host_facts.h"
#include "src/bootstrap/rendezvous_client.h"
#include "tests/support/growing_ranks.h"
#include "tests/support/outcome.h"
#include "tests/support/text.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Context = RankProcesses::Context;

constexpr auto kPatience = 60s;
const CommunicatorOptions kLong{.setupTimeout = kPatience, .timeout = kPatience};
/// Where a deadline is what ends it. The time of operations is longer, and must not matter.
const CommunicatorOptions kShort{.setupTimeout = 3s, .timeout = kPatience};

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
  EXPECT_NE(contains(ranks->output(2), "grown, sum 6"), contains(ranks->output(3), "grown, sum 6"));
  EXPECT_NE(contains(ranks->output(2), "refused: "), contains(ranks->output(3), "refused: "));
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

TEST(GrowNewRanks, ThatDieWhileTheyJoinAreNamed) {
  GrowingRanks job{.size = 4, .processes = 4, .options = kLong};
  job.fresh = [](const Context& context, const CommunicatorOptions& options) {
    if (context.rank == 3) dieWithTheTable(options);
    GrowingRanks::createAndSay(context, options);
  };
  const auto ranks = job.start();
  expectAll(*ranks, 4, 2, {nameOf(*ranks, 3)}, true, 3);
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
        GrowingRanks::growAndSay(context, c, args);
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
      ranks->signal(dead, SIGKILL);
      expectAll(*ranks, 4, 3, {"peer lost: "}, false, dead);
      for (const int r : {0, 1, 2})
        if (r != dead) {
          EXPECT_TRUE(contains(ranks->output(r), nameOf(*ranks, dead))) << ranks->output(r);
          EXPECT_TRUE(contains(ranks->output(r), "rest of 2")) << ranks->output(r);
        }
      // Without the rendezvous a new rank knows nothing but that it is gone, and whose it was.
      const std::string who = dead == 0 ? "the rendezvous at " : nameOf(*ranks, dead);
      EXPECT_TRUE(contains(ranks->output(3), who)) << ranks->output(3);
    }
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
    if (context.rank == 1) c.abort();
    while (!c.asyncError()) std::this_thread::sleep_for(1ms);
    GrowingRanks::growAndSay(context, c, args);
  };
  const auto ranks = job.start();
  expectAll(*ranks, 3, 2, {"aborted: ", "abort() was called by " + nameOf(*ranks, 1)}, false);
}

// ---- what ends it

/// All ranks of a job that lacks one hear `parts` when rank 1 has done `act`.
void expectEndedBy(const std::function<void(Communicator&, std::stop_source&)>& act,
                   const std::vector<std::string>& parts, bool usable) {
  GrowingRanks job{.size = 4, .options = kLong};
  job.old = [&](const Context& context, Communicator& c, GrowArgs args) {
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

// The new rank is connected, and does not say where its transports are.
TEST(GrowEnds, AlsoWhileTransportsAreMade) {
  for (const bool byStop : {false, true}) {
    GrowingRanks job{.options = kLong};
    job.old = [=](const Context& context, Communicator& c, GrowArgs args) {
      std::stop_source stop;
      std::jthread actor;
      if (context.rank == 1) {
        args.stop = stop.get_token();
        actor = std::jthread([&] {
          std::this_thread::sleep_for(500ms);
          byStop ? static_cast<void>(stop.request_stop()) : c.abort();
        });
      }
      GrowingRanks::growAndSay(context, c, args);
    };
    job.fresh = [](const Context&, const CommunicatorOptions& options) {
      const auto plane = bootstrap::join(
          {.rank = options.rank, .size = options.size, .id = *options.id, .source = "test"},
          base::Deadline::after(kPatience));
      std::this_thread::sleep_for(2s);
    };
    const auto ranks = job.start();
    for (int r = 0; r < 2; ++r) {
      EXPECT_EQ(ranks->wait(r, kPatience), 0) << ranks->output(r);
      const std::string why = byStop ? "set-up of rank 1 (pid " : "abort() was called by rank 1";
      EXPECT_TRUE(contains(ranks->output(r), "aborted: " + why)) << ranks->output(r);
      EXPECT_EQ(contains(ranks->output(r), "usable"), byStop) << ranks->output(r);
    }
    EXPECT_EQ(ranks->wait(2, kPatience), 0) << ranks->output(2);
  }
}

}  // namespace
}  // namespace tutti::tests
