// Addresses as values: zones of link-local ones, what they look like, and what others are told.

#include "src/wire/address.h"

#include <gtest/gtest.h>
#include <net/if.h>

#include <algorithm>
#include <string>

#include "src/base/check.h"
#include "tests/support/text.h"

namespace tutti::wire {
namespace {

using tests::contains;

std::string refusalOf(const std::string& host) {
  try {
    return "resolved to " + resolve(host, 80).describe();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    return error.what();
  }
}

TEST(Addresses, ThatAreLinkLocalHaveAZone) {
  const uint32_t loopback = ::if_nametoindex("lo");
  ASSERT_NE(loopback, 0U);
  const Address named = resolve("fe80::1%lo", 80);
  EXPECT_EQ(named.zone, loopback);
  EXPECT_EQ(named.describe(), "[fe80::1%lo]:80");
  EXPECT_EQ(named.describeIp(), "fe80::1%lo");
  EXPECT_EQ(resolve("fe80::1%" + std::to_string(loopback), 80), named);
  EXPECT_TRUE(isLinkLocal(named) && valid(named));
  for (const char* other : {"fd00::1", "::1", "127.0.0.1", "169.254.0.1"}) {
    EXPECT_EQ(resolve(other, 80).zone, 0U);
    EXPECT_FALSE(isLinkLocal(resolve(other, 80)));
  }
  Address wrong = resolve("fd00::1", 80);
  wrong.zone = loopback;
  EXPECT_FALSE(valid(wrong));
}

TEST(Addresses, WhoseZoneIsMissingOrUnknownAreRefusedWithTheInterfaces) {
  const std::string missing = refusalOf("fe80::1"), unknown = refusalOf("fe80::1%no\x1bsuch");
  EXPECT_TRUE(contains(missing, "host fe80::1 is a link-local address") &&
              contains(missing, "write fe80::1%INTERFACE, one of lo"))
      << missing;
  EXPECT_TRUE(contains(unknown, "no?such is no interface of this host, which has lo")) << unknown;
}

// It has a meaning on this host alone.
TEST(Addresses, ZonesAreToldToNobody) {
  const Address own = resolve("fe80::1%lo", 80);
  base::ByteWriter out;
  write(out, own);
  const base::Bytes bytes = out.take();
  base::ByteReader in(bytes);
  const Address told = readAddress(in);
  EXPECT_EQ(told.zone, 0U);
  EXPECT_EQ(told.describe(), "[fe80::1]:80");
  EXPECT_EQ(seenFrom(told, own), own);
  EXPECT_EQ(seenFrom(resolve("fd00::1", 80), own), resolve("fd00::1", 80));
}

Address named(const std::string& name) {
  Address address;
  std::copy(name.begin(), name.end(), address.name.begin());
  return address;
}

/// `address` with one byte of its IP address changed.
Address withIpByte(Address address, size_t at) {
  address.ip[at] ^= std::byte{1};
  return address;
}

// So that two addresses are equal if they lead to the same place, and an address has one spelling.
TEST(Addresses, AreValidWithoutBytesThatMeanNothing) {
  const Address ipv4 = resolve("10.0.0.1", 4711), ipv6 = resolve("fd00::1", 4711);
  for (const Address& good : {randomUnixAddress(), derivedUnixAddress("seed"), ipv4, ipv6})
    EXPECT_TRUE(valid(good)) << good.describe();
  EXPECT_TRUE(valid(withIpByte(ipv4, 3)));
  EXPECT_TRUE(valid(withIpByte(ipv6, 4)));
  for (size_t at = 4; at < ipv4.ip.size(); ++at) EXPECT_FALSE(valid(withIpByte(ipv4, at))) << at;
  EXPECT_FALSE(valid(withIpByte(randomUnixAddress(), 0)));
  EXPECT_FALSE(valid(Address{})) << "no name";
  EXPECT_FALSE(valid(resolve("10.0.0.1", 0))) << "no port";
  EXPECT_FALSE(valid(named(std::string("a\0b", 3)))) << "something behind the name";
  EXPECT_TRUE(valid(named(std::string(Address::kNameBytes, 'a')))) << "a name that fills the field";
  Address both = ipv4;
  both.name.back() = 'a';
  EXPECT_FALSE(valid(both));
  both = randomUnixAddress();
  both.port = 1;
  EXPECT_FALSE(valid(both));
  both.family = static_cast<Family>(9);
  EXPECT_FALSE(valid(both));
}

TEST(Addresses, AreToldWithoutControlCharacters) {
  EXPECT_EQ(named("tutti-a").describe(), "Unix socket @tutti-a");
  EXPECT_EQ(named("a\x1b[2J").describe().find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace tutti::wire
