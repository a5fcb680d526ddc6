// The host side of NCCL's device API. There are no device communicators, no transfers that kernels
// start over a network (GIN) and none that fabrics count (CFT): these functions say so, and what to
// use.

#include <algorithm>
#include <cstring>

#include <tutti-nccl/nccl_device.h>

#include "src/base/check.h"
#include "src/communicator/inspection.h"
#include "src/nccl/entry.h"
#include "src/nccl/handles.h"

extern "C" {
struct ncclDevComm;
struct ncclDevCommRequirements;
struct ncclDevResourceRequirements;
struct ncclLsaBarrierHandle;
struct ncclGinBarrierHandle;
struct ncclGinOutboxHandle;
struct ncclGinInboxA2AHandle;
struct ncclLLA2AHandle;
}

using namespace tutti::nccl;

namespace {

constexpr const char* kNoDeviceApi =
    "there are no device communicators here: call collectives, or ncclPutSignal(), from the host";
constexpr const char* kNoGin =
    "kernels do not start transfers over networks here: call ncclPutSignal() from the host";
constexpr const char* kNoCft =
    "there are no counted fabric transfers here: ncclGetPeerDevicePointer() gives the address of a "
    "window of this host";

ncclResult_t unsupported(const char* function, const char* why) {
  return guard(function,
               [&]() -> ncclResult_t { tutti::base::fail(tutti::ErrorCode::Unsupported, why); });
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

/// What this library says of a communicator. What it does not have stays false and 0.
ncclCommProperties_t propertiesOf(ncclComm_t handle) {
  const auto comm = NcclHandles::ofProcess().find(handle);
  const Comm::Use use(comm);
  ncclCommProperties_t p{};
  p.rank = comm->rank();
  p.nRanks = comm->size();
  p.cudaDev = p.nvmlDev = comm->facts().device;
  p.nLsaTeams = comm->size() / std::max(pncclTeamLsa(handle).nRanks, 1);
  p.hostRmaSupport = comm->facts().config.rmaContexts * comm->facts().config.rmaSignals > 0;
  p.commHash = tutti::communicator::Inspection::identity(use.communicator());
  return p;
}

}  // namespace

ncclResult_t pncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t* props) {
  return guard("ncclCommQueryProperties", [&] {
    TUTTI_REQUIRE(props, "props is null");
    const size_t size = props->size;
    if (props->magic != NCCL_API_MAGIC || size < offsetof(ncclCommProperties_t, rank))
      tutti::base::fail(tutti::ErrorCode::InvalidUsage,
                        "props must begin with NCCL_COMM_PROPERTIES_INITIALIZER");
    const unsigned version = props->version;
    ncclCommProperties_t found = propertiesOf(comm);
    found.size = size;
    found.magic = NCCL_API_MAGIC;
    found.version = version;
    // Until 2.29.3 what follows multimemSupport had another layout.
    const size_t known = version <= NCCL_VERSION(2, 29, 3)
                             ? offsetof(ncclCommProperties_t, multimemSupport) + sizeof(bool)
                             : sizeof found;
    std::memset(props, 0, std::min(size, sizeof found));
    std::memcpy(props, &found, std::min(size, known));
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclCommQueryProperties);

ncclTeam_t pncclTeamWorld(ncclComm_t comm) {
  return teamOf("ncclTeamWorld", comm, [](const Comm& c) {
    return ncclTeam{.nRanks = c.size(), .rank = c.rank(), .stride = 1};
  });
}
TUTTI_NCCL_NAME(ncclTeamWorld);

ncclTeam_t pncclTeamLsa(ncclComm_t comm) {
  return teamOf("ncclTeamLsa", comm, [](const Comm& c) {
    const int size = c.addressableRanks();
    return ncclTeam{.nRanks = size, .rank = c.rank() % size, .stride = 1};
  });
}
TUTTI_NCCL_NAME(ncclTeamLsa);

ncclTeam_t pncclTeamRail(ncclComm_t comm) {
  return teamOf("ncclTeamRail", comm, [](const Comm& c) {
    const int size = c.addressableRanks();
    return ncclTeam{.nRanks = c.size() / size, .rank = c.rank() / size, .stride = size};
  });
}
TUTTI_NCCL_NAME(ncclTeamRail);

ncclTeam_t pncclTeamCft(ncclComm_t comm, ncclCftTeamMode_t) {
  return teamOf("ncclTeamCft", comm, [](const Comm&) { return ncclTeam{}; });
}
TUTTI_NCCL_NAME(ncclTeamCft);

ncclTeam_t pncclTeamCftMultimem(ncclComm_t comm) {
  return teamOf("ncclTeamCftMultimem", comm, [](const Comm&) { return ncclTeam{}; });
}
TUTTI_NCCL_NAME(ncclTeamCftMultimem);

int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam team, int rank) {
  return pncclTeamWorld(comm).rank + (rank - team.rank) * team.stride;
}
TUTTI_NCCL_NAME(ncclTeamRankToWorld);

int pncclTeamRankToLsa(ncclComm_t comm, ncclTeam team, int rank) {
  return pncclTeamLsa(comm).rank + (rank - team.rank) * team.stride;
}
TUTTI_NCCL_NAME(ncclTeamRankToLsa);

extern "C" {

/// Slots of 8 bytes.
int pncclLLA2ACalcSlots(int maxElts, int maxEltSize) { return maxElts * ((maxEltSize + 7) / 8); }

ncclResult_t pncclDevCommCreate(ncclComm_t, const ncclDevCommRequirements*, ncclDevComm*) {
  return unsupported("ncclDevCommCreate", kNoDeviceApi);
}
ncclResult_t pncclDevCommDestroy(ncclComm_t, const ncclDevComm*) {
  return unsupported("ncclDevCommDestroy", kNoDeviceApi);
}
ncclResult_t pncclLsaBarrierCreateRequirement(ncclTeam, int, ncclLsaBarrierHandle*,
                                              ncclDevResourceRequirements*) {
  return unsupported("ncclLsaBarrierCreateRequirement", kNoDeviceApi);
}
ncclResult_t pncclLLA2ACreateRequirement(int, int, ncclLLA2AHandle*, ncclDevResourceRequirements*) {
  return unsupported("ncclLLA2ACreateRequirement", kNoDeviceApi);
}
ncclResult_t pncclGinBarrierCreateRequirement(ncclComm_t, ncclTeam, int, ncclGinBarrierHandle*,
                                              ncclDevResourceRequirements*) {
  return unsupported("ncclGinBarrierCreateRequirement", kNoGin);
}
ncclResult_t pncclGinOutboxCreateRequirement(int, int, ncclGinOutboxHandle*,
                                             ncclDevResourceRequirements*) {
  return unsupported("ncclGinOutboxCreateRequirement", kNoGin);
}
ncclResult_t pncclGinInboxA2ACreateRequirement(ncclTeam, int, int, ncclGinInboxA2AHandle*,
                                               ncclDevResourceRequirements*) {
  return unsupported("ncclGinInboxA2ACreateRequirement", kNoGin);
}
ncclResult_t pncclGetMultimemDeviceLeInfo(ncclWindow_t, size_t, uint32_t*, size_t*) {
  return unsupported("ncclGetMultimemDeviceLeInfo", kNoCft);
}
ncclResult_t pncclGetCftDeviceLeInfo(ncclWindow_t, size_t, int, ncclTeam, uint32_t*, size_t*) {
  return unsupported("ncclGetCftDeviceLeInfo", kNoCft);
}
ncclResult_t pncclGetPeerDeviceLeInfo(ncclWindow_t, size_t, int, uint32_t*, size_t*) {
  return unsupported("ncclGetPeerDeviceLeInfo", kNoCft);
}

}  // extern "C"

TUTTI_NCCL_NAME(ncclLLA2ACalcSlots);
TUTTI_NCCL_NAME(ncclDevCommCreate);
TUTTI_NCCL_NAME(ncclDevCommDestroy);
TUTTI_NCCL_NAME(ncclLsaBarrierCreateRequirement);
TUTTI_NCCL_NAME(ncclLLA2ACreateRequirement);
TUTTI_NCCL_NAME(ncclGinBarrierCreateRequirement);
TUTTI_NCCL_NAME(ncclGinOutboxCreateRequirement);
TUTTI_NCCL_NAME(ncclGinInboxA2ACreateRequirement);
TUTTI_NCCL_NAME(ncclGetMultimemDeviceLeInfo);
TUTTI_NCCL_NAME(ncclGetCftDeviceLeInfo);
TUTTI_NCCL_NAME(ncclGetPeerDeviceLeInfo);
