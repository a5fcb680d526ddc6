// Joining: processes that find each other, those that must be refused, and those that die.

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <iostream>
#include <thread>

#include "src/bootstrap/bootstrap.h"
#include "src/bootstrap/rendezvous_client.h"
#include "src/bootstrap/rendezvous_server.h"
#include "tests/bootstrap/recording_listener.h"
#include "tests/support/board_processes.h"
#include "tests/support/leftovers.h"
#include "tests/support/text.h"

namespace tutti::bootstrap {
namespace {

using tests::BoardProcesses;
using tests::contains;
using tests::countDescriptors;
using tests::countOurSockets;
using tests::enterOwnNetwork;
using tests::eventually;

using Board = BoardProcesses::Board;
using std::chrono::milliseconds;

std::shared_ptr<ControlPlane> joinAs(int rank, int size, const UniqueId& id,
                                     milliseconds time = kPatience) {
  return join({.rank = rank, .size = size, .id = id, .source = "test"},
              base::Deadline::after(time));
}

UniqueId makeOrAwaitId(int rank, Board& board) {
  if (rank == 0) board.publish(UniqueId::create());
  return board.awaitId();
}

void expectAll(const std::vector<std::string>& results, const std::string& part) {
  for (size_t rank = 0; rank < results.size(); ++rank)
    EXPECT_TRUE(contains(results[rank], part)) << "rank " << rank << ": " << results[rank];
}

class Join : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!enterOwnNetwork()) std::cout << "no own network namespace: other jobs' sockets count\n";
  }
  void SetUp() override { ASSERT_EQ(countOurSockets(), 0); }
  void TearDown() override {
    EXPECT_TRUE(eventually([] { return countOurSockets() == 0; })) << countOurSockets();
  }
};

TEST_F(Join, RanksOfOneHostMeet) {
  for (int size : {1, 2, 4, 9}) {
    BoardProcesses processes(size, [size](int rank, Board& board) {
      const int before = countDescriptors();
      const UniqueId id = makeOrAwaitId(rank, board);
      std::string said;
      {
        auto plane = joinAs(rank, size, id);
        if (plane->peer(size - 1 - rank).pid <= 0) return std::string("no pid");
        said = greet(*plane);
      }
      eventually([&] { return countDescriptors() <= before; });
      return said + base::message(", ", countDescriptors() - before, " descriptors left");
    });
    expectAll(processes.results(), base::message("heard ", size, ", 0 descriptors left"));
  }
}

TEST_F(Join, ThreadsOfOneProcessMeetToo) {
  BoardProcesses processes(1, [](int, Board&) {
    const UniqueId id = UniqueId::create();
    std::vector<std::thread> threads;
    std::vector<std::string> said(5);
    for (int rank = 0; rank < 5; ++rank)
      threads.emplace_back([&, rank] { said[rank] = greet(*joinAs(rank, 5, id)); });
    for (auto& thread : threads) thread.join();
    return said == std::vector<std::string>(5, "heard 5") ? std::string("all") : said[0];
  });
  EXPECT_EQ(processes.results()[0], "all");
}

TEST_F(Join, MembershipIsCheckedFirst) {
  const UniqueId id = encode(randomRendezvous());
  for (auto [rank, size] : {std::pair{0, 0}, {0, -1}, {0, 1'000'000'000}, {4, 4}, {-1, 4}}) {
    try {
      joinAs(rank, size, id);
      ADD_FAILURE() << rank << " of " << size;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument) << error.what();
    }
  }
}

TEST_F(Join, AWrongSecretIsRefusedAndTheJobGoesOn) {
  BoardProcesses processes(3, [](int rank, Board& board) -> std::string {
    const UniqueId id = makeOrAwaitId(rank, board);
    if (rank < 2) return greet(*joinAs(rank, 2, id));
    Rendezvous wrong = decode(id);
    wrong.credentials.secret = wire::randomBytes<32>();
    return greet(*joinAs(1, 2, encode(wrong)));
  });
  // The third comes at any time: once the job is complete its id has expired.
  const auto results = processes.results();
  EXPECT_EQ(results[0], "heard 2");
  EXPECT_EQ(results[1], "heard 2");
  EXPECT_TRUE(contains(results[2], "error refused")) << results[2];
}

TEST_F(Join, AnExpiredIdIsRefusedAtOnce) {
  try {
    joinAs(0, 2, encode(randomRendezvous()));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Refused);
    EXPECT_TRUE(contains(error.what(), "expired")) << error.what();
  }
}

