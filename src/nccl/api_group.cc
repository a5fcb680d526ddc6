// ncclGroup*.

#include <cstring>

#include "src/base/check.h"
#include "src/nccl/entry.h"
#include "src/nccl/group.h"

namespace {

using tutti::nccl::guard;
using tutti::nccl::NcclGroup;

constexpr unsigned kSimulationMagic = 0x74685283;

/// Of any version: as much of it as both sides know.
void writeTime(ncclSimInfo_t* info, float microseconds) {
  size_t size = 0;
  std::memcpy(&size, info, sizeof size);
  if (size >= offsetof(ncclSimInfo_t, estimatedTime) + sizeof microseconds)
    info->estimatedTime = microseconds;
}

void requireSimInfo(const ncclSimInfo_t* info) {
  TUTTI_REQUIRE(info, "simInfo is null");
  size_t size = 0;
  std::memcpy(&size, info, sizeof size);
  TUTTI_REQUIRE(size >= offsetof(ncclSimInfo_t, estimatedTime) && info->magic == kSimulationMagic,
                "simInfo must begin with NCCL_SIM_INFO_INITIALIZER");
}

}  // namespace

ncclResult_t pncclGroupStart() {
  return guard("ncclGroupStart", [] {
    NcclGroup::ofThread().start();
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclGroupStart);

ncclResult_t pncclGroupEnd() {
  return guard("ncclGroupEnd", [] { return NcclGroup::ofThread().end(); });
}
TUTTI_NCCL_NAME(ncclGroupEnd);

// The group has ended also when the argument is wrong.
ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t* simInfo) {
  return guard("ncclGroupSimulateEnd", [&] {
    std::optional<double> microseconds;
    const ncclResult_t result = NcclGroup::ofThread().simulateEnd(microseconds);
    requireSimInfo(simInfo);
    if (microseconds) writeTime(simInfo, static_cast<float>(*microseconds));
    return result;
  });
}
TUTTI_NCCL_NAME(ncclGroupSimulateEnd);
