// The network of the data where it is not that of control, as UCX may have it: when it parts, and
// what is no partition. Ranks are processes, hosts are namespaces of this machine on one switch.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <tutti/tutti.h>

#include "src/base/file_descriptor.h"
#include "tests/support/all_reduce_loop.h"
#include "tests/support/leftovers.h"
#include "tests/support/network_hosts.h"
#include "tests/support/outcome.h"
#include "tests/support/rank_processes.h"
#include "tests/support/with_network_hosts.h"
#include "transports/ucx/probe_responder.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Context = RankProcesses::Context;

using DataNetwork = WithNetworkHosts;

/// In a rank's process: its data goes by the tunnel, its control plane does not.
void enterForTunnel(const NetworkHosts& hosts, int host) {
  enterByUcx(hosts, host);
  ::setenv("UCX_NET_DEVICES", NetworkHosts::kTunnel, 1);
  ::setenv("TUTTI_INTERFACE", NetworkHosts::kInterface, 1);
}

// The control plane has another network, which is whole.
TEST_F(DataNetwork, WhosePartitionIsNamedOnBothSides) {
  const NetworkHosts hosts(2);
  hosts.addTunnel();
  RankProcesses ranks(
      3, [](const Context& context) { return loopAllReduce(context, false, {.timeout = 60s}); },
      [&](int rank) { enterForTunnel(hosts, rank / 2); });
  for (int r = 0; r < 3; ++r) ASSERT_TRUE(ranks.awaitLine(r, "reduces", 30s)) << ranks.output(r);
  const int64_t cut = nowMs();
  hosts.cutTunnel();
  ASSERT_TRUE(ranks.allSucceed(30s));
  for (int rank = 0; rank < 3; ++rank) {
    const std::string out = ranks.output(rank);
    EXPECT_LE(endOfLoop(out) - cut, kHostLossNoticedMs) << out;
    EXPECT_NE(
        out.find(" do not reach each other any more: the latter has not answered at 10.78.0."),
        std::string::npos)
        << out;
    EXPECT_NE(out.find(" goes by tunnel (UCX_NET_DEVICES=tunnel)"), std::string::npos) << out;
  }
}

// Also in one-sided calls.
TEST_F(DataNetwork, WhosePartitionIsNamedInAWaitForSignals) {
  const NetworkHosts hosts(2);
  hosts.addTunnel();
  RankProcesses ranks(
      2,
      [](const Context& context) {
        Communicator c = context.join({.timeout = 60s});
        const Window window = c.window({});
        const AwaitedSignals one{.peer = 1 - c.rank()};
        const Outcome outcome = outcomeOf([&] {
          for (int i = 0;; ++i) {
            if (i < 10) c.signal({.peer = 1 - c.rank()});
            c.waitSignals({.signals = {&one, 1}});
            if (i == 0) context.say("waits");
          }
        });
        sayEnded(context, outcome.code, outcome.text);
        return 0;
      },
      [&](int rank) { enterForTunnel(hosts, rank); });
  for (int r = 0; r < 2; ++r) ASSERT_TRUE(ranks.awaitLine(r, "waits", 30s)) << ranks.output(r);
  const int64_t cut = nowMs();
  hosts.cutTunnel();
  ASSERT_TRUE(ranks.allSucceed(30s));
  for (int rank = 0; rank < 2; ++rank) {
    const std::string out = ranks.output(rank);
    EXPECT_LE(endOfLoop(out) - cut, kHostLossNoticedMs) << out;
    EXPECT_NE(out.find(" do not reach each other any more: "), std::string::npos) << out;
    EXPECT_NE(out.find("noticed during wait for 1 signal of rank "), std::string::npos) << out;
  }
}

// Its kernel has answered for a process that is stopped, and is asked further on.
TEST_F(DataNetwork, OfAStoppedRankMayPartToo) {
  const NetworkHosts hosts(2);
  hosts.addTunnel();
  RankProcesses ranks(
      2, [](const Context& context) { return loopAllReduce(context, false, {.timeout = 60s}); },
      [&](int rank) { enterForTunnel(hosts, rank); });
  for (int r = 0; r < 2; ++r) ASSERT_TRUE(ranks.awaitLine(r, "reduces", 30s)) << ranks.output(r);
  ranks.signal(1, SIGSTOP);
  std::this_thread::sleep_for(3s);
  hosts.cutTunnel();
  EXPECT_EQ(ranks.wait(0, 30s), 0);
  ranks.signal(1, SIGCONT);
  EXPECT_EQ(ranks.wait(1, 30s), 0);
  EXPECT_NE(ranks.output(0).find(" the latter has not answered at 10.78.0.2:"), std::string::npos)
      << ranks.output(0);
}

