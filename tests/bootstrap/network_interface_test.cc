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
