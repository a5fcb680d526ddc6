/* The guard is NCCL's, so that a source cannot include both headers. */
#ifndef _NCCL_DEVICE_H_
#define _NCCL_DEVICE_H_

/** \file
 * What a host calls of NCCL's device API: properties, teams, and addresses in windows. Tutti has no
 * device communicators, so there is nothing here for kernels. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nccl.h"

/* Declares a function and its twin. */
#define TUTTI_NCCL_FUNCTION(Result, name, parameters) \
  Result name parameters;                             \
  Result p##name parameters

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Teams: ranks first, first + stride and so on. */

typedef struct ncclTeam {
  int nRanks, rank, stride;
} ncclTeam_t;

typedef enum {
  NCCL_CFT_TEAM_FLAT,
  NCCL_CFT_TEAM_HIER_MULTIMEM,
  NCCL_CFT_TEAM_HIER_LSA
} ncclCftTeamMode_t;

/** All ranks. Without a communicator, these functions return a team of no ranks. */
TUTTI_NCCL_FUNCTION(ncclTeam_t, ncclTeamWorld, (ncclComm_t comm));
/** The ranks whose windows this rank can load from and store to. */
TUTTI_NCCL_FUNCTION(ncclTeam_t, ncclTeamLsa, (ncclComm_t comm));
/** One rank of each of those teams: those with this rank's place in their team. */
TUTTI_NCCL_FUNCTION(ncclTeam_t, ncclTeamRail, (ncclComm_t comm));
/** No rank: there are no counted fabric transfers here. */
TUTTI_NCCL_FUNCTION(ncclTeam_t, ncclTeamCft, (ncclComm_t comm, ncclCftTeamMode_t mode));
TUTTI_NCCL_FUNCTION(ncclTeam_t, ncclTeamCftMultimem, (ncclComm_t comm));
/** The number in the communicator, or in the team of ncclTeamLsa(), of a team's `rank`. */
TUTTI_NCCL_FUNCTION(int, ncclTeamRankToWorld, (ncclComm_t comm, ncclTeam_t team, int rank));
TUTTI_NCCL_FUNCTION(int, ncclTeamRankToLsa, (ncclComm_t comm, ncclTeam_t team, int rank));

/* ---- Properties */

typedef enum {
  NCCL_GIN_CONNECTION_NONE,
  NCCL_GIN_CONNECTION_FULL,
  NCCL_GIN_CONNECTION_RAIL,
  NCCL_GIN_CONNECTION_CUSTOM_STRIDE
} ncclGinConnectionType_t;

typedef enum {
  NCCL_GIN_TYPE_NONE = 0,
  NCCL_GIN_TYPE_PROXY = 2,
  NCCL_GIN_TYPE_GDAKI = 3,
  NCCL_GIN_TYPE_GPI = 4,
  NCCL_GIN_TYPE_EFA_GDA = 5,
  NCCL_GIN_MAX_TYPES = 6
} ncclGinType_t;

/** Begin with NCCL_COMM_PROPERTIES_INITIALIZER. */
typedef struct ncclCommProperties {
  size_t size;          /* set by the initializer */
  unsigned int magic;   /* set by the initializer */
  unsigned int version; /* set by the initializer */
  int rank;
  int nRanks;
  int cudaDev; /* as of ncclCommCuDevice() */
  int nvmlDev;
  bool deviceApiSupport;       /* false */
  bool multimemSupport;        /* false */
  ncclGinType_t ginType;       /* NCCL_GIN_TYPE_NONE */
  int nLsaTeams;               /* teams as of ncclTeamLsa() */
  bool hostRmaSupport;         /* true: ncclPutSignal() works */
  ncclGinType_t railedGinType; /* NCCL_GIN_TYPE_NONE */
  uint64_t commHash;           /* the same on all ranks */
  int ginMinStride;
  ncclGinConnectionType_t ginConnectionType; /* NCCL_GIN_CONNECTION_NONE */
  bool ginSupport[64];                       /* all false */
  size_t devCommRuntimeVersionSize;
  bool cftSupport;          /* false */
  bool cftMulticastSupport; /* false */
  bool cftCountedSupport;   /* false */
} ncclCommProperties_t;

/* clang-format off */
#define NCCL_COMM_PROPERTIES_INITIALIZER {                                                \
  sizeof(ncclCommProperties_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, 0, 0, 0, 0, false,     \
  false, NCCL_GIN_TYPE_NONE, 0, false, NCCL_GIN_TYPE_NONE, 0, 0,                          \
  NCCL_GIN_CONNECTION_NONE, {false}, 0, false, false, false }
/* clang-format on */

TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommQueryProperties,
                    (ncclComm_t comm, ncclCommProperties_t* props));

/* ---- Addresses at which this rank loads from and stores to windows, `offset` bytes from their
 * begin; null where the memory is not mapped. */

typedef struct ncclMultimemHandle {
  void* mcBasePtr;
} ncclMultimemHandle_t;

TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGetPeerDevicePointer,
                    (ncclWindow_t window, size_t offset, int peer, void** outPtr));
/** `lsaRank` is a rank of the team of ncclTeamLsa(). */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGetLsaDevicePointer,
                    (ncclWindow_t window, size_t offset, int lsaRank, void** outPtr));
/** There is no multicast memory here. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGetLsaMultimemDevicePointer,
                    (ncclWindow_t window, size_t offset, void** outPtr));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGetMultimemDevicePointer,
                    (ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem,
                     void** outPtr));

#ifdef __cplusplus
}
#endif

#undef TUTTI_NCCL_FUNCTION

#endif
