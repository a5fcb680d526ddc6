// ncclComm*, but for registrations.

#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "src/base/check.h"
#include "src/nccl/entry.h"
#include "src/nccl/group.h"
#include "src/nccl/handles.h"
#include "src/nccl/making.h"

using namespace tutti::nccl;

namespace {

NcclHandles& handles() { return NcclHandles::ofProcess(); }

}  // namespace

ncclResult_t pncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  return guardInGroup("ncclCommInitRank", [&] {
    return makeOrCollect(makeOfId("ncclCommInitRank", comm, nranks, commId, rank, nullptr));
  });
}
TUTTI_NCCL_NAME(ncclCommInitRank);

ncclResult_t pncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                     ncclConfig_t* config) {
  return guardInGroup("ncclCommInitRankConfig", [&] {
    return makeOrCollect(makeOfId("ncclCommInitRankConfig", comm, nranks, commId, rank, config));
  });
}
TUTTI_NCCL_NAME(ncclCommInitRankConfig);

// Ranks meet by the first id; the others are not used.
ncclResult_t pncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                       ncclUniqueId* commIds, ncclConfig_t* config) {
  return guardInGroup("ncclCommInitRankScalable", [&] {
    TUTTI_REQUIRE(commIds, "commIds is null");
    TUTTI_REQUIRE(nId >= 1 && nId <= nranks, "nId is ", nId, " for ", nranks, " ranks");
    return makeOrCollect(
        makeOfId("ncclCommInitRankScalable", newcomm, nranks, commIds[0], myrank, config));
  });
}
TUTTI_NCCL_NAME(ncclCommInitRankScalable);

ncclResult_t pncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  return guardInGroup("ncclCommInitAll", [&] {
    TUTTI_REQUIRE(comm, "comm is null");
    TUTTI_REQUIRE(ndev >= 1, "ndev is ", ndev);
    std::vector<int> devices;
    for (int i = 0; i < ndev; ++i) devices.push_back(devlist ? devlist[i] : i);
    std::set<int> different(devices.begin(), devices.end());
    TUTTI_REQUIRE(*different.begin() >= 0, "device ", *different.begin(), " is in devlist");
    if (different.size() < devices.size())
      tutti::base::fail(tutti::ErrorCode::InvalidUsage, "devlist names a device twice");
    makeAll(comm, devices);
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclCommInitAll);

ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                            ncclConfig_t* config) {
  return guardInGroup("ncclCommSplit", [&] {
    return makeOrCollect(makeBySplit(comm, color, key, newcomm, config));
  });
}
TUTTI_NCCL_NAME(ncclCommSplit);

ncclResult_t pncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                             ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags) {
  return guardInGroup("ncclCommShrink", [&] {
    return makeOrCollect(
        makeByShrink(comm, excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags));
  });
}
TUTTI_NCCL_NAME(ncclCommShrink);

ncclResult_t pncclCommSuspend(ncclComm_t comm, int flags) {
  return guardInGroup("ncclCommSuspend", [&] {
    TUTTI_REQUIRE(flags == NCCL_SUSPEND_MEM, "flags is ", flags, ", not NCCL_SUSPEND_MEM");
    handles().find(comm)->suspend();
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclCommSuspend);

ncclResult_t pncclCommResume(ncclComm_t comm) {
  return guardInGroup("ncclCommResume", [&] { return makeOrCollect(makeByResume(comm)); });
}
TUTTI_NCCL_NAME(ncclCommResume);

ncclResult_t pncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value) {
  return guard("ncclCommMemStats", [&] {
    TUTTI_REQUIRE(value, "value is null");
    const auto found = handles().find(comm);
    const uint64_t bytes = found->memoryBytes();
    const bool isSuspended = found->isSuspended();
    switch (numberOf(stat)) {
      case ncclStatGpuMemSuspend: *value = bytes; break;
      case ncclStatGpuMemSuspended: *value = isSuspended ? 1 : 0; break;
      case ncclStatGpuMemPersist: *value = 0; break;
      case ncclStatGpuMemTotal: *value = isSuspended ? 0 : bytes; break;
      default: TUTTI_REQUIRE(false, "stat is ", numberOf(stat), ", no ncclCommMemStat_t");
    }
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclCommMemStats);

ncclResult_t pncclCommFinalize(ncclComm_t comm) {
  return guardInGroup("ncclCommFinalize", [&] {
    const auto found = handles().find(comm);
    found->finalize();
    while (found->asyncResult() == ncclInProgress) {
      if (!found->facts().config.blocking) return ncclInProgress;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclCommFinalize);

ncclResult_t pncclCommDestroy(ncclComm_t comm) {
  return guardInGroup("ncclCommDestroy", [&] {
    if (!comm) return ncclSuccess;
    handles().find(comm)->drain();
    handles().remove(comm);
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclCommDestroy);

ncclResult_t pncclCommAbort(ncclComm_t comm) {
  return guard("ncclCommAbort", [&] {
    if (!comm) return ncclSuccess;
    handles().find(comm)->abort();
    handles().remove(comm);
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclCommAbort);

ncclResult_t pncclCommRevoke(ncclComm_t comm, int revokeFlags) {
  return guard("ncclCommRevoke", [&] {
    TUTTI_REQUIRE(revokeFlags == NCCL_REVOKE_DEFAULT, "revokeFlags is ", revokeFlags);
    handles().find(comm)->revoke();
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclCommRevoke);

ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  return guard("ncclCommGetAsyncError", [&] {
    TUTTI_REQUIRE(asyncError, "asyncError is null");
    *asyncError = handles().find(comm)->asyncResult();
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclCommGetAsyncError);

ncclResult_t pncclCommCount(const ncclComm_t comm, int* count) {
  return guard("ncclCommCount", [&] {
    TUTTI_REQUIRE(count, "count is null");
    *count = handles().find(comm)->size();
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclCommCount);

ncclResult_t pncclCommUserRank(const ncclComm_t comm, int* rank) {
  return guard("ncclCommUserRank", [&] {
    TUTTI_REQUIRE(rank, "rank is null");
    *rank = handles().find(comm)->rank();
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclCommUserRank);

ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int* device) {
  return guard("ncclCommCuDevice", [&] {
    TUTTI_REQUIRE(device, "device is null");
    *device = handles().find(comm)->facts().device;
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclCommCuDevice);