// A probe that a host has no port for says nothing of who is probed.
TEST_F(DataNetwork, AHostWithoutPortsFindsNothingOut) {
  const NetworkHosts hosts(1);
  RankProcesses ranks(
      1,
      [&](const Context& context) {
        const transports::ucx::ProbeResponder responder({::inet_addr(hosts.address(0).c_str())});
        if (!(std::ofstream("/proc/sys/net/ipv4/ip_local_port_range")
              << "40000 40000" << std::flush))
          return 3;
        const base::FileDescriptor taken(::socket(AF_INET, SOCK_STREAM, 0));
        sockaddr_in last{};
        last.sin_family = AF_INET;
        last.sin_port = ::htons(40000);
        if (::bind(taken.get(), reinterpret_cast<const sockaddr*>(&last), sizeof last) != 0)
          return 2;
        const Outcome outcome = outcomeOf(
            [&] { probeAddress(responder.address(), transports::ReachabilityProbe::Scope::Used); });
        context.say(outcome.text);
        return outcome.code == ErrorCode::System &&
                       outcome.text.find("no connection to 10.77.0.1:") == 0 &&
                       outcome.text.find(std::strerror(EADDRNOTAVAIL)) != std::string::npos
                   ? 0
                   : 1;
      },
      [&](int) { enterByUcx(hosts, 0); });
  EXPECT_TRUE(ranks.allSucceed(30s));
}

// UCX goes by the first address of a device alone. Here host 1's second one leads nowhere from host
// 0, and one is on both hosts, as that of a load balancer.
TEST_F(DataNetwork, MayHaveMoreAddressesOnADevice) {
  const NetworkHosts hosts(2);
  const auto add = [&](int host, const char* address) {
    hosts.run(host, {"ip", "address", "add", address, "dev", NetworkHosts::kInterface});
  };
  add(1, "192.168.77.1/24");
  for (const int host : {0, 1}) add(host, "192.168.88.1/32");
  RankProcesses ranks(
      2,
      [](const Context& context) {
        Communicator c = context.join({.timeout = 30s});
        int x = c.rank() + 1;
        c.allReduce({.send = &x, .recv = &x, .count = 1, .type = DataType::Int32});
        return x == 3 ? 0 : 1;
      },
      [&](int rank) { enterByUcx(hosts, rank); });
  EXPECT_TRUE(ranks.allSucceed(30s));
}

/// Hosts with two more devices each, "data0" and "data1", of which UCX may use both.
class TwoDevices {
 public:
  explicit TwoDevices(int count) : hosts(count), count_(count) {
    for (int host = 0; host < count; ++host)
      for (const int device : {0, 1}) {
        const auto run = [&](const std::vector<std::string>& command) { hosts.run(host, command); };
        run({"ip", "link", "add", "link", NetworkHosts::kInterface, "name", name(device), "type",
             "macvlan", "mode", "bridge"});
        run({"ip", "address", "add", address(device, host) + "/24", "dev", name(device)});
        run({"ip", "link", "set", name(device), "up"});
      }
  }
  /// In a rank's process.
  void enter(int host) const {
    enterByUcx(hosts, host);
    ::setenv("UCX_NET_DEVICES", "data0,data1", 1);
    ::setenv("TUTTI_INTERFACE", NetworkHosts::kInterface, 1);
  }
  /// The one that data goes by.
  int used() const {
    const auto sentBy = [&](int device) {
      return std::stoll(
          hosts.run(0, {"cat", "/sys/class/net/" + name(device) + "/statistics/tx_bytes"}));
    };
    const int used = sentBy(0) > sentBy(1) ? 0 : 1;
    EXPECT_LT(sentBy(1 - used), sentBy(used) / 100);
    return used;
  }
  /// What goes there by this device gets lost from now on.
  void cut(int device) const {
    for (int host = 0; host < count_; ++host)
      for (int other = 0; other < count_; ++other)
        if (other != host)
          hosts.run(host, {"ip", "neighbour", "replace", address(device, other), "lladdr",
                           "02:00:00:00:00:01", "dev", name(device), "nud", "permanent"});
  }
  /// That a rank which has said `out` has named the cut of this device in time.
  static void expectNamed(const std::string& out, int device, int64_t since) {
    EXPECT_LE(endOfLoop(out) - since, kHostLossNoticedMs) << out;
    EXPECT_NE(out.find(" do not reach each other any more: the latter has not answered at " +
                       prefix(device)),
              std::string::npos)
        << out;
  }
  const NetworkHosts hosts;

