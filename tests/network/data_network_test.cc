// The network of the data where it is not that of control: when it parts, and what is no partition.
// Ranks are processes, hosts are namespaces of this machine on one switch.

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include <tutti/tutti.h>

#include "tests/support/all_reduce_loop.h"
#include "tests/support/leftovers.h"
#include "tests/support/network_hosts.h"
#include "tests/support/rank_processes.h"
#include "tests/support/with_network_hosts.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Context = RankProcesses::Context;

using DataNetwork = WithNetworkHosts;

// The control plane has another network, which is whole.
TEST_F(DataNetwork, WhosePartitionIsNamedOnBothSides) {
  const NetworkHosts hosts(2);
  hosts.addTunnel();
  RankProcesses ranks(
      3, [](const Context& context) { return loopAllReduce(context, false, {.timeout = 60s}); },
      [&](int rank) {
        hosts.enter(rank / 2);
        ::setenv("UCX_NET_DEVICES", NetworkHosts::kTunnel, 1);
        ::setenv("TUTTI_INTERFACE", NetworkHosts::kInterface, 1);
      });
  for (int r = 0; r < 3; ++r) ASSERT_TRUE(ranks.awaitLine(r, "reduces", 30s)) << ranks.output(r);
  const int64_t cut = nowMs();
  hosts.cutTunnel();
  ASSERT_TRUE(ranks.allSucceed(30s));
  for (int rank = 0; rank < 3; ++rank) {
    const std::string out = ranks.output(rank);
    EXPECT_LE(endOfLoop(out) - cut, kHostLossNoticedMs) << out;
    EXPECT_NE(out.find(" do not reach each other any more: nothing has answered at 10.78.0."),
              std::string::npos)
        << out;
    EXPECT_NE(out.find(" goes by tunnel (UCX_NET_DEVICES=tunnel)"), std::string::npos) << out;
  }
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
      [&](int rank) { hosts.enter(rank); });
  EXPECT_TRUE(ranks.allSucceed(30s));
}

// UCX may use two devices and uses one. The other one parts, and later a rank is slow: nothing has
// happened. Then the one that it uses parts.
TEST_F(DataNetwork, MayPartWhereNoDataGoes) {
  const NetworkHosts hosts(2);
  const std::string devices[] = {"data0", "data1"};
  const auto address = [](int device, int host) {
    return "10." + std::to_string(79 + device) + ".0." + std::to_string(host + 1);
  };
  for (const int host : {0, 1})
    for (const int device : {0, 1}) {
      const auto run = [&](const std::vector<std::string>& command) { hosts.run(host, command); };
      run({"ip", "link", "add", "link", NetworkHosts::kInterface, "name", devices[device], "type",
           "macvlan", "mode", "bridge"});
      run({"ip", "address", "add", address(device, host) + "/24", "dev", devices[device]});
      run({"ip", "link", "set", devices[device], "up"});
    }
  RankProcesses ranks(
      2, [](const Context& context) { return loopAllReduce(context, false); },
      [&](int rank) {
        hosts.enter(rank);
        ::setenv("UCX_NET_DEVICES", "data0,data1", 1);
        ::setenv("TUTTI_INTERFACE", NetworkHosts::kInterface, 1);
      });
  for (int r = 0; r < 2; ++r) ASSERT_TRUE(ranks.awaitLine(r, "reduces", 30s)) << ranks.output(r);
  std::this_thread::sleep_for(500ms);
  const auto sentBy = [&](int device) {
    return std::stoll(
        hosts.run(0, {"cat", "/sys/class/net/" + devices[device] + "/statistics/tx_bytes"}));
  };
  const int unused = sentBy(0) > sentBy(1) ? 1 : 0;
  ASSERT_LT(sentBy(unused), sentBy(1 - unused) / 100);
  const auto cut = [&](int device) {
    for (const int host : {0, 1})
      hosts.run(host, {"ip", "neighbour", "replace", address(device, 1 - host), "lladdr",
                       "02:00:00:00:00:01", "dev", devices[device], "nud", "permanent"});
  };
  cut(unused);
  ranks.signal(1, SIGSTOP);
  std::this_thread::sleep_for(7s);
  ranks.signal(1, SIGCONT);
  std::this_thread::sleep_for(1s);
  EXPECT_EQ(endOfLoop(ranks.output(0)), INT64_MAX) << ranks.output(0);
  const int64_t since = nowMs();
  cut(1 - unused);
  ASSERT_TRUE(ranks.allSucceed(30s));
  for (int r = 0; r < 2; ++r) {
    const std::string out = ranks.output(r), place = address(1 - unused, 0);
    EXPECT_LE(endOfLoop(out) - since, kHostLossNoticedMs) << out;
    EXPECT_NE(out.find("nothing has answered at " + place.substr(0, place.size() - 1)),
              std::string::npos)
        << out;
  }
}

}  // namespace
}  // namespace tutti::tests