TEST_F(Join, TheSameRankTwiceIsRefused) {
  BoardProcesses processes(3, [](int rank, Board& board) -> std::string {
    const UniqueId id = makeOrAwaitId(rank, board);
    if (rank == 2) {  // after rank 1, before rank 0 completes the job
      eventually([&] { return board.lines[1].step.load() == 1; });
      std::this_thread::sleep_for(milliseconds(200));
      try {
        joinAs(1, 2, id);
      } catch (const Error& error) {
        board.go.store(1);
        throw;
      }
      return "joined";
    }
    if (rank == 0) eventually([&] { return board.go.load() == 1; });
    board.reach(rank, 1);
    return greet(*joinAs(rank, 2, id));
  });
  const auto results = processes.results();
  EXPECT_EQ(results[0], "heard 2");
  // Either of the two that call themselves rank 1 may have come first; here it is the first.
  EXPECT_EQ(results[1], "heard 2");
  EXPECT_TRUE(contains(results[2], "error refused") && contains(results[2], "has joined already"))
      << results[2];
}

TEST_F(Join, DifferentWorldSizesFailEverybodyWithBothNumbers) {
  BoardProcesses processes(3, [](int rank, Board& board) -> std::string {
    const UniqueId id = makeOrAwaitId(rank, board);
    if (rank == 2) {  // the last, so that the others are there to hear it
      eventually([&] { return board.lines[0].step + board.lines[1].step == 2; });
      std::this_thread::sleep_for(milliseconds(300));
    }
    board.reach(rank, 1);
    return greet(*joinAs(rank, rank == 2 ? 4 : 3, id));
  });
  const auto results = processes.results();
  expectAll(results, "error refused");
  expectAll(results, "world size 4");
  expectAll(results, "world size 3");
}

TEST_F(Join, AMissingRankIsNamedAtTheDeadline) {
  BoardProcesses processes(2, [](int rank, Board& board) -> std::string {
    const UniqueId id = makeOrAwaitId(rank, board);
    return greet(*joinAs(rank, 4, id, milliseconds(1500)));
  });
  const auto results = processes.results();
  // Whoever gives up first tells the other through the rendezvous.
  expectAll(results, "error timeout");
  expectAll(results, "missing: 2, 3");
}

TEST_F(Join, ARankKilledDuringSetupIsNamedToTheOthers) {
  BoardProcesses processes(3, [](int rank, Board& board) -> std::string {
    const UniqueId id = makeOrAwaitId(rank, board);
    board.reach(rank, 1);
    return greet(*joinAs(rank, 4, id));  // the fourth never comes
  });
  for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(processes.awaitStep(rank, 1));
  std::this_thread::sleep_for(milliseconds(300));
  const auto killed = std::chrono::steady_clock::now();
  processes.kill(1, SIGKILL);
  const auto results = processes.results();
  EXPECT_EQ(results[1], "killed by signal 9");
  for (int rank : {0, 2}) {
    EXPECT_TRUE(contains(results[rank], "error peer lost")) << results[rank];
    EXPECT_TRUE(contains(results[rank], "rank 1 (pid ")) << results[rank];
    EXPECT_LT(processes.saidAt(rank) - killed, std::chrono::seconds(1));  // the failure model's
  }
}

TEST_F(Join, ARankKilledAfterSetupIsReportedWithinASecond) {
  for (int victim : {0, 2}) {
    BoardProcesses processes(4, [](int rank, Board& board) -> std::string {
      const UniqueId id = makeOrAwaitId(rank, board);
      auto plane = joinAs(rank, 4, id);
      RecordingListener listener;
      plane->listen(1, &listener);
      board.reach(rank, 1);
      const auto events = listener.wait(1);
      plane->leave();
      plane->ignore(1);
      return events.empty() ? "nothing" : events[0];
    });
    for (int rank = 0; rank < 4; ++rank) ASSERT_TRUE(processes.awaitStep(rank, 1));
    const auto killed = std::chrono::steady_clock::now();
    processes.kill(victim, SIGKILL);
    const auto results = processes.results();
    for (int rank = 0; rank < 4; ++rank)
      if (rank != victim) {
        EXPECT_EQ(results[rank], base::message("lost ", victim, " its process ended"));
        EXPECT_LT(processes.saidAt(rank) - killed, std::chrono::seconds(1));
      }
  }
}

// Keeps the monitor's thread busy with the first message, so that the rest and the death come
// together.
class SlowListener final : public ControlListener {
 public:
  void onMessage(int from, ControlMessage message) override {
    if (message.type == 0) std::this_thread::sleep_for(milliseconds(300));
    inner.onMessage(from, std::move(message));
  }
  void onPeerLost(int peer, const std::string& how) override { inner.onPeerLost(peer, how); }
  void onTick() override {}
  RecordingListener inner;
};

