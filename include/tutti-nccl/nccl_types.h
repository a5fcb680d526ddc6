#ifndef TUTTI_NCCL_TYPES_H
#define TUTTI_NCCL_TYPES_H

/** \file
 * The types and constants of nccl.h. Include that one. */

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_MAJOR 2
#define NCCL_MINOR 32
#define NCCL_PATCH 3
#define NCCL_SUFFIX ""

/* One number per version. The formula changed after 2.8. */
#define NCCL_VERSION_CODE 23203
#define NCCL_VERSION(X, Y, Z) \
  (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))

/* The same declarations as in <cuda_runtime_api.h>. */
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;

/* ---- Handles and constants */

typedef struct ncclComm* ncclComm_t;
#define NCCL_COMM_NULL NULL

typedef struct ncclWindow_vidmem* ncclWindow_t;

/** Names one job. Whoever has it may join the job. Copy its bytes to all ranks. */
#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,     /* a system call failed */
  ncclInternalError = 3,   /* a bug in Tutti */
  ncclInvalidArgument = 4, /* an argument of this call cannot be right */
  ncclInvalidUsage = 5,    /* wrong order or state, or ranks disagree about the call */
  ncclRemoteError = 6,     /* another rank died, left, aborted or was too late */
  ncclInProgress = 7,      /* with blocking = 0 only: ask ncclCommGetAsyncError() */
  ncclTimeout = 8,         /* a call has taken longer than its limit */
  ncclNumResults = 9
} ncclResult_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f
#define NCCL_SPLIT_NOCOLOR -1

/* What a struct of several versions has behind its size. */
#define NCCL_API_MAGIC 0xcafebeef

#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_STRICT_ORDERING 0x02
#define NCCL_WIN_GIN_ONLY 0x04
#define NCCL_WIN_CFT_COUNTED 0x08
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

#define NCCL_SHRINK_DEFAULT 0x00 /* the parent has no operation in flight, and stays usable */
#define NCCL_SHRINK_ABORT 0x01   /* ends the parent's operations first */

#define NCCL_REVOKE_DEFAULT 0x00

#define NCCL_SUSPEND_MEM 0x01 /* gives memory of the GPU back */

/* Of hostCftMode and nvlsHostMode in ncclConfig_t. */
typedef enum {
  ncclHostCftDefault = NCCL_CONFIG_UNDEF_INT,
  ncclHostCftEnable = 1,
  ncclHostCftDisable = 2,
  ncclHostCftFallback = 3
} ncclHostCftMode_t;
typedef enum {
  ncclNvlsHostModeDefault = NCCL_CONFIG_UNDEF_INT,
  ncclNvlsHostModeEnable = 0,
  ncclNvlsHostModeDisableTransport = 1,
  ncclNvlsHostModeDisableSymmetricMultimem = 2,
  ncclNvlsHostModeDisable = INT_MAX
} ncclNvlsHostMode_t;

/* ---- Settings of a communicator */

/** Settings of a communicator. Begin with NCCL_CONFIG_INITIALIZER, then set the fields that you
 * need. All are checked. Those without a comment have no effect; the NCCL page says why. */
typedef struct ncclConfig_v23100 {
  size_t size;          /* set by the initializer */
  unsigned int magic;   /* set by the initializer */
  unsigned int version; /* set by the initializer */
  int blocking;         /* 0: calls return ncclInProgress and go on; 1 (default): they wait */
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs; /* the most thread blocks of a kernel */
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName; /* for log lines */
  int collnetEnable;
  int CTAPolicy; /* NCCL_CTA_POLICY_ZERO: copies in the place of kernels */
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
  int graphUsageMode;
  int numRmaCtx; /* contexts of ncclPutSignal(), 1 by default */
  int maxP2pPeers;
  int graphStreamOrdering;
  int launchOrderImplicit;
  int numRmaSig; /* signals of each context, 1 by default */
  int rmaEagerInit;
  int hostCftMode;
  int nvlsHostMode;
} ncclConfig_t;

/* clang-format off */
#define NCCL_CONFIG_INITIALIZER {                                                         \
  sizeof(ncclConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT,         \
  NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                    \
  NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                    \
  NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                    \
  NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                    \
  NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                    \
  NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                    \
  NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                    \
  NCCL_CONFIG_UNDEF_INT }
/* clang-format on */

/** An option of another library, in a list. None has a meaning here. */
typedef struct ncclConfigExt {
  struct ncclConfigExt* next;
  struct {
    int vendorId;
    int optionId;
  } key;
  union {
    int i;
    const char* s;
    void* raw;
  } val;
} ncclConfigExt_t;

/** Settings of one call, the same on all ranks. Begin with NCCL_COLLCONFIG_INITIALIZER. Fields
 * without a comment have no effect. */
typedef struct ncclCollConfig_v23200 {
  size_t size;          /* set by the initializer */
  unsigned int magic;   /* set by the initializer */
  unsigned int version; /* set by the initializer */
  ncclConfigExt_t* ext;
  int minCTAs;
  int maxCTAs; /* the most thread blocks of this call's kernel, at most the communicator's */
  int nvlsCTAs;
  int cgaClusterSize;
  const char* algSelection;          /* "ring" or "tree"; null or "": the library chooses */
  int forceAlgSelection;             /* 1 (default): an algorithm that does not fit is an error */
  int CTAPolicy;                     /* as in ncclConfig_t */
  uint64_t userProfilerTag;          /* for log lines */
  cudaEvent_t launchCompletionEvent; /* recorded right before the call */
} ncclCollConfig_t;

/* clang-format off */
#define NCCL_COLLCONFIG_INITIALIZER {                                                     \
  sizeof(ncclCollConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_PTR,     \
  NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                    \
  NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, 1, NCCL_CONFIG_UNDEF_INT, 0,              \
  NCCL_CONFIG_UNDEF_PTR }
/* clang-format on */

/** Result of ncclGroupSimulateEnd(). Begin with NCCL_SIM_INFO_INITIALIZER. */
typedef struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime; /* microseconds */
} ncclSimInfo_t;

/* clang-format off */
#define NCCL_SIM_INFO_INITIALIZER {                                                       \
  sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT }
/* clang-format on */

/* ---- Reductions and element types */

typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;
typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,    /* the sum divided by the number of ranks; integers truncate */
  ncclNumOps = 5, /* handles of ncclRedOpCreatePreMulSum() begin here */
  ncclMaxRedOp = 0x7fffffff >> (32 - 8 * sizeof(ncclRedOp_dummy_t))
} ncclRedOp_t;

typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

typedef enum {
  ncclScalarDevice = 0,       /* read by each call that uses it; may be host memory, too */
  ncclScalarHostImmediate = 1 /* read by ncclRedOpCreatePreMulSum() */
} ncclScalarResidence_t;

#endif
