/* The host functions of NCCL's device API: declared here, because NCCL's header of them needs CUDA.
 */

#include "harness.h"

#include <stdint.h>

typedef struct {
  int nRanks, rank, stride;
} Team;
ncclResult_t ncclGinOutboxCreateRequirement(int blocks, int size, void* handle, void* made);
ncclResult_t ncclGinInboxA2ACreateRequirement(Team team, int blocks, int size, void* handle,
                                              void* made);
ncclResult_t ncclGetMultimemDeviceLeInfo(ncclWindow_t window, size_t offset, uint32_t* id,
                                         size_t* at);
ncclResult_t ncclGetCftDeviceLeInfo(ncclWindow_t window, size_t offset, int peer, Team team,
                                    uint32_t* id, size_t* at);
ncclResult_t ncclGetPeerDeviceLeInfo(ncclWindow_t window, size_t offset, int peer, uint32_t* id,
                                     size_t* at);
Team ncclTeamCft(ncclComm_t comm, int mode);
Team ncclTeamCftMultimem(ncclComm_t comm);
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const void* requirements, void* made);
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const void* made);
ncclResult_t ncclLsaBarrierCreateRequirement(Team team, int barriers, void* handle, void* made);
ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, Team team, int barriers, void* handle,
                                             void* made);
ncclResult_t ncclLLA2ACreateRequirement(int blocks, int slots, void* handle, void* made);
int ncclLLA2ACalcSlots(int elements, int element_bytes);
Team ncclTeamWorld(ncclComm_t comm);
Team ncclTeamLsa(ncclComm_t comm);
Team ncclTeamRail(ncclComm_t comm);
int ncclTeamRankToWorld(ncclComm_t comm, Team team, int rank);
int ncclTeamRankToLsa(ncclComm_t comm, Team team, int rank);

static int same(Team team, int ranks, int rank, int stride) {
  return team.nRanks == ranks && team.rank == rank && team.stride == stride;
}

int main(void) {
  ncclComm_t comms[3];
  OK(ncclCommInitAll(comms, 3, NULL));
  const Team world = ncclTeamWorld(comms[1]);
  CHECK(same(world, 3, 1, 1));
  /* Ranks of one host address each other's windows. */
  CHECK(same(ncclTeamLsa(comms[1]), 3, 1, 1));
  CHECK(same(ncclTeamRail(comms[1]), 1, 0, 3));
  CHECK(same(ncclTeamWorld(NULL), 0, 0, 0));
  CHECK_EQ(ncclTeamRankToWorld(comms[1], world, 2), 2);
  CHECK_EQ(ncclTeamRankToWorld(comms[1], ncclTeamLsa(comms[1]), 0), 0);
  CHECK_EQ(ncclTeamRankToLsa(comms[1], world, 1), 1);
  CHECK_EQ(ncclLLA2ACalcSlots(5, 12), 10);
  CHECK(same(ncclTeamCft(comms[1], 0), 0, 0, 0) && same(ncclTeamCftMultimem(comms[1]), 0, 0, 0));
  const char* const why =
      "there are no device communicators here: call collectives, or ncclPutSignal()";
  const char* const noGin = "kernels do not start transfers over networks here";
  const char* const noCft = "there are no counted fabric transfers here";
  FAILS(ncclDevCommCreate(comms[0], NULL, NULL), ncclInvalidUsage, why);
  FAILS(ncclDevCommDestroy(comms[0], NULL), ncclInvalidUsage, why);
  FAILS(ncclLsaBarrierCreateRequirement(world, 1, NULL, NULL), ncclInvalidUsage, why);
  FAILS(ncclGinBarrierCreateRequirement(comms[0], world, 1, NULL, NULL), ncclInvalidUsage, noGin);
  FAILS(ncclGinOutboxCreateRequirement(1, 1, NULL, NULL), ncclInvalidUsage, noGin);
  FAILS(ncclGinInboxA2ACreateRequirement(world, 1, 1, NULL, NULL), ncclInvalidUsage, noGin);
  FAILS(ncclGetMultimemDeviceLeInfo(NULL, 0, NULL, NULL), ncclInvalidUsage, noCft);
  FAILS(ncclGetCftDeviceLeInfo(NULL, 0, 0, world, NULL, NULL), ncclInvalidUsage, noCft);
  FAILS(ncclGetPeerDeviceLeInfo(NULL, 0, 0, NULL, NULL), ncclInvalidUsage, noCft);
  FAILS(ncclLLA2ACreateRequirement(1, 1, NULL, NULL), ncclInvalidUsage, why);
  for (int r = 0; r < 3; ++r) OK(ncclCommDestroy(comms[r]));
  return 0;
}
