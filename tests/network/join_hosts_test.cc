// Set-up and the control plane between hosts: namespaces of this machine on one switch.

#include <signal.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "src/bootstrap/bootstrap.h"
#include "src/bootstrap/rendezvous.h"
#include "tests/bootstrap/recording_listener.h"
#include "tests/support/board_processes.h"
#include "tests/support/fake_proc.h"
#include "tests/support/leftovers.h"
#include "tests/support/network_hosts.h"
#include "tests/support/text.h"
#include "tests/support/with_network_hosts.h"

namespace tutti::bootstrap {
namespace {

using tests::BoardProcesses;
using tests::contains;
using tests::eventually;

using Board = BoardProcesses::Board;
using tests::FakeProc;
using tests::NetworkHosts;
using namespace std::chrono_literals;

std::shared_ptr<ControlPlane> joinAs(int rank, int size, const UniqueId& id,
                                     std::chrono::milliseconds time = kPatience) {
  return join({.rank = rank, .size = size, .id = id, .source = "test"},
              base::Deadline::after(time));
}

using JoinHosts = tests::WithNetworkHosts;

TEST_F(JoinHosts, AnIdThatWasMadeOnOneHostIsGoodOnAll) {
  const NetworkHosts hosts(3);
  BoardProcesses ranks(6, [&](int rank, Board& board) {
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
  BoardProcesses ranks(2, [&](int rank, Board& board) {
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
  BoardProcesses ranks(4, [&](int rank, Board&) {
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

// As the kernel may choose the port of rank 0 for the own end of a rank that waits for rank 0.
TEST_F(JoinHosts, RanksThatWaitDoNotConnectToThemselves) {
  const NetworkHosts hosts(1);
  BoardProcesses ranks(3, [&](int rank, Board&) {
    hosts.enter(0);
    if (!(std::ofstream("/proc/sys/net/ipv4/ip_local_port_range") << "40000 40009" << std::endl))
      return std::string("no range of ports");
    if (rank == 0) std::this_thread::sleep_for(2s);  // some twenty attempts of the others
    ::setenv("TUTTI_JOB_KEY", "a key of enough letters", 1);
    return greet(*joinAs(rank, 3, UniqueId::at(hosts.address(0) + ":40004")));
  });
  for (const std::string& said : ranks.results()) EXPECT_EQ(said, "heard 3");
}

// An address that each host must see through an interface of its own.
TEST_F(JoinHosts, LinkLocalAddressesJoinHosts) {
  const NetworkHosts hosts(2);
  for (int host : {0, 1})
    hosts.run(host, {"ip", "address", "add", base::message("fe80::77:", host, "/64"), "dev",
                     NetworkHosts::kInterface, "nodad"});
  const std::string zone = std::string("%") + NetworkHosts::kInterface;
  for (const bool byId : {false, true}) {
    BoardProcesses ranks(4, [&](int rank, Board& board) {
      hosts.enter(rank % 2);
      ::setenv("TUTTI_JOB_KEY", "a key of enough letters", 1);
      if (byId)
        ::setenv("TUTTI_INTERFACE", (base::message("fe80::77:", rank % 2) + zone).c_str(), 1);
      if (byId && rank == 0) board.publish(UniqueId::create());
      const UniqueId id = byId ? board.awaitId() : UniqueId::at("[fe80::77:0" + zone + "]:29531");
      const auto plane = joinAs(rank, 4, id);
      const bool seen = std::ranges::all_of(std::array{0, 1, 2, 3}, [&](int peer) {
        return contains(plane->peer(peer).network->describeIp(), zone);
      });
      return greet(*plane) + (seen ? "" : ", and addresses lack their zone");
    });
    for (const std::string& said : ranks.results()) EXPECT_EQ(said, "heard 4");
  }
}

// One host has IPv4 alone, the other IPv6.
TEST_F(JoinHosts, AFamilyThatAHostLacksIsNamed) {
  const NetworkHosts hosts(2);
  hosts.run(1, {"ip", "address", "flush", "dev", NetworkHosts::kInterface});
  hosts.run(1, {"ip", "address", "add", "fd00::77:1/64", "dev", NetworkHosts::kInterface, "nodad"});
  BoardProcesses ranks(2, [&](int rank, Board&) {
    hosts.enter(rank);
    ::setenv("TUTTI_JOB_KEY", "a key of enough letters", 1);
    return greet(*joinAs(rank, 2, UniqueId::at(hosts.address(0) + ":29532"),
                         rank == 0 ? 2000ms : std::chrono::milliseconds(kPatience)));
  });
  const std::string said = ranks.results()[1];
  EXPECT_TRUE(contains(said, "this host has no address of IPv4")) << said;
}

// They meet, and one goes by an interface to which another has no way.
TEST_F(JoinHosts, AFamilyThatTheOtherRanksHostLacksIsNamed) {
  const NetworkHosts hosts(2);
  hosts.run(1, {"ip", "address", "add", "fd00::77:1/64", "dev", NetworkHosts::kInterface, "nodad"});
  BoardProcesses ranks(3, [&](int rank, Board&) {
    hosts.enter(rank % 2);
    ::setenv("TUTTI_JOB_KEY", "a key of enough letters", 1);
    if (rank == 1) ::setenv("TUTTI_INTERFACE", "fd00::77:1", 1);
    return greet(*joinAs(rank, 3, UniqueId::at(hosts.address(0) + ":29533")));
  });
  for (const std::string& said : ranks.results())
    for (const char* part : {"rank 2 (", "cannot reach rank 1 (", "[fd00::77:1]:",
                             "this host has no address of IPv6", "TUTTI_INTERFACE"})
      EXPECT_TRUE(contains(said, part)) << part << ": " << said;
}

// What the last rank does to be lost, and what the others say of it.
struct Loss {
  const char* name;
  std::function<void(const NetworkHosts&, BoardProcesses&)> act;
  int64_t withinMs;
  const char* how;
};

TEST_F(JoinHosts, AKilledProcessAndADeadHostAreNoticed) {
  const Loss losses[] = {
      {"kill", [](const NetworkHosts&, BoardProcesses& ranks) { ranks.kill(3, SIGKILL); },
       tests::kDeathNoticedMs, "closed its connection"},
      {"unplugged", [](const NetworkHosts& hosts, BoardProcesses&) { hosts.unplug(1); },
       tests::kHostLossNoticedMs, "its host does not answer"},
  };
  for (const Loss& loss : losses) {
    SCOPED_TRACE(loss.name);
    const NetworkHosts hosts(2);
    BoardProcesses ranks(4, [&](int rank, Board& board) {
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
  BoardProcesses ranks(2, [&](int rank, Board& board) {
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

// Their boot ids and network namespaces are unknown, and so they seem to be the same.
TEST_F(JoinHosts, HostsWithoutProcAreToldApart) {
  const NetworkHosts hosts(2);
  const FakeProc nothing;
  BoardProcesses ranks(4, [&](int rank, Board& board) {
    hosts.enter(rank / 2);
    nothing.mountHere();
    if (rank == 0) board.publish(UniqueId::create());
    const auto plane = joinAs(rank, 4, board.awaitId());
    const bool told = plane->peer(0).bootId == plane->peer(1).bootId &&
                      plane->peer(2).bootId == plane->peer(3).bootId &&
                      plane->peer(0).bootId != plane->peer(2).bootId;
    return greet(*plane) + (told ? "" : ", and hosts are not told apart");
  });
  for (const std::string& said : ranks.results()) EXPECT_EQ(said, "heard 4");
}

// As where every host has a bridge for its containers, of the same address, and goes by that.
TEST_F(JoinHosts, AnAddressThatHostsWithoutProcShareIsNamed) {
  const NetworkHosts hosts(2);
  const FakeProc nothing;
  for (int host : {0, 1}) {
    hosts.run(host, {"ip", "link", "add", "docker0", "type", "bridge"});
    hosts.run(host, {"ip", "address", "add", "172.17.0.1/16", "dev", "docker0"});
    hosts.run(host, {"ip", "link", "set", "docker0", "up"});
  }
  BoardProcesses ranks(2, [&](int rank, Board&) {
    hosts.enter(rank);
    nothing.mountHere();
    ::setenv("TUTTI_INTERFACE", "docker0", 1);
    ::setenv("RANK", std::to_string(rank).c_str(), 1);
    ::setenv("WORLD_SIZE", "2", 1);
    ::setenv("TUTTI_ADDRESS", (hosts.address(0) + ":29517").c_str(), 1);
    ::setenv("TUTTI_JOB_KEY", "a key of enough letters", 1);
    return greet(*join(discover({}), base::Deadline::after(kPatience)));
  });
  for (const std::string& said : ranks.results())
    for (const char* part : {"on another host that has the address of this one, 172.17.0.1:",
                             "TUTTI_INTERFACE, set there"})
      EXPECT_TRUE(contains(said, part)) << part << ": " << said;
}

// It needs no network for that.
TEST_F(JoinHosts, RanksOfAHostWithoutProcJoin) {
  const NetworkHosts hosts(1);
  const FakeProc nothing;
  for (const auto reach : {UniqueId::Reach::Host, UniqueId::Reach::Network}) {
    BoardProcesses ranks(2, [&](int rank, Board& board) {
      hosts.enter(0);
      nothing.mountHere();
      if (rank == 0) board.publish(UniqueId::create(reach));
      const auto plane = joinAs(rank, 2, board.awaitId());
      return greet(*plane) + (plane->peer(0).bootId == plane->peer(1).bootId ? "" : ", as hosts");
    });
    for (const std::string& said : ranks.results()) EXPECT_EQ(said, "heard 2");
  }
}

// As of two virtual machines that are copies of a running one.
TEST_F(JoinHosts, AHostThatSeemsToBeThisOneIsNamed) {
  const NetworkHosts hosts(2);
  const FakeProc copied;
  copied.add("sys/kernel/random/boot_id", "9dc15b5c-5c3f-4a0b-8c3a-6a4d2d0f9a11\n");
  copied.add("self/ns/net", "");
  BoardProcesses ranks(2, [&](int rank, Board& board) {
    hosts.enter(rank);
    copied.mountHere();
    if (rank == 0) board.publish(UniqueId::create());
    return greet(*joinAs(rank, 2, board.awaitId()));
  });
  for (const std::string& said : ranks.results())
    for (const std::string& part :
         {std::string("error system"), std::string("rank 1 ("),
          std::string("cannot reach rank 0 ("),
          std::string("9dc15b5c-5c3f-4a0b-8c3a-6a4d2d0f9a11/net:"), hosts.address(0),
          std::string("seems to be on another host"), std::string("until they are restarted")})
      EXPECT_TRUE(contains(said, part)) << part << ": " << said;
}

/// What two ranks on two hosts say that meet at `rendezvous[rank]`, each with a deadline of its
/// own; rank 0 then listens on `interface`.
std::vector<std::string> joinTwo(const NetworkHosts& hosts, const std::string& interface,
                                 const std::array<std::string, 2>& rendezvous,
                                 std::chrono::milliseconds time = 8s) {
  BoardProcesses ranks(2, [&](int rank, Board&) {
    hosts.enter(rank);
    if (rank == 0 && !interface.empty()) ::setenv("TUTTI_INTERFACE", interface.c_str(), 1);
    ::setenv("RANK", std::to_string(rank).c_str(), 1);
    ::setenv("WORLD_SIZE", "2", 1);
    ::setenv("TUTTI_ADDRESS", rendezvous[static_cast<size_t>(rank)].c_str(), 1);
    ::setenv("TUTTI_JOB_KEY", "a key of enough letters", 1);
    return greet(*join(discover({}), base::Deadline::after(time)));
  });
  return ranks.results();
}
std::vector<std::string> joinTwo(const NetworkHosts& hosts, const std::string& interface) {
  const std::string rendezvous = hosts.address(0) + ":29512";
  return joinTwo(hosts, interface, {rendezvous, rendezvous});
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
  for (const std::string& said : joinTwo(hosts, NetworkHosts::kInterface))
    EXPECT_EQ(said, "heard 2");
  const auto wrong = joinTwo(hosts, "nowhere");
  EXPECT_TRUE(contains(wrong[1], "10.99.0.1")) << wrong[1];
  EXPECT_TRUE(contains(wrong[1], "interface nowhere")) << wrong[1];
  EXPECT_TRUE(contains(wrong[1], "TUTTI_INTERFACE")) << wrong[1];
  // As NCCL's users say it.
  ::setenv("NCCL_SOCKET_IFNAME", "^eth", 1);
  const auto listed = joinTwo(hosts, "");
  ::setenv("NCCL_SOCKET_IFNAME", "=eth", 1);
  const auto unlisted = joinTwo(hosts, "");
  ::unsetenv("NCCL_SOCKET_IFNAME");
  EXPECT_TRUE(contains(listed[1], "interface nowhere")) << listed[1];
  EXPECT_TRUE(contains(unlisted[0], "NCCL_SOCKET_IFNAME==eth allows no interface")) << unlisted[0];
  const auto none = joinTwo(hosts, "eth7");
  EXPECT_TRUE(contains(none[0], "TUTTI_INTERFACE=eth7")) << none[0];
  EXPECT_TRUE(contains(none[0], "eth0 (10.77.0.1)")) << none[0];
}

// The rank that cannot take part comes first, or serves the rendezvous, or both; the last one comes
// when it would be over, had nobody waited to tell it why.
TEST_F(JoinHosts, AnInterfaceThatIsNotThereIsToldToThoseWhoComeLate) {
  const NetworkHosts hosts(3);
  for (const int wrong : {0, 1}) {
    SCOPED_TRACE(wrong);
    BoardProcesses ranks(3, [&](int rank, Board&) {
      hosts.enter(rank);
      if (rank == wrong) ::setenv("TUTTI_INTERFACE", "eth7\x1b[2J", 1);
      ::setenv("RANK", std::to_string(rank).c_str(), 1);
      ::setenv("WORLD_SIZE", "3", 1);
      ::setenv("TUTTI_ADDRESS", (hosts.address(0) + ":29515").c_str(), 1);
      ::setenv("TUTTI_JOB_KEY", "a key of enough letters", 1);
      if (rank != wrong) std::this_thread::sleep_for(rank == 0 ? 300ms : 2500ms);
      return greet(*join(discover({}), base::Deadline::after(kPatience)));
    });
    const auto said = ranks.results();
    for (int rank = 0; rank < 3; ++rank) {
      const std::string who =
          base::message("rank ", wrong, " (pid ", ranks.pid(wrong), " on host n", wrong, "): ");
      for (const std::string& part :
           {std::string("error invalid argument"), rank == wrong ? "" : who,
            std::string("TUTTI_INTERFACE=eth7?[2J is no interface of this host")})
        EXPECT_TRUE(contains(said[rank], part)) << part << ": " << said[rank];
    }
  }
}

// On another host than the rendezvous; only its key makes it one that is believed.
TEST_F(JoinHosts, AMalformedRankIsToldToAllHosts) {
  const NetworkHosts hosts(2);
  BoardProcesses ranks(3, [&](int rank, Board&) {
    hosts.enter(rank / 2);
    ::setenv("RANK", rank == 2 ? "two" : std::to_string(rank).c_str(), 1);
    ::setenv("WORLD_SIZE", "3", 1);
    ::setenv("TUTTI_ADDRESS", (hosts.address(0) + ":29516").c_str(), 1);
    ::setenv("TUTTI_JOB_KEY", "a key of enough letters", 1);
    return greet(*join(discover({}), base::Deadline::after(kPatience)));
  });
  const auto said = ranks.results();
  for (int rank = 0; rank < 3; ++rank) {
    const std::string who = base::message("a rank (pid ", ranks.pid(2), " on host n1): ");
    for (const std::string& part :
         {std::string("error invalid argument"), rank == 2 ? "" : who, std::string("RANK=two is")})
      EXPECT_TRUE(contains(said[rank], part)) << part << ": " << said[rank];
  }
}

/// Gives each host an interface `silent`, whose packets go to a station that is none: nothing
/// answers, and nothing is refused.
void addSilentInterfaces(const NetworkHosts& hosts) {
  for (int host : {0, 1}) {
    const auto address = [](int of) { return base::message("10.67.0.", of + 1); };
    hosts.run(host, {"ip", "link", "add", "silent", "type", "veth", "peer", "name", "end"});
    for (const char* device : {"silent", "end"})
      hosts.run(host, {"ip", "link", "set", device, "up"});
    hosts.run(host, {"ip", "address", "add", address(host) + "/24", "dev", "silent"});
    hosts.run(host, {"ip", "neighbour", "add", address(1 - host), "lladdr", "02:00:00:00:00:01",
                     "dev", "silent", "nud", "permanent"});
  }
}

// The ranks meet by a network that works, and rank 1 cannot connect to rank 0. It takes a deadline,
// whosever passes first: that of the rendezvous, of rank 0 or of rank 1.
TEST_F(JoinHosts, AnInterfaceThatSwallowsEverythingIsNamed) {
  const NetworkHosts hosts(2);
  addSilentInterfaces(hosts);
  for (const char* variable : {"TUTTI_INTERFACE", "NCCL_SOCKET_IFNAME"})
    for (const auto& times : {std::array{2000ms, 2000ms}, {1000ms, 8000ms}, {8000ms, 1000ms}}) {
      BoardProcesses ranks(3, [&](int rank, Board&) {
        hosts.enter(rank / 2);
        ::setenv(variable, "silent", 1);
        ::setenv("TUTTI_RANK", std::to_string(rank).c_str(), 1);
        ::setenv("TUTTI_WORLD_SIZE", "3", 1);
        ::setenv("TUTTI_ADDRESS", (hosts.address(0) + ":29514").c_str(), 1);
        ::setenv("TUTTI_JOB_KEY", "a key of enough letters", 1);
        return greet(*join(discover({}), base::Deadline::after(times[rank / 2])));
      });
      const auto said = ranks.results();
      const std::string chosen = base::message("(interface silent, chosen by ", variable, ")");
      for (int rank = 0; rank < 3; ++rank)
        for (const std::string& part :
             {std::string("error timeout"), base::message("rank ", rank < 2 ? 2 : 0, " (pid "),
              std::string("10.67.0.1:"), chosen, std::string("TUTTI_INTERFACE, set "),
              std::string("names another interface")})
          EXPECT_TRUE(contains(said[rank], part)) << part << ": " << said[rank];
    }
}

// The unique id names that interface's address, so the ranks do not even meet.
TEST_F(JoinHosts, AnIdOfAnInterfaceThatSwallowsEverythingNamesIt) {
  const NetworkHosts hosts(2);
  addSilentInterfaces(hosts);
  BoardProcesses ranks(2, [&](int rank, Board& board) {
    hosts.enter(rank);
    ::setenv("TUTTI_INTERFACE", "silent", 1);
    if (rank == 0) board.publish(UniqueId::create());
    return greet(*joinAs(rank, 2, board.awaitId(), 1500ms));
  });
  const auto said = ranks.results();
  for (const std::string& one : said)
    for (const char* part : {"error timeout", "10.67.0.1:", "TUTTI_INTERFACE, set "})
      EXPECT_TRUE(contains(one, part)) << part << ": " << one;
  EXPECT_TRUE(contains(said[0], "(interface silent, chosen by TUTTI_INTERFACE)")) << said[0];
}

/// An interface of rank 0's, and what both ranks say of it.
struct WrongInterface {
  const char *name, *address, *why;
};

// Nobody is blamed who has done nothing: the address, its interface and the override are named.
TEST_F(JoinHosts, AnAddressThatTheOtherHostHasTooIsNamed) {
  const NetworkHosts hosts(2);
  for (int host : {0, 1}) {
    hosts.run(host, {"ip", "link", "add", "docker0", "type", "bridge"});
    hosts.run(host, {"ip", "address", "add", "172.17.0.1/16", "dev", "docker0"});
    hosts.run(host, {"ip", "link", "set", "docker0", "up"});
    hosts.run(host, {"ip", "address", "add", "10.99.0.1/32", "dev", "lo"});
  }
  const WrongInterface wrong[] = {
      {"docker0", "172.17.0.1:", "this host has that address too"},
      {"lo", "127.0.0.1:", "a loopback address leads to this host itself"},
      {"10.99.0.1", "10.99.0.1:", "this host has that address too"},
  };
  for (const WrongInterface& interface : wrong) {
    SCOPED_TRACE(interface.name);
    for (const std::string& said : joinTwo(hosts, interface.name))
      for (const char* part : {"rank 1 (", "cannot reach rank 0 (", interface.address,
                               interface.why, "TUTTI_INTERFACE"})
        EXPECT_TRUE(contains(said, part)) << part << ": " << said;
  }
  // Where rank 1's host has no such address, nothing leads there.
  hosts.run(1, {"ip", "address", "del", "10.99.0.1/32", "dev", "lo"});
  const std::string said = joinTwo(hosts, "10.99.0.1")[1];
  for (const char* part :
       {"cannot reach rank 0 (", "10.99.0.1:", "Network is unreachable", "TUTTI_INTERFACE"})
    EXPECT_TRUE(contains(said, part)) << part << ": " << said;
}

// A third host has that address, and nothing listens there.
TEST_F(JoinHosts, AnAddressOfAThirdHostIsNamed) {
  const NetworkHosts hosts(3);
  hosts.run(0, {"ip", "address", "add", "10.98.0.1/32", "dev", "lo"});
  hosts.run(2, {"ip", "address", "add", "10.98.0.1/32", "dev", "lo"});
  hosts.run(1, {"ip", "route", "add", "10.98.0.1/32", "via", hosts.address(2)});
  const std::string said = joinTwo(hosts, "10.98.0.1")[1];
  for (const char* part :
       {"cannot reach rank 0 (", "10.98.0.1:", "nobody listens there", "TUTTI_INTERFACE"})
    EXPECT_TRUE(contains(said, part)) << part << ": " << said;
}

// Debian gives a host's name the address 127.0.1.1 on that host.
TEST_F(JoinHosts, ARendezvousOnALoopbackNamesWhatToSet) {
  const NetworkHosts hosts(2);
  const std::string loopback = "127.0.1.1:29513";
  for (const std::string& other : {hosts.address(0) + ":29513", loopback}) {
    const auto said = joinTwo(hosts, "", {loopback, other}, 1500ms);
    for (const std::string& one : said) {
      EXPECT_TRUE(contains(one, "error timeout")) << one;
      EXPECT_TRUE(contains(one, "set TUTTI_ADDRESS=host:port")) << one;
      EXPECT_TRUE(contains(one, "loopback")) << one;
    }
  }
}

// An id is made on host 0, on an interface whose address host 1 has too.
TEST_F(JoinHosts, AnIdOfAnAddressThatTheOtherHostHasTooIsRefusedByName) {
  const NetworkHosts hosts(2);
  BoardProcesses ranks(2, [&](int rank, Board& board) {
    hosts.enter(rank);
    if (rank == 0) {
      ::setenv("TUTTI_INTERFACE", "lo", 1);
      board.publish(UniqueId::create());
    }
    return greet(*joinAs(rank, 2, board.awaitId(), rank == 0 ? 1500ms : 20000ms));
  });
  const auto said = ranks.results();
  EXPECT_TRUE(contains(said[1], "error refused")) << said[1];
  EXPECT_TRUE(contains(said[1], "TUTTI_INTERFACE")) << said[1];
}

}  // namespace
}  // namespace tutti::bootstrap
