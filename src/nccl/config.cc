#include "src/nccl/config.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "src/base/check.h"
#include "src/base/printable.h"
#include "src/nccl/environment.h"

namespace tutti::nccl {
namespace {

/// Of signals, and of contexts: each pair of ranks has a counter for each.
constexpr int kMostRma = 256;

std::atomic<bool> timeoutIsKnown{false};

/// Fields of later versions than the caller's are undefined, whatever lies there: in some versions
/// it was padding.
void forgetLaterFields(ncclConfig_t& c) {
  const unsigned version = c.version;
  const auto unset = [](auto&... fields) { ((fields = NCCL_CONFIG_UNDEF_INT), ...); };
  if (version < NCCL_VERSION(2, 14, 0)) unset(c.blocking);
  if (version < NCCL_VERSION(2, 17, 0)) {
    unset(c.cgaClusterSize, c.minCTAs, c.maxCTAs);
    c.netName = nullptr;
  }
  if (version < NCCL_VERSION(2, 18, 0)) unset(c.splitShare);
  if (version < NCCL_VERSION(2, 25, 0)) unset(c.trafficClass);
  if (version < NCCL_VERSION(2, 27, 0)) {
    unset(c.collnetEnable, c.CTAPolicy, c.shrinkShare, c.nvlsCTAs);
    c.commName = nullptr;
  }
  if (version < NCCL_VERSION(2, 28, 0)) unset(c.nChannelsPerNetPeer, c.nvlinkCentricSched);
  if (version < NCCL_VERSION(2, 29, 0)) unset(c.graphUsageMode, c.numRmaCtx);
  if (version < NCCL_VERSION(2, 30, 0)) unset(c.maxP2pPeers);
  if (version < NCCL_VERSION(2, 30, 5)) unset(c.graphStreamOrdering);
  if (version < NCCL_VERSION(2, 31, 0))
    unset(c.launchOrderImplicit, c.numRmaSig, c.rmaEagerInit, c.hostCftMode);
  if (version < NCCL_VERSION(2, 32, 0)) unset(c.nvlsHostMode);
}

ncclConfig_t copy(const ncclConfig_t& given) {
  ncclConfig_t c = NCCL_CONFIG_INITIALIZER;
  copyKnown(&given, c, "NCCL_CONFIG_INITIALIZER");
  if (c.version >= NCCL_VERSION(2, 30, 3)) timeoutIsKnown.store(true);
  forgetLaterFields(c);
  return c;
}

void requireRange(const char* field, int value, int least, int most = INT_MAX) {
  TUTTI_REQUIRE(value == NCCL_CONFIG_UNDEF_INT || (value >= least && value <= most),
                "the config's ", field, " is ", value,
                most == INT_MAX ? ", at least " : ", not in ", least,
                most == INT_MAX ? "" : base::message("..", most));
}

constexpr int kLastPolicy = NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO;

/// How many blocks a call has at most that a policy is for; 0: all. Those of EFFICIENCY are not
/// measured.
int blocksBy(int policy) {
  constexpr int kOfEfficiency = 8;
  if (policy & NCCL_CTA_POLICY_ZERO) return 1;
  return policy & NCCL_CTA_POLICY_EFFICIENCY ? kOfEfficiency : 0;
}

void requireOrder(int minCTAs, int maxCTAs) {
  TUTTI_REQUIRE(
      minCTAs == NCCL_CONFIG_UNDEF_INT || maxCTAs == NCCL_CONFIG_UNDEF_INT || minCTAs <= maxCTAs,
      "the config's minCTAs, ", minCTAs, ", is more than its maxCTAs, ", maxCTAs);
}

void check(const ncclConfig_t& c) {
  requireRange("blocking", c.blocking, 0, 1);
  requireRange("cgaClusterSize", c.cgaClusterSize, 0);
  requireRange("minCTAs", c.minCTAs, 1);
  requireRange("maxCTAs", c.maxCTAs, 1);
  requireOrder(c.minCTAs, c.maxCTAs);
  requireRange("splitShare", c.splitShare, 0, 1);
  requireRange("collnetEnable", c.collnetEnable, 0, 1);
  requireRange("CTAPolicy", c.CTAPolicy, 0, kLastPolicy);
  requireRange("shrinkShare", c.shrinkShare, 0, 1);
  requireRange("nvlsCTAs", c.nvlsCTAs, 1);
  requireRange("nChannelsPerNetPeer", c.nChannelsPerNetPeer, 1, 64);
  requireRange("nvlinkCentricSched", c.nvlinkCentricSched, 0, 1);
  requireRange("graphUsageMode", c.graphUsageMode, 0, 2);
  requireRange("numRmaCtx", c.numRmaCtx, 0, kMostRma);
  requireRange("maxP2pPeers", c.maxP2pPeers, 1);
  requireRange("graphStreamOrdering", c.graphStreamOrdering, 0, 1);
  requireRange("launchOrderImplicit", c.launchOrderImplicit, 0, 1);
  requireRange("numRmaSig", c.numRmaSig, 0, kMostRma);
  requireRange("rmaEagerInit", c.rmaEagerInit, 0, 1);
  requireRange("hostCftMode", c.hostCftMode, ncclHostCftEnable, ncclHostCftFallback);
  TUTTI_REQUIRE(c.nvlsHostMode == NCCL_CONFIG_UNDEF_INT || c.nvlsHostMode == INT_MAX ||
                    (c.nvlsHostMode >= 0 && c.nvlsHostMode <= 3),
                "the config's nvlsHostMode is ", c.nvlsHostMode,
                ", not a sum of ncclNvlsHostMode_t");
}

/// The names that NCCL and Tutti have for the algorithms of both. Another one that is not forced is
/// left to the library.
std::string algorithmOf(const char* selection, bool forced) {
  const std::string name = selection ? selection : "";
  if (name.empty()) return "";
  const std::string known = algorithmNamed(name);
  TUTTI_REQUIRE(!known.empty() || !forced, "the config's algSelection is ", base::printable(name),
                ": there are ring and tree");
  return known;
}

}  // namespace

NcclConfig readConfig(const ncclConfig_t* given, const NcclConfig& inherited) {
  NcclConfig config = inherited;
  if (given) {
    const ncclConfig_t c = copy(*given);
    check(c);
    if (c.blocking != NCCL_CONFIG_UNDEF_INT) config.blocking = c.blocking == 1;
    if (c.commName) config.name = c.commName;
    if (c.maxCTAs != NCCL_CONFIG_UNDEF_INT) config.maxBlocks = c.maxCTAs;
    if (c.CTAPolicy != NCCL_CONFIG_UNDEF_INT) {
      config.byCopies = (c.CTAPolicy & NCCL_CTA_POLICY_ZERO) != 0;
      config.policyBlocks = blocksBy(c.CTAPolicy & ~NCCL_CTA_POLICY_ZERO);
    }
    if (c.numRmaCtx != NCCL_CONFIG_UNDEF_INT) config.rmaContexts = c.numRmaCtx;
    if (c.numRmaSig != NCCL_CONFIG_UNDEF_INT) config.rmaSignals = c.numRmaSig;
  }
  config.blocking = environment().blocking.value_or(config.blocking);
  config.maxBlocks = environment().maxBlocks.value_or(config.maxBlocks);
  return config;
}

NcclCallConfig readCallConfig(const ncclCollConfig_t* given) {
  NcclCallConfig config;
  if (!given) return config;
  ncclCollConfig_t c = NCCL_COLLCONFIG_INITIALIZER;
  copyKnown(given, c, "NCCL_COLLCONFIG_INITIALIZER");
  if (c.version < NCCL_VERSION(2, 32, 0)) c.launchCompletionEvent = nullptr;
  requireRange("minCTAs", c.minCTAs, 1);
  requireRange("maxCTAs", c.maxCTAs, 1);
  requireOrder(c.minCTAs, c.maxCTAs);
  requireRange("nvlsCTAs", c.nvlsCTAs, 1);
  requireRange("cgaClusterSize", c.cgaClusterSize, 0);
  requireRange("forceAlgSelection", c.forceAlgSelection, 0, 1);
  requireRange("CTAPolicy", c.CTAPolicy, 0, kLastPolicy);
  config.forced = c.forceAlgSelection != 0;
  config.algorithm = algorithmOf(c.algSelection, config.forced);
  if (c.maxCTAs != NCCL_CONFIG_UNDEF_INT) config.maxBlocks = c.maxCTAs;
  if (c.CTAPolicy != NCCL_CONFIG_UNDEF_INT) config.policyBlocks = blocksBy(c.CTAPolicy);
  config.tag = c.userProfilerTag;
  config.launched = c.launchCompletionEvent;
  return config;
}

void copyKnownBytes(const void* given, void* known, size_t bytes, size_t headerBytes,
                    unsigned magic, const char* initializer) {
  size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  TUTTI_REQUIRE(size >= headerBytes, "the config has size ", size, ": it must begin with ",
                initializer);
  unsigned theirs = 0;
  std::memcpy(&theirs, static_cast<const std::byte*>(given) + sizeof size, sizeof theirs);
  TUTTI_REQUIRE(theirs == magic, "the config has no magic number: it must begin with ",
                initializer);
  std::memcpy(known, given, std::min(size, bytes));
}

bool callersKnowTimeout() { return timeoutIsKnown.load(); }

}  // namespace tutti::nccl
