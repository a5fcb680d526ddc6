// The host side of NCCL's device API, which the toolkit's <nccl_device.h> declares. There are no
// device communicators here, and these functions say so; those about teams answer as for ranks
// that cannot load from each other's device memory.

#include "src/base/check.h"
#include "src/nccl/entry.h"
#include "src/nccl/handles.h"

extern "C" {
struct ncclTeam {
  int nRanks, rank, stride;
};
struct ncclDevComm;
struct ncclDevCommRequirements;
struct ncclDevResourceRequirements;
struct ncclLsaBarrierHandle;
struct ncclGinBarrierHandle;
struct ncclLLA2AHandle;
}

using namespace tutti::nccl;

namespace {

ncclResult_t unsupported(const char* function) {
  return guard(function, []() -> ncclResult_t {
    tutti::base::fail(tutti::ErrorCode::Unsupported,
                      "NCCL's device API is not supported by this version of Tutti");
  });
}

/// An empty team for a handle that is none.
template <class Make>
ncclTeam teamOf(const char* function, ncclComm_t handle, const Make& make) {
  ncclTeam team{};
  guard(function, [&] {
    team = make(*NcclHandles::ofProcess().find(handle));
    return ncclSuccess;
  });
  return team;
}

}  // namespace

extern "C" {

ncclResult_t pncclDevCommCreate(ncclComm_t, const ncclDevCommRequirements*, ncclDevComm*) {
  return unsupported("ncclDevCommCreate");
}
ncclResult_t pncclDevCommDestroy(ncclComm_t, const ncclDevComm*) {
  return unsupported("ncclDevCommDestroy");
}
ncclResult_t pncclLsaBarrierCreateRequirement(ncclTeam, int, ncclLsaBarrierHandle*,
                                              ncclDevResourceRequirements*) {
  return unsupported("ncclLsaBarrierCreateRequirement");
}
ncclResult_t pncclGinBarrierCreateRequirement(ncclComm_t, ncclTeam, int, ncclGinBarrierHandle*,
                                              ncclDevResourceRequirements*) {
  return unsupported("ncclGinBarrierCreateRequirement");
}
ncclResult_t pncclLLA2ACreateRequirement(int, int, ncclLLA2AHandle*, ncclDevResourceRequirements*) {
  return unsupported("ncclLLA2ACreateRequirement");
}

/// Slots of 8 bytes.
int pncclLLA2ACalcSlots(int maxElts, int maxEltSize) { return maxElts * ((maxEltSize + 7) / 8); }

ncclTeam pncclTeamWorld(ncclComm_t comm) {
  return teamOf("ncclTeamWorld", comm, [](const Comm& c) {
    return ncclTeam{.nRanks = c.size(), .rank = c.rank(), .stride = 1};
  });
}
/// Ranks that can load from and store to each other's device memory: this one.
ncclTeam pncclTeamLsa(ncclComm_t comm) {
  return teamOf("ncclTeamLsa", comm,
                [](const Comm&) { return ncclTeam{.nRanks = 1, .rank = 0, .stride = 1}; });
}
/// One of each of those.
ncclTeam pncclTeamRail(ncclComm_t comm) { return pncclTeamWorld(comm); }

int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam team, int rank) {
  return pncclTeamWorld(comm).rank + (rank - team.rank) * team.stride;
}
int pncclTeamRankToLsa(ncclComm_t comm, ncclTeam team, int rank) {
  return pncclTeamLsa(comm).rank + (rank - team.rank) * team.stride;
}

}  // extern "C"

TUTTI_NCCL_NAME(ncclDevCommCreate);
TUTTI_NCCL_NAME(ncclDevCommDestroy);
TUTTI_NCCL_NAME(ncclLsaBarrierCreateRequirement);
TUTTI_NCCL_NAME(ncclGinBarrierCreateRequirement);
TUTTI_NCCL_NAME(ncclLLA2ACreateRequirement);
TUTTI_NCCL_NAME(ncclLLA2ACalcSlots);
TUTTI_NCCL_NAME(ncclTeamWorld);
TUTTI_NCCL_NAME(ncclTeamLsa);
TUTTI_NCCL_NAME(ncclTeamRail);
TUTTI_NCCL_NAME(ncclTeamRankToWorld);
TUTTI_NCCL_NAME(ncclTeamRankToLsa);
