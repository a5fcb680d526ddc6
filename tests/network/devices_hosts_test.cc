// Which devices carry data between hosts: one that leads nowhere, or to others, is named at set-up
// by all ranks.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include <tutti/tutti.h>

#include "tests/support/leftovers.h"
#include "tests/support/network_hosts.h"
#include "tests/support/outcome.h"
#include "tests/support/rank_processes.h"
#include "tests/support/with_network_hosts.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Context = RankProcesses::Context;
using Placement = std::vector<int>;  // the host of each rank

using Hosts = WithNetworkHosts;

/// What an error says of the devices of a rank.
std::string goesBy(int rank, const std::string& devices) {
  return "rank " + std::to_string(rank) + " goes by " + devices;
}

/// That all of `size` ranks say all of `parts`.
void expectSaidByAll(RankProcesses& ranks, int size, const std::vector<std::string>& parts) {
  for (int rank = 0; rank < size; ++rank)
    for (const std::string& part : parts)
      EXPECT_NE(ranks.output(rank).find(part), std::string::npos)
          << part << " of rank " << rank << ": " << ranks.output(rank);
}

// Row 22 of what carries the data: all ranks hear of it at set-up, and of the devices of both ends.
// Nobody answers on a loopback; where a cable leads nowhere it takes the set-up's
// deadline.
TEST_F(Hosts, ADeviceThatLeadsNowhereIsNamedAtSetUp) {
  const NetworkHosts hosts(2);
  for (int host = 0; host < 2; ++host) {
    hosts.run(host, {"ip", "link", "add", "aside", "type", "veth", "peer", "name", "end"});
    for (const char* device : {"aside", "end"})
      hosts.run(host, {"ip", "link", "set", device, "up"});
    hosts.run(host,
              {"ip", "address", "add", "10.66." + std::to_string(host) + ".1/24", "dev", "aside"});
  }
  for (const std::string device : {"lo", "aside"}) {
    RankProcesses ranks(
        3,
        [&](const Context& context) {
          const Outcome outcome = outcomeOf([&] { context.join({.setupTimeout = 8s}); });
          context.say(std::string(toString(outcome.code)) + ": " + outcome.text);
          return outcome.code == ErrorCode::PeerLost || outcome.code == ErrorCode::Timeout ? 0 : 1;
        },
        [&](int rank) {
          enterByUcx(hosts, rank / 2);
          ::setenv("UCX_NET_DEVICES", device.c_str(), 1);
        });
    ASSERT_TRUE(ranks.allSucceed(30s)) << device;
    expectSaidByAll(ranks, 3, {goesBy(2, device + " (UCX_NET_DEVICES=" + device + ")")});
  }
}

// Where nothing answers and nothing is refused it takes the deadline, also where the message of
// UCX's own alone can show it, because nobody else may have ports.
TEST_F(Hosts, ADeviceThatSwallowsEverythingIsNamedAtSetUp) {
  const NetworkHosts hosts(2);
  for (int host = 0; host < 2; ++host) {
    const std::string other = "10.67.0." + std::to_string(2 - host);
    hosts.run(host, {"ip", "link", "add", "silent", "type", "veth", "peer", "name", "end"});
    for (const char* device : {"silent", "end"})
      hosts.run(host, {"ip", "link", "set", device, "up"});
    hosts.run(host, {"ip", "address", "add", "10.67.0." + std::to_string(host + 1) + "/24", "dev",
                     "silent"});
    hosts.run(host, {"ip", "neighbour", "add", other, "lladdr", "02:00:00:00:00:01", "dev",
                     "silent", "nud", "permanent"});
  }
  for (const std::string ports : {"", "20000-20099"}) {
    RankProcesses ranks(
        2,
        [&](const Context& context) {
          const Outcome outcome = outcomeOf([&] { context.join({.setupTimeout = 3s}); });
          context.say(outcome.text);
          return outcome.code == ErrorCode::Timeout ? 0 : 1;
        },
        [&](int rank) {
          enterByUcx(hosts, rank);
          ::setenv("UCX_NET_DEVICES", "silent", 1);
          if (!ports.empty()) ::setenv("UCX_TCP_PORT_RANGE", ports.c_str(), 1);
        });
    ASSERT_TRUE(ranks.allSucceed(30s)) << ports;
    for (const int rank : {0, 1})
      expectSaidByAll(ranks, 2,
                      {ports.empty() ? "waiting for an answer of" : "waiting for a message of",
                       goesBy(rank, "silent (UCX_NET_DEVICES=silent)")});
  }
}

