#include "src/nccl/config.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "src/base/check.h"
#include "src/nccl/environment.h"

namespace tutti::nccl {
namespace {

constexpr unsigned kMagic = 0xcafebeef;
constexpr size_t kHeaderBytes = offsetof(ncclConfig_t, blocking);

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
}

ncclConfig_t copy(const ncclConfig_t& given) {
  ncclConfig_t c = NCCL_CONFIG_INITIALIZER;
  size_t size = 0;
  std::memcpy(&size, &given, sizeof size);
  TUTTI_REQUIRE(size >= kHeaderBytes, "the config has size ", size,
                ": it must begin with NCCL_CONFIG_INITIALIZER");
  std::memcpy(&c, &given, std::min(size, sizeof c));
  TUTTI_REQUIRE(c.magic == kMagic,
                "the config has no magic number: it must begin with "
                "NCCL_CONFIG_INITIALIZER");
  forgetLaterFields(c);
  return c;
}

void requireRange(const char* field, int value, int least, int most = INT_MAX) {
  TUTTI_REQUIRE(value == NCCL_CONFIG_UNDEF_INT || (value >= least && value <= most),
                "the config's ", field, " is ", value,
                most == INT_MAX ? ", at least " : ", not in ", least,
                most == INT_MAX ? "" : base::message("..", most));
}

void check(const ncclConfig_t& c) {
  constexpr int kLastPolicy = NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO;
  requireRange("blocking", c.blocking, 0, 1);
  requireRange("cgaClusterSize", c.cgaClusterSize, 0);
  requireRange("minCTAs", c.minCTAs, 1);
  requireRange("maxCTAs", c.maxCTAs, 1);
  TUTTI_REQUIRE(c.minCTAs == NCCL_CONFIG_UNDEF_INT || c.maxCTAs == NCCL_CONFIG_UNDEF_INT ||
                    c.minCTAs <= c.maxCTAs,
                "the config's minCTAs, ", c.minCTAs, ", is more than its maxCTAs, ", c.maxCTAs);
  requireRange("splitShare", c.splitShare, 0, 1);
  requireRange("collnetEnable", c.collnetEnable, 0, 1);
  requireRange("CTAPolicy", c.CTAPolicy, 0, kLastPolicy);
  requireRange("shrinkShare", c.shrinkShare, 0, 1);
  requireRange("nvlsCTAs", c.nvlsCTAs, 1);
  requireRange("nChannelsPerNetPeer", c.nChannelsPerNetPeer, 1, 64);
  requireRange("nvlinkCentricSched", c.nvlinkCentricSched, 0, 1);
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
    if (c.CTAPolicy != NCCL_CONFIG_UNDEF_INT)
      config.byCopies = (c.CTAPolicy & NCCL_CTA_POLICY_ZERO) != 0;
  }
  config.blocking = environment().blocking.value_or(config.blocking);
  config.maxBlocks = environment().maxBlocks.value_or(config.maxBlocks);
  return config;
}

}  // namespace tutti::nccl
