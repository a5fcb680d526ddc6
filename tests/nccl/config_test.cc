// ncclConfig_t of any version, checked, as the settings that have a meaning here.

#include "src/nccl/config.h"

#include <gtest/gtest.h>

#include <climits>
#include <functional>
#include <string>

#include "tests/nccl/refusal.h"

namespace tutti::nccl {
namespace {

ncclConfig_t config(const std::function<void(ncclConfig_t&)>& set = {}) {
  ncclConfig_t made = NCCL_CONFIG_INITIALIZER;
  if (set) set(made);
  return made;
}

TEST(Config, WithoutFieldsIsWhatIsInherited) {
  const NcclConfig inherited{.blocking = false, .name = "parent", .maxBlocks = 7, .byCopies = true};
  const ncclConfig_t none = config();
  for (const ncclConfig_t* given : {static_cast<const ncclConfig_t*>(nullptr), &none}) {
    const NcclConfig read = readConfig(given, inherited);
    EXPECT_FALSE(read.blocking);
    EXPECT_EQ(read.name, "parent");
    EXPECT_EQ(read.maxBlocks, 7);
    EXPECT_TRUE(read.byCopies);
    EXPECT_TRUE(readConfig(given).blocking);
  }
}

TEST(Config, HasWhatItsFieldsSay) {
  const ncclConfig_t given = config([](ncclConfig_t& c) {
    c.blocking = 0;
    c.commName = "name";
    c.maxCTAs = 3;
    c.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  });
  const NcclConfig read = readConfig(&given);
  EXPECT_FALSE(read.blocking);
  EXPECT_EQ(read.name, "name");
  EXPECT_EQ(read.maxBlocks, 3);
  EXPECT_TRUE(read.byCopies);
}

// Whatever lies where later versions have a field.
TEST(Config, OfAnOlderVersionHasNoLaterFields) {
  const ncclConfig_t given = config([](ncclConfig_t& c) {
    c.version = NCCL_VERSION(2, 14, 0);
    c.blocking = 0;
    c.maxCTAs = -9;
    c.splitShare = 77;
    c.CTAPolicy = -1;
    c.commName = reinterpret_cast<const char*>(8);
    c.nvlinkCentricSched = 5;
    c.graphUsageMode = c.numRmaCtx = c.maxP2pPeers = c.graphStreamOrdering = -7;
    c.launchOrderImplicit = c.numRmaSig = c.rmaEagerInit = c.hostCftMode = c.nvlsHostMode = -7;
  });
  const NcclConfig read = readConfig(&given);
  EXPECT_FALSE(read.blocking);
  EXPECT_EQ(read.maxBlocks, 0);
  EXPECT_EQ(read.name, "");
  const ncclConfig_t oldest = config([](ncclConfig_t& c) {
    c.version = NCCL_VERSION(2, 13, 0);
    c.blocking = 42;
  });
  EXPECT_TRUE(readConfig(&oldest).blocking);
}

TEST(Config, OfALaterVersionIsReadAsFarAsItIsKnown) {
  struct {
    ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
    int later = 99;
  } given;
  given.known.size = sizeof given;
  given.known.version = NCCL_VERSION(3, 0, 0);
  given.known.maxCTAs = 5;
  EXPECT_EQ(readConfig(&given.known).maxBlocks, 5);
}

TEST(Config, NotBegunWithTheInitializerIsRefused) {
  const ncclConfig_t zeros{}, without = config([](ncclConfig_t&c) { c.magic = 1; });
  EXPECT_EQ(refusal([&] { readConfig(&zeros); }),
            "invalid argument: the config has size 0: it must begin with NCCL_CONFIG_INITIALIZER");
  EXPECT_EQ(refusal([&] { readConfig(&without); }),
            "invalid argument: the config has no magic number: it must begin with "
            "NCCL_CONFIG_INITIALIZER");
}

TEST(Config, OfACallMayNameAnAlgorithmOfNcclsThatIsNotForced) {
  ncclCollConfig_t call = NCCL_COLLCONFIG_INITIALIZER;
  call.algSelection = "NVLS";
  EXPECT_EQ(refusal([&] { readCallConfig(&call); }),
            "invalid argument: the config's algSelection is NVLS: there are ring and tree");
  call.forceAlgSelection = 0;
  EXPECT_EQ(readCallConfig(&call).algorithm, "");
}

TEST(Config, NamesTheFieldThatIsNoneOfItsValues) {
  const auto refused = [](const std::function<void(ncclConfig_t&)>& set) {
    const ncclConfig_t given = config(set);
    return refusal([&] { readConfig(&given); });
  };
  EXPECT_EQ(refused([](auto& c) { c.blocking = 2; }),
            "invalid argument: the config's blocking is 2, not in 0..1");
  EXPECT_EQ(refused([](auto& c) { c.minCTAs = 0; }),
            "invalid argument: the config's minCTAs is 0, at least 1");
  EXPECT_EQ(refused([](auto& c) { c.minCTAs = 4, c.maxCTAs = 3; }),
            "invalid argument: the config's minCTAs, 4, is more than its maxCTAs, 3");
  EXPECT_EQ(refused([](auto& c) { c.CTAPolicy = 4; }),
            "invalid argument: the config's CTAPolicy is 4, not in 0..3");
  EXPECT_EQ(refused([](auto& c) { c.nChannelsPerNetPeer = 65; }),
            "invalid argument: the config's nChannelsPerNetPeer is 65, not in 1..64");
  EXPECT_EQ(refused([](auto& c) { c.maxCTAs = INT_MAX; }), "accepted");
}

}  // namespace
}  // namespace tutti::nccl