/// Of these ranks `wrong` alone has `device` for UCX, by `variable`: all name it, its host, its
/// setting, and `why`, also those that go by the right device and notice first.
void expectNamedByAll(const NetworkHosts& hosts, const Placement& placement, int wrong,
                      const std::string& device, const std::string& why,
                      ErrorCode code = ErrorCode::PeerLost,
                      const std::string& variable = "UCX_NET_DEVICES") {
  const int size = static_cast<int>(placement.size());
  const auto hostOf = [&](int rank) { return placement[static_cast<size_t>(rank)]; };
  RankProcesses ranks(
      size,
      [&](const Context& context) {
        const Outcome outcome = outcomeOf([&] { context.join({.setupTimeout = 8s}); });
        context.say(outcome.text);
        return outcome.code == code ? 0 : 1;
      },
      [&](int rank) {
        enterByUcx(hosts, hostOf(rank));
        if (rank == wrong) ::setenv(variable.c_str(), device.c_str(), 1);
      });
  ASSERT_TRUE(ranks.allSucceed(30s)) << wrong;
  expectSaidByAll(ranks, size,
                  {"rank " + std::to_string(wrong) + " (pid " + std::to_string(ranks.pid(wrong)) +
                       " on host " + hosts.name(hostOf(wrong)) + ")",
                   goesBy(wrong, device + " (" + variable + "=" + device + ")"), why});
}

// Hosts of two, three and one ranks, whichever it is.
TEST_F(Hosts, ARankWithAWrongDeviceOfItsOwnIsNamedAtSetUp) {
  const NetworkHosts hosts(3);
  for (const int wrong : {1, 4, 5})
    expectNamedByAll(hosts, {0, 0, 1, 1, 1, 2}, wrong, "lo", " it is not reached at 127.0.0.1:");
}

/// A device of this name and address on a host.
void addDevice(const NetworkHosts& hosts, int host, const std::string& name,
               const std::string& address) {
  const std::string end = name + "-end";
  hosts.run(host, {"ip", "link", "add", name, "type", "veth", "peer", "name", end});
  for (const std::string& device : {name, end})
    hosts.run(host, {"ip", "link", "set", device, "up"});
  hosts.run(host, {"ip", "address", "add", address, "dev", name});
}

// As where every host has a bridge for its containers, of the same address: to the others that
// leads to themselves, and all say so before UCX connects.
TEST_F(Hosts, ADeviceWhoseAddressOthersHaveIsNamedAtSetUp) {
  const NetworkHosts hosts(3);
  for (int host = 0; host < 3; ++host) addDevice(hosts, host, "same", "172.17.0.1/16");
  for (const int wrong : {0, 1, 2})
    expectNamedByAll(hosts, {0, 1, 2}, wrong, "same",
                     " (Connection refused), an address that this host has, too");
}

// To its neighbours it is the address of a bystander, or of nobody.
TEST_F(Hosts, ADeviceThatIsRefusedIsNamedAtSetUp) {
  const NetworkHosts hosts(5);
  hosts.run(2, {"sh", "-c", "echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore"});
  addDevice(hosts, 2, "taken", hosts.address(4) + "/32");
  addDevice(hosts, 2, "aside", "10.69.0.1/24");
  const auto expectNamed = [&](const std::string& device, const std::string& why) {
    SCOPED_TRACE(device + why);
    expectNamedByAll(hosts, {0, 1, 2, 3}, 2, device, why);
  };
  expectNamed("taken", " it is not reached at " + hosts.address(4) + ":");
  expectNamed("aside", " (Network is unreachable)");
  expectNamed("aside,eth0", " (Network is unreachable)");
  const auto route = [&](const std::string& change, const std::string& kind) {
    for (const int host : {0, 1, 3}) hosts.run(host, {"ip", "route", change, kind, "10.69.0.0/24"});
  };
  for (const auto& [kind, why] : {std::pair{"unreachable", " (No route to host)"},
                                  {"prohibit", " (Permission denied)"},
                                  {"blackhole", " (Invalid argument)"}}) {
    route("add", kind);
    expectNamed("aside", why);
    route("delete", kind);
  }
}

