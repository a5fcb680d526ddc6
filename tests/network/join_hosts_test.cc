// Set-up and the control plane between hosts: namespaces of this machine on one switch.

#include <signal.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "src/bootstrap/bootstrap.h"
#include "src/bootstrap/meeting_point.h"
#include "tests/bootstrap/rank_processes.h"
#include "tests/bootstrap/recording_listener.h"
#include "tests/support/network_hosts.h"

namespace tutti::bootstrap {
namespace {

using Board = RankProcesses::Board;
using tests::NetworkHosts;
using namespace std::chrono_literals;

std::shared_ptr<ControlPlane> joinAs(int rank, int size, const UniqueId& id,
                                     std::chrono::milliseconds time = kPatience) {
  return join({.rank = rank, .size = size, .id = id, .source = "test"},
              base::Deadline::after(time));
}

class JoinHosts : public testing::Test {
 protected:
  static void SetUpTestSuite() { reason_ = NetworkHosts::unavailable(); }
  void SetUp() override {
    if (reason_) GTEST_SKIP() << *reason_;
  }
  static std::optional<std::string> reason_;
};
std::optional<std::string> JoinHosts::reason_;

TEST_F(JoinHosts, AnIdThatWasMadeOnOneHostIsGoodOnAll) {
  const NetworkHosts hosts(3);
  RankProcesses ranks(6, [&](int rank, Board& board) {
    hosts.enter(rank % 3);
    if (rank == 0) board.publish(UniqueId::create());
    const auto plane = joinAs(rank, 6, board.awaitId());
    const bool named = plane->peer(1).host == "n1" && plane->peer(4).host == "n1" &&
                       plane->peer(1).bootId == plane->peer(4).bootId &&
                       plane->peer(1).bootId != plane->peer(0).bootId;
    return greet(*plane) + (named ? "" : ", and hosts have wrong names");
  });
  for (const std::string& said : ranks.results()) EXPECT_EQ(said, "heard 6");
}

TEST_F(JoinHosts, AnIdOfOneHostIsRefusedOnAnother) {
  const NetworkHosts hosts(2);
  RankProcesses ranks(2, [&](int rank, Board& board) {
    hosts.enter(rank);
    if (rank == 0) board.publish(UniqueId::create(UniqueId::Reach::Host));
    return greet(*joinAs(rank, 2, board.awaitId(), rank == 0 ? 1500ms : 20000ms));
  });
  const auto said = ranks.results();
  EXPECT_TRUE(contains(said[0], "error timeout")) << said[0];
  EXPECT_TRUE(contains(said[1], "error refused")) << said[1];
  EXPECT_TRUE(contains(said[1], "of another host")) << said[1];
}

TEST_F(JoinHosts, AnAddressAndAKeyJoinHostsToo) {
  const NetworkHosts hosts(2);
  RankProcesses ranks(4, [&](int rank, Board&) {
    hosts.enter(rank / 2);
    ::setenv("RANK", std::to_string(rank).c_str(), 1);
    ::setenv("WORLD_SIZE", "4", 1);
    ::setenv("MASTER_ADDR", hosts.address(0).c_str(), 1);
    ::setenv("MASTER_PORT", "29511", 1);
    ::setenv("TUTTI_JOB_KEY", "a key of enough letters", 1);
    return greet(*join(discover({}), base::Deadline::after(kPatience)));
  });
  for (const std::string& said : ranks.results()) EXPECT_EQ(said, "heard 4");
}

// What the last rank does to be lost, and what the others say of it.
struct Loss {
  const char* name;
  std::function<void(const NetworkHosts&, RankProcesses&)> act;
  int64_t withinMs;
  const char* how;
};

TEST_F(JoinHosts, AKilledProcessAndADeadHostAreNoticed) {
  const Loss losses[] = {
      {"kill", [](const NetworkHosts&, RankProcesses& ranks) { ranks.kill(3, SIGKILL); },
       tests::kDeathNoticedMs, "closed its connection"},
      {"unplugged", [](const NetworkHosts& hosts, RankProcesses&) { hosts.unplug(1); },
       tests::kHostLossNoticedMs, "its host does not answer"},
  };
  for (const Loss& loss : losses) {
    SCOPED_TRACE(loss.name);
    const NetworkHosts hosts(2);
    RankProcesses ranks(4, [&](int rank, Board& board) {
      hosts.enter(rank == 3 ? 1 : 0);
      if (rank == 0) board.publish(UniqueId::create());
      const auto plane = joinAs(rank, 4, board.awaitId());
      RecordingListener listener;
      plane->listen(1, &listener);
      board.reach(rank, 1);
      std::string said = "nothing";
      eventually([&] {  // other ranks that are done with the test are lost too
        for (const std::string& event : listener.events())
          if (event.starts_with("lost 3 ")) said = event;
        return said != "nothing";
      });
      plane->ignore(1);
      return said;
    });
    for (int rank = 0; rank < 4; ++rank) ASSERT_TRUE(ranks.awaitStep(rank, 1));
    const auto begin = std::chrono::steady_clock::now();
    loss.act(hosts, ranks);
    for (int rank = 0; rank < 3; ++rank)
      while (ranks.saidAt(rank) == std::chrono::steady_clock::time_point{} &&
             std::chrono::steady_clock::now() - begin < 15s)
        std::this_thread::sleep_for(5ms);
    ranks.kill(3, SIGKILL);
    const auto said = ranks.results();
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_TRUE(contains(said[rank], loss.how)) << said[rank];
      EXPECT_LE((ranks.saidAt(rank) - begin) / 1ms, loss.withinMs) << rank;
    }
  }
}

// A stopped process is slow, not dead: its kernel still answers.
TEST_F(JoinHosts, AStoppedProcessIsNotLost) {
  const NetworkHosts hosts(2);
  RankProcesses ranks(2, [&](int rank, Board& board) {
    hosts.enter(rank);
    if (rank == 0) board.publish(UniqueId::create());
    const auto plane = joinAs(rank, 2, board.awaitId());
    board.reach(rank, 1);
    eventually([&] { return board.go.load() == 1; });
    return greet(*plane);
  });
  for (int rank = 0; rank < 2; ++rank) ASSERT_TRUE(ranks.awaitStep(rank, 1));
  ranks.kill(1, SIGSTOP);
  std::this_thread::sleep_for(6s);  // longer than a dead host is waited for
  ranks.board().go.store(1);
  ranks.kill(1, SIGCONT);
  for (const std::string& said : ranks.results()) EXPECT_EQ(said, "heard 2");
}

// The second interface leads nowhere. Whoever listens there is named, with its interface.
TEST_F(JoinHosts, AnInterfaceThatLeadsNowhereIsNamed) {
  const NetworkHosts hosts(2);
  for (int host : {0, 1}) {
    hosts.run(host, {"ip", "link", "add", "nowhere", "type", "bridge"});
    hosts.run(host,
              {"ip", "address", "add", base::message("10.99.", host, ".1/24"), "dev", "nowhere"});
    hosts.run(host, {"ip", "link", "set", "nowhere", "up"});
    hosts.run(host, {"ip", "route", "add", "default", "dev", "nowhere"});
  }
  const auto results = [&](const char* interface) {
    RankProcesses ranks(2, [&](int rank, Board& board) {
      hosts.enter(rank);
      // Ranks meet on the right one; rank 0 then listens on `interface`.
      if (rank == 0) ::setenv("TUTTI_INTERFACE", interface, 1);
      ::setenv("RANK", std::to_string(rank).c_str(), 1);
      ::setenv("WORLD_SIZE", "2", 1);
      ::setenv("MASTER_ADDR", hosts.address(0).c_str(), 1);
      ::setenv("MASTER_PORT", "29512", 1);
      ::setenv("TUTTI_JOB_KEY", "a key of enough letters", 1);
      board.reach(rank, 1);
      return greet(*join(discover({}), base::Deadline::after(8s)));
    });
    return ranks.results();
  };
  for (const std::string& said : results(NetworkHosts::kInterface)) EXPECT_EQ(said, "heard 2");
  const auto wrong = results("nowhere");
  EXPECT_TRUE(contains(wrong[1], "10.99.0.1")) << wrong[1];
  EXPECT_TRUE(contains(wrong[1], "interface nowhere")) << wrong[1];
  EXPECT_TRUE(contains(wrong[1], "TUTTI_INTERFACE")) << wrong[1];
  const auto none = results("eth7");
  EXPECT_TRUE(contains(none[0], "TUTTI_INTERFACE=eth7")) << none[0];
  EXPECT_TRUE(contains(none[0], "eth0 (10.77.0.1)")) << none[0];
}

}  // namespace
}  // namespace tutti::bootstrap
