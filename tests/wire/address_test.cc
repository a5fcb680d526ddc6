// Addresses as values: zones of link-local ones, what they look like, and what others are told.

#include "src/wire/address.h"

#include <gtest/gtest.h>
#include <net/if.h>

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

}  // namespace
}  // namespace tutti::wire