// To the last rank nobody connects by the control plane.
TEST_F(Hosts, ADeviceThatAnInterfaceHasChosenIsNamedWithItsVariable) {
  const NetworkHosts hosts(3);
  addDevice(hosts, 2, "aside", "10.69.0.1/24");
  for (const char* variable : {"TUTTI_INTERFACE", "NCCL_SOCKET_IFNAME"})
    expectNamedByAll(hosts, {0, 1, 2}, 2, "aside", " at 10.69.0.1:", ErrorCode::PeerLost, variable);
}

// Where one other host alone finds no way to it, the next one, the one before, or one that is two
// away.
TEST_F(Hosts, ADeviceThatOneHostDoesNotReachIsNamedAtSetUp) {
  for (const int lost : {0, 1, 3}) {
    const NetworkHosts hosts(4);
    addDevice(hosts, 2, "second", "10.77.0.99/32");
    hosts.run(lost, {"ip", "route", "add", "unreachable", "10.77.0.99"});
    SCOPED_TRACE(lost);
    expectNamedByAll(hosts, {0, 1, 2, 3}, 2, "second", " (No route to host)");
  }
}

// Host 4 does not ask host 1, and waits for others who do.
TEST_F(Hosts, ADeviceThatIsSilentIsNamedAtSetUpByThoseWhoWaitForOthers) {
  const NetworkHosts hosts(6);
  addDevice(hosts, 1, "silent", "10.77.0.99/32");
  for (const int host : {0, 2, 3, 4, 5})
    hosts.run(host, {"ip", "neighbour", "add", "10.77.0.99", "lladdr", "02:00:00:00:00:01", "dev",
                     NetworkHosts::kInterface, "nud", "permanent"});
  expectNamedByAll(hosts, {0, 0, 1, 2, 3, 4, 5}, 2, "silent",
                   " at 10.77.0.99:", ErrorCode::Timeout);
}

// What UCX does not have on a rank's host, or may not use there: it says so before it is asked to
// send, with what there is. To UCX a variable that is set and empty names nothing.
TEST_F(Hosts, ARankWithoutADeviceIsNamedAtSetUp) {
  const NetworkHosts hosts(2);
  hosts.run(1, {"ip", "link", "add", "off", "type", "veth", "peer", "name", "end"});
  hosts.run(1, {"ip", "address", "add", "10.68.0.1/24", "dev", "off"});
  const struct {
    const char* variable;
    std::string value, end;
  } settings[] = {{"UCX_NET_DEVICES", "nosuch", ";"},
                  {"UCX_NET_DEVICES", "off", ";"},
                  {"UCX_NET_DEVICES", "", ";"},
                  {"UCX_TLS", "sm", " and device eth0;"},
                  {"UCX_TLS", "nosuch", " and device eth0;"},
                  {"UCX_TLS", "", " and device eth0;"}};
  for (const auto& [variable, value, end] : settings) {
    RankProcesses ranks(
        3,
        [&](const Context& context) {
          const Outcome outcome = outcomeOf([&] { context.join({.setupTimeout = 60s}); });
          context.say(outcome.text);
          return outcome.code == ErrorCode::System ? 0 : 1;
        },
        [&, name = variable, to = value](int rank) {
          enterByUcx(hosts, rank == 0 ? 0 : 1);
          if (rank == 1) ::setenv(name, to.c_str(), 1);
        });
    ASSERT_TRUE(ranks.allSucceed(30s)) << variable << "=" << value;
    expectSaidByAll(ranks, 3,
                    {"rank 1 (pid " + std::to_string(ranks.pid(1)) + " on host " + hosts.name(1) +
                         "): UCX finds",
                     std::string(" for ") + variable + "=" + value + end,
                     "; without settings it has here ", "eth0"});
  }
}

}  // namespace
}  // namespace tutti::tests
