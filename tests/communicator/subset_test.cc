// Communicators of some of another's ranks, made without the rest: who calls, what is refused, and
// that it works after a failure.

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <vector>

#include <tutti/tutti.h>

#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"
#include "tests/support/rank_processes.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Ranks = std::vector<int>;
using Context = RankProcesses::Context;

int sumOf(Communicator& c, int x) {
  c.allReduce({.send = &x, .recv = &x, .count = 1, .type = DataType::Int32});
  return x;
}

TEST(Subset, IsMadeByItsRanksAloneAsOftenAsTheyLike) {
  auto ranks = Communicator::createLocal(4, {.setupTimeout = 20s, .timeout = 20s});
  runRanks(ranks, [](Communicator& c) {
    const int rank = c.rank();
    // At the same time, and the same one twice, of which both last.
    const Ranks members = rank % 2 ? Ranks{1, 3} : Ranks{0, 2};
    Communicator first = c.subset(members), second = c.subset(members);
    for (Communicator* part : {&first, &second}) {
      EXPECT_EQ(part->size(), 2);
      EXPECT_EQ(part->rank(), rank / 2);
      EXPECT_EQ(sumOf(*part, rank), members[0] + members[1]);
    }
    // Rank 3 does not call.
    if (rank < 3) {
      Communicator three = c.subset(Ranks{0, 1, 2});
      EXPECT_EQ(sumOf(three, 1), 3);
      Communicator one = three.subset(Ranks{three.rank()});
      EXPECT_EQ(sumOf(one, 7), 7);
    }
    EXPECT_EQ(sumOf(c, 1), 4);
  });
}

TEST(Subset, RefusesWhatCannotBeRight) {
  auto ranks = Communicator::createLocal(3);
  Communicator& c = ranks[1];
  for (const Ranks& bad :
       {Ranks{}, Ranks{0, 2}, Ranks{1, 0}, Ranks{1, 1}, Ranks{1, 3}, Ranks{-1, 1}}) {
    const Outcome outcome = outcomeOf([&] { c.subset(bad); });
    EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument) << outcome.text;
  }
  Group group;
  EXPECT_EQ(outcomeOf([&] { c.subset(Ranks{1}); }).code, ErrorCode::InvalidUsage);
}

TEST(Subset, WorksAfterAnAbort) {
  auto ranks = Communicator::createLocal(3, {.setupTimeout = 20s, .timeout = 20s});
  runRanks(ranks, [](Communicator& c) {
    if (c.rank() == 2) return c.abort();
    EXPECT_EQ(outcomeOf([&] { sumOf(c, 1); }).code, ErrorCode::Aborted);
    Communicator rest = c.subset(Ranks{0, 1});
    EXPECT_EQ(sumOf(rest, 1), 2);
  });
}

// The dead are not looked for; naming one is an error, and naming the others is not.
TEST(Subset, NamesADeadRank) {
  RankProcesses ranks(3, [](const Context& context) {
    Communicator c = context.join({.setupTimeout = 20s, .timeout = 20s});
    // The death may be noticed as early as in the sum that rank 1 had ended.
    const Outcome lost = outcomeOf([&] {
      sumOf(c, 1);
      if (context.rank == 1) raise(SIGKILL);
      sumOf(c, 1);
    });
    context.say(lost.text);
    if (lost.code != ErrorCode::PeerLost) return 1;
    const Outcome all = outcomeOf([&] { c.subset(Ranks{0, 1, 2}); });
    context.say(all.text);
    if (all.code != ErrorCode::PeerLost || all.text.find("rank 1 (") == std::string::npos) return 2;
    Communicator rest = c.subset(Ranks{0, 2});
    return sumOf(rest, 1) == 2 ? 0 : 3;
  });
  for (const int survivor : {0, 2})
    EXPECT_EQ(ranks.wait(survivor, 20s), 0) << ranks.output(survivor);
}

TEST(Stop, EndsSetUpThatWaitsForARank) {
  RankProcesses ranks(3, [](const Context& context) {
    if (context.rank == 2) {
      std::this_thread::sleep_for(1s);  // never joins
      return 0;
    }
    std::stop_source stop;
    std::thread stopper([&] {
      std::this_thread::sleep_for(200ms);
      if (context.rank == 0) stop.request_stop();
    });
    const Outcome outcome = outcomeOf([&] { context.join({.stop = stop.get_token()}); });
    stopper.join();
    context.say(outcome.text);
    return outcome.code == ErrorCode::Aborted ? 0 : 1;
  });
  for (int r = 0; r < 3; ++r) EXPECT_EQ(ranks.wait(r, 20s), 0) << ranks.output(r);
  EXPECT_NE(ranks.output(1).find("rank 0 of 3 was stopped"), std::string::npos) << ranks.output(1);
}

TEST(Stop, RequestedBeforeIsSeenAtOnceAndAfterwardsMeansNothing) {
  std::stop_source stop;
  const CommunicatorOptions options{
      .id = UniqueId::create(), .rank = 0, .size = 1, .stop = stop.get_token()};
  Communicator c = Communicator::create(options);
  stop.request_stop();
  EXPECT_EQ(sumOf(c, 3), 3);
  CommunicatorOptions again = options;
  again.id = UniqueId::create();
  EXPECT_EQ(outcomeOf([&] { Communicator::create(again); }).code, ErrorCode::Aborted);
}

TEST(Share, GivesMemoryOfNoCommunicatorToSeveral) {
  auto ranks = Communicator::createLocal(2, {.timeout = 20s});
  runRanks(ranks, [](Communicator& c) {
    constexpr size_t kCount = 100'000;
    Memory x = allocateShareable(kCount * sizeof(int));
    EXPECT_EQ(x.as<int>()[kCount - 1], 0);
    {
      auto part = c.split(0, 0);
      const Memory here = c.share(x), there = part->share(x);
      EXPECT_EQ(here.data(), x.data());
      for (Communicator* on : {&c, &*part}) {
        std::fill_n(x.as<int>(), kCount, c.rank() + 1);
        on->allReduce(
            {.send = x.data(), .recv = x.data(), .count = kCount, .type = DataType::Int32});
        EXPECT_EQ(x.as<int>()[kCount - 1], 3);
      }
    }
    Memory kept = c.share(x);
    x = {};
    kept.as<int>()[0] = 1;  // still there
    const Memory own = c.allocate(8);
    for (const Memory* other : std::initializer_list<const Memory*>{&own, &x})
      EXPECT_EQ(outcomeOf([&] { c.share(*other); }).code, ErrorCode::InvalidArgument);
    EXPECT_EQ(allocateShareable(0).data(), nullptr);
  });
}

}  // namespace
}  // namespace tutti::tests