TEST_F(Join, WhatADyingRankSentIsDeliveredBeforeItIsLost) {
  constexpr uint32_t kMessages = 50;
  BoardProcesses processes(2, [](int rank, Board& board) -> std::string {
    const UniqueId id = makeOrAwaitId(rank, board);
    auto plane = joinAs(rank, 2, id);
    SlowListener listener;
    plane->listen(1, &listener);
    if (rank == 1) {
      for (uint32_t i = 0; i < kMessages; ++i) plane->send(0, makeMessage(1, i, "last words"));
      std::this_thread::sleep_for(milliseconds(100));  // they are in the socket; rank 0 is busy
      ::raise(SIGKILL);
    }
    const auto events = listener.inner.wait(kMessages + 1);
    plane->ignore(1);
    if (events.size() != kMessages + 1) return base::message(events.size(), " events");
    return events[kMessages - 1] + ", " + events[kMessages];
  });
  EXPECT_EQ(processes.results()[0],
            base::message("message 1 ", kMessages - 1, " last words, lost 1 its process ended"));
}

TEST_F(Join, TheEndOfTheRendezvousProcessIsReported) {
  BoardProcesses processes(3, [](int rank, Board& board) -> std::string {
    const UniqueId id = makeOrAwaitId(rank, board);
    board.reach(rank, 1);
    if (rank == 0) ::pause();
    return greet(*joinAs(rank, 3, id));
  });
  for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(processes.awaitStep(rank, 1));
  std::this_thread::sleep_for(milliseconds(300));
  processes.kill(0, SIGKILL);
  const auto results = processes.results();
  for (int rank : {1, 2})
    EXPECT_TRUE(contains(results[rank], "error peer lost: rank")) << results[rank];
}

// It is neither lost nor absent. What it said last, that rank 2 is missing, misleads by itself.
TEST_F(Join, AStoppedProcessWithTheRendezvousIsNamedAtTheDeadline) {
  BoardProcesses processes(3, [](int rank, Board& board) -> std::string {
    const UniqueId id = makeOrAwaitId(rank, board);
    board.reach(rank, 1);
    if (rank == 0) ::pause();
    if (rank == 2) ::raise(SIGSTOP);  // until rank 0 is stopped
    std::string said;
    try {
      said = greet(*joinAs(rank, 3, id, milliseconds(4000)));
    } catch (const Error& error) {
      said = error.what();
    }
    board.reach(rank, 2);
    return said;
  });
  for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(processes.awaitStep(rank, 1));
  std::this_thread::sleep_for(milliseconds(300));
  processes.kill(0, SIGSTOP);
  std::this_thread::sleep_for(milliseconds(100));
  processes.kill(2, SIGCONT);
  for (int rank : {1, 2}) EXPECT_TRUE(processes.awaitStep(rank, 2));
  processes.kill(0, SIGKILL);
  const auto results = processes.results();
  EXPECT_TRUE(contains(results[1], "missing: 0, 2")) << results[1];
  EXPECT_TRUE(contains(results[2], "nothing answers there")) << results[2];
  for (int rank : {1, 2})
    EXPECT_TRUE(contains(results[rank], "that process is stopped")) << results[rank];
}

/// Rank 1 gives up because it lost rank 0; rank 2 sees rank 1 go, and has not heard why.
TEST_F(Join, ARankThatGaveUpIsNotTakenForTheDead) {
  const Rendezvous point = randomRendezvous();
  RendezvousServer server(point, kPatience);
  const auto end = base::Deadline::after(kPatience);
  RendezvousClient one(point, 1, 3, end), two(point, 2, 3, end);
  for (RendezvousClient* rank : {&one, &two})
    rank->send(Arrival{.info = describeThisProcess(), .listening = wire::randomUnixAddress()});
  const auto first = one.giveUp({.code = ErrorCode::PeerLost, .text = "rank 0 ended"});
  ASSERT_TRUE(first);
  const auto second = two.giveUp({.code = ErrorCode::PeerLost, .text = "rank 1 ended"});
  ASSERT_TRUE(second);
  EXPECT_EQ(second->code(), ErrorCode::PeerLost);
  EXPECT_TRUE(contains(second->what(), "rank 0 ended")) << second->what();
  EXPECT_FALSE(contains(second->what(), "rank 1 ended")) << second->what();
}

TEST_F(Join, SixtyFourDescriptorsAreEnoughForFourRanksAndNotForSixty) {
  for (int size : {4, 60}) {
    BoardProcesses processes(size, [size](int rank, Board& board) -> std::string {
      const rlimit limit{64, 64};
      TUTTI_SYSCALL(::setrlimit(RLIMIT_NOFILE, &limit));
      const UniqueId id = makeOrAwaitId(rank, board);
      return greet(*joinAs(rank, size, id, milliseconds(20'000)));
    });
    const auto results = processes.results();
    if (size == 4) {
      expectAll(results, "heard 4");
      continue;
    }
    int named = 0;
    for (const std::string& result : results) {
      EXPECT_TRUE(contains(result, "error ")) << result;
      named += contains(result, "RLIMIT_NOFILE") ? 1 : 0;
    }
    EXPECT_GT(named, 0);
  }
}

}  // namespace
}  // namespace tutti::bootstrap