 private:
  static std::string name(int device) { return "data" + std::to_string(device); }
  static std::string prefix(int device) { return "10." + std::to_string(79 + device) + ".0."; }
  static std::string address(int device, int host) {
    return prefix(device) + std::to_string(host + 1);
  }
  const int count_;
};

// UCX may use two devices and uses one. The other one parts, and later a rank is slow: nothing has
// happened. Then the one that it uses parts.
TEST_F(DataNetwork, MayPartWhereNoDataGoes) {
  const TwoDevices network(2);
  RankProcesses ranks(
      2, [](const Context& context) { return loopAllReduce(context, false); },
      [&](int rank) { network.enter(rank); });
  for (int r = 0; r < 2; ++r) ASSERT_TRUE(ranks.awaitLine(r, "reduces", 30s)) << ranks.output(r);
  std::this_thread::sleep_for(500ms);
  const int used = network.used();
  network.cut(1 - used);
  ranks.signal(1, SIGSTOP);
  std::this_thread::sleep_for(7s);
  ranks.signal(1, SIGCONT);
  std::this_thread::sleep_for(1s);
  EXPECT_EQ(endOfLoop(ranks.output(0)), INT64_MAX) << ranks.output(0);
  const int64_t since = nowMs();
  network.cut(used);
  ASSERT_TRUE(ranks.allSucceed(30s));
  for (int r = 0; r < 2; ++r) TwoDevices::expectNamed(ranks.output(r), used, since);
}

/// Of four ranks; those two apart have a communicator, over which nothing has gone, and call it
/// after two seconds. Says "split" before, "reduced" or "ended", and "over".
int callPairLate(const Context& context) {
  Communicator world = context.join({.timeout = 60s, .algorithm = "ring"});
  std::vector<float> x(4096);
  const auto reduce = [&](Communicator& c, size_t count) {
    c.allReduce({.send = x.data(), .recv = x.data(), .count = count});
  };
  for (int i = 0; i < 20; ++i) reduce(world, x.size());
  Communicator pair = *world.split(world.rank() % 2, world.rank());
  context.say("split");
  std::this_thread::sleep_for(2s);
  try {
    reduce(pair, 16);
    context.say("reduced");
  } catch (const Error& e) {
    sayEnded(context, e.code(), e.what());
  }
  context.say("over");
  while (true) ::pause();  // until the others are through, too
}

// A connection that is being made tells by which of two devices data would go. UCX chooses one for
// each pair, so that some pairs may go by the whole one.
TEST_F(DataNetwork, MayPartBeforeAPairsFirstConnection) {
  constexpr int kRanks = 4;
  int named = 0;
  for (int attempt = 0; attempt < 6 && named == 0; ++attempt) {
    const TwoDevices network(kRanks);
    RankProcesses ranks(kRanks, callPairLate, [&](int rank) { network.enter(rank); });
    for (int r = 0; r < kRanks; ++r)
      ASSERT_TRUE(ranks.awaitLine(r, "split", 30s)) << ranks.output(r);
    const int device = attempt % 2;
    network.cut(device);
    const int64_t called = nowMs() + 2000;
    for (int r = 0; r < kRanks; ++r)
      ASSERT_TRUE(ranks.awaitLine(r, "over", 60s)) << ranks.output(r);
    for (int r = 0; r < kRanks; ++r) {
      if (ranks.output(r).find("reduced") != std::string::npos) continue;
      ++named;
      TwoDevices::expectNamed(ranks.output(r), device, called);
    }
  }
  EXPECT_GT(named, 0);
}

}  // namespace
}  // namespace tutti::tests
