// Which interface is chosen among those that are up, by what variables say of it.

#include "src/bootstrap/network_interface.h"

#include <gtest/gtest.h>

namespace tutti::bootstrap {
namespace {

std::vector<InterfaceEntry> machine() {
  const auto entry = [](const char* name, const char* address, bool loopback = false) {
    return InterfaceEntry{{name, wire::resolve(address, 0)}, loopback};
  };
  return {entry("lo", "127.0.0.1", true), entry("docker0", "172.17.0.1"), entry("eth0", "fd00::2"),
          entry("eth0", "192.0.2.2"), entry("eth10", "198.51.100.2")};
}

/// Name and address of the choice, "" for none; the default route goes by eth10.
std::string chosen(const WantedInterface& wanted) {
  const auto found = chooseInterface(machine(), wanted, {}, wire::resolve("198.51.100.2", 0));
  return found ? found->name + " " + found->address.describeIp() : "";
}

TEST(Interface, IsTheNamedOneOrTheOneOfTheDefaultRoute) {
  EXPECT_EQ(chosen({}), "eth10 198.51.100.2");
  EXPECT_EQ(chosen({.one = "eth0"}), "eth0 192.0.2.2");
  EXPECT_EQ(chosen({.one = "fd00::2"}), "eth0 fd00::2");
  EXPECT_EQ(chosen({.one = "eth"}), "");
}

TEST(Interface, IsOneThatTheListAllows) {
  EXPECT_EQ(chosen({.list = "eth"}), "eth10 198.51.100.2");
  EXPECT_EQ(chosen({.list = "ib,docker"}), "docker0 172.17.0.1");
  EXPECT_EQ(chosen({.list = "=eth0"}), "eth0 192.0.2.2");
  EXPECT_EQ(chosen({.list = "^eth10"}), "docker0 172.17.0.1");
  EXPECT_EQ(chosen({.list = "^eth1,docker"}), "eth0 192.0.2.2");
  EXPECT_EQ(chosen({.list = "lo"}), "lo 127.0.0.1");
  EXPECT_EQ(chosen({.list = "ib"}), "");
  EXPECT_EQ(chosen({.one = "docker0", .list = "eth"}), "docker0 172.17.0.1");
}

TEST(Interface, IsLinkLocalOnlyWhereItIsNamedOrInUse) {
  const wire::Address linkLocal = wire::resolve("fe80::2%lo", 0);
  auto up = machine();
  up.insert(up.begin(), {{"eth0", linkLocal}, false});
  up.push_back({{"ib0", wire::resolve("fe80::3%lo", 0)}, false});
  const auto choose = [&](const WantedInterface& wanted,
                          const std::optional<wire::Address>& used = {}) {
    const auto found = chooseInterface(up, wanted, used, {});
    return found ? found->name + " " + found->address.describeIp() : "";
  };
  EXPECT_EQ(choose({.one = "eth0"}), "eth0 192.0.2.2");
  EXPECT_EQ(choose({.one = "fe80::2%lo"}), "eth0 fe80::2%lo");
  EXPECT_EQ(choose({.one = "ib0"}), "ib0 fe80::3%lo");
  EXPECT_EQ(choose({.list = "ib"}), "ib0 fe80::3%lo");
  EXPECT_EQ(choose({}, linkLocal), "eth0 fe80::2%lo");
  EXPECT_EQ(choose({}), "docker0 172.17.0.1");
  up = {{{"lo", wire::resolve("127.0.0.1", 0)}, true}, {{"eth0", linkLocal}, false}};
  EXPECT_EQ(choose({}), "");
}

TEST(Interface, FamiliesThatAreMissingAreNamed) {
  auto up = machine();
  EXPECT_EQ(lackOf(wire::Family::Ipv4, up), "");
  EXPECT_EQ(lackOf(wire::Family::Ipv6, up), "");
  std::erase_if(up, [](const InterfaceEntry& e) {
    return e.interface.address.zone == 0 && e.interface.name == "eth0";
  });
  up.push_back({{"eth0", wire::resolve("fe80::2%lo", 0)}, false});
  EXPECT_EQ(lackOf(wire::Family::Ipv4, up), "");
  EXPECT_TRUE(lackOf(wire::Family::Ipv6, up).starts_with("this host has no address of IPv6"));
  up = {up.front()};
  EXPECT_TRUE(lackOf(wire::Family::Ipv4, up).starts_with("this host has no address of IPv4"));
}

TEST(Interface, ListsAreReadAsNcclReadsThem) {
  EXPECT_TRUE(isListed("eth", "eth0"));
  EXPECT_TRUE(isListed("ib,eth", "eth0"));
  EXPECT_FALSE(isListed("eth1", "eth0"));
  EXPECT_TRUE(isListed("=eth1,eth10", "eth10"));
  EXPECT_FALSE(isListed("=eth1", "eth10"));
  EXPECT_FALSE(isListed("^docker,lo", "docker0"));
  EXPECT_TRUE(isListed("^docker,lo", "eth0"));
  EXPECT_TRUE(isListed("^=eth1", "eth10"));
  EXPECT_FALSE(isListed("^=eth1", "eth1"));
  EXPECT_FALSE(isListed(",", "eth0"));
}

}  // namespace
}  // namespace tutti::bootstrap
