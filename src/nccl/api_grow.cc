// ncclCommGetUniqueId and ncclCommGrow.

#include <cstring>

#include "src/base/check.h"
#include "src/nccl/entry.h"
#include "src/nccl/group.h"
#include "src/nccl/handles.h"
#include "src/nccl/making.h"

using namespace tutti::nccl;

ncclResult_t pncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId) {
  return guard("ncclCommGetUniqueId", [&] {
    TUTTI_REQUIRE(uniqueId, "uniqueId is null");
    const Comm::Use use(NcclHandles::ofProcess().find(comm));
    const tutti::UniqueId id = use.communicator().growId();
    static_assert(sizeof *uniqueId == sizeof id.bytes);
    std::memcpy(uniqueId, id.bytes.data(), sizeof *uniqueId);
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclCommGetUniqueId);

ncclResult_t pncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
                           ncclComm_t* newcomm, ncclConfig_t* config) {
  return guardInGroup("ncclCommGrow", [&] {
    TUTTI_REQUIRE(newcomm, "newcomm is null");
    if (comm) {
      TUTTI_REQUIRE(rank == -1, "rank is ", rank,
                    ", and that of a rank of comm is -1: it keeps its "
                    "own");
      return makeOrCollect(makeByGrow(comm, nRanks, uniqueId, newcomm, config));
    }
    TUTTI_REQUIRE(uniqueId,
                  "uniqueId is null, and a new rank joins by that of "
                  "ncclCommGetUniqueId");
    return makeOrCollect(makeOfId("ncclCommGrow", newcomm, nRanks, *uniqueId, rank, config));
  });
}
TUTTI_NCCL_NAME(ncclCommGrow);
