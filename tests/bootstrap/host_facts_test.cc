// Which processes count as of one host.

#include "src/bootstrap/host_facts.h"

#include <gtest/gtest.h>

#include <array>

namespace tutti::bootstrap {
namespace {

const std::array kAddresses = {wire::resolve("10.0.0.1", 0), wire::resolve("10.0.0.2", 0)};
constexpr const char* kBootId = "9dc15b5c-5c3f-4a0b-8c3a-6a4d2d0f9a11";

TEST(HostId, OfAKnownHostDoesNotDependOnTheInterfaceThatARankUses) {
  const HostFacts facts{.bootId = kBootId, .networkNamespace = 4026531840};
  EXPECT_EQ(hostId(facts, kAddresses[0]), hostId(facts, kAddresses[1]));
  EXPECT_EQ(hostId(facts, kAddresses[0]), hostId(facts, {}));
  EXPECT_NE(hostId(facts, {}), hostId({facts.bootId, 4026531841}, {}));
  EXPECT_NE(hostId(facts, {}), hostId({"0" + facts.bootId, facts.networkNamespace}, {}));
}

TEST(HostId, WhereAFactIsUnknownHostsOfTwoAddressesDiffer) {
  for (const HostFacts& facts : {HostFacts{"unknown", 0}, {kBootId, 0}, {"unknown", 4026531840}}) {
    EXPECT_NE(hostId(facts, kAddresses[0]), hostId(facts, kAddresses[1])) << hostId(facts, {});
    EXPECT_EQ(hostId(facts, kAddresses[0]), hostId(facts, kAddresses[0]));
    EXPECT_EQ(hostId(facts, {}), hostId(facts, {}));  // they meet at a Unix socket
  }
}

TEST(HostId, OfThisProcessIsWhatTheKernelSays) {
  const HostFacts facts = readHostFacts();
  EXPECT_NE(facts.bootId, "unknown");
  EXPECT_NE(facts.networkNamespace, 0u);
  EXPECT_EQ(describeThisProcess().bootId, hostId(facts, {}));
}

}  // namespace
}  // namespace tutti::bootstrap
