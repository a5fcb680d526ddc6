/* NCCL's own guard, so that nobody includes both headers into one source. */
#ifndef NCCL_H_
#define NCCL_H_

/* The C API of NCCL 2.28.9 as Tutti's libnccl.so.2 provides it: the same names, values, layouts and
 * calling conventions, so that programs compiled with either header run with either library. Needs
 * no CUDA toolkit; where there is one, <cuda_runtime.h> may be included before or after. C11 and
 * C++. docs/nccl.md says what works and where it differs.
 *
 * Results. A function that does not return ncclSuccess or ncclInProgress has written one sentence
 * that ncclGetLastError() returns.
 *
 * Memory and streams. Calls on memory of the communicator's GPU, and on pinned memory, are put on
 * any stream of it. Calls on host memory complete before they return; their stream is null,
 * cudaStreamLegacy or cudaStreamPerThread, and another one is ncclInvalidArgument. So is the memory
 * of another GPU, or of any where the communicator has none.
 *
 * Each function has a twin with a p before its name. A profiler defines the plain name itself and
 * calls the twin. */

#include <limits.h>
#include <stddef.h>

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_SUFFIX ""

/* One number per version; the formula changed after 2.8. */
#define NCCL_VERSION_CODE 22809
#define NCCL_VERSION(X, Y, Z) \
  (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))

/* Declares a function and its twin. */
#define TUTTI_NCCL_FUNCTION(Result, name, parameters) \
  Result name parameters;                             \
  Result p##name parameters

#ifdef __cplusplus
extern "C" {
#endif

/* As <cuda_runtime_api.h> declares it. */
typedef struct CUstream_st* cudaStream_t;

/* ---- Handles and constants */

typedef struct ncclComm* ncclComm_t;
#define NCCL_COMM_NULL NULL

typedef struct ncclWindow_vidmem* ncclWindow_t;

/* Names one job. Whoever holds it may join; it is copied as bytes to all ranks. */
#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,     /* the operating system refused something */
  ncclInternalError = 3,   /* a bug in Tutti */
  ncclInvalidArgument = 4, /* an argument of this call cannot be right */
  ncclInvalidUsage = 5,    /* not now, not in this order, or ranks disagree about the call */
  ncclRemoteError = 6,     /* another rank died, left, aborted or did not come in time */
  ncclInProgress = 7,      /* of a communicator with blocking = 0: ask ncclCommGetAsyncError */
  ncclNumResults = 8
} ncclResult_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f
#define NCCL_SPLIT_NOCOLOR -1

#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

#define NCCL_SHRINK_DEFAULT 0x00 /* the parent has nothing under way, and stays usable */
#define NCCL_SHRINK_ABORT 0x01   /* the parent's operations are ended first */

#define NCCL_REVOKE_DEFAULT 0x00

/* ---- Settings of a communicator: begin with NCCL_CONFIG_INITIALIZER, then set what you mean. */

typedef struct ncclConfig_v22800 {
  size_t size;          /* these three are the initializer's */
  unsigned int magic;   /**/
  unsigned int version; /**/
  int blocking;         /* 0: calls return ncclInProgress and go on; 1 (default): they wait */
  int cgaClusterSize;   /* from here to nvlinkCentricSched: checked, and of no effect on host */
  int minCTAs;          /* memory, except the name */
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName; /* for log lines */
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
} ncclConfig_t;

/* clang-format off */
#define NCCL_CONFIG_INITIALIZER {                                                         \
  sizeof(ncclConfig_t), 0xcafebeef, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH),     \
  NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                    \
  NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,                    \
  NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,                    \
  NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                    \
  NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT }
/* clang-format on */

/* What ncclGroupSimulateEnd() fills in; begin with NCCL_SIM_INFO_INITIALIZER. */
typedef struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime; /* microseconds */
} ncclSimInfo_t;

/* clang-format off */
#define NCCL_SIM_INFO_INITIALIZER {                                                       \
  sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH),    \
  NCCL_UNDEF_FLOAT }
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
  ncclScalarDevice = 0,       /* read when a call uses the reduction; here: host memory too */
  ncclScalarHostImmediate = 1 /* read while the reduction is made */
} ncclScalarResidence_t;

/* ---- The library */

/* NCCL_VERSION_CODE of the API that the library has. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGetVersion, (int* version));

/* Makes an id, for one communicator, and listens for its ranks in this process for as long as
 * set-up may last (TUTTI_SETUP_TIMEOUT_MS). With NCCL_COMM_ID=host:port: the id that everybody
 * makes of that address, where rank 0 listens. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * uniqueId));

/* A few words for a result; never null. */
TUTTI_NCCL_FUNCTION(const char*, ncclGetErrorString, (ncclResult_t result));

/* The sentence of the latest failure in this process, "" before the first. `comm` may be null. The
 * text stays until this thread's next call. */
TUTTI_NCCL_FUNCTION(const char*, ncclGetLastError, (ncclComm_t comm));

/* Reads NCCL_DEBUG and its relatives again. Not for new programs. */
TUTTI_NCCL_FUNCTION(void, ncclResetDebugInit, (void));

/* Memory for communication; at least `size` bytes, aligned to NCCL_WIN_REQUIRED_ALIGNMENT. A size
 * of 0 gives null. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclMemAlloc, (void** ptr, size_t size));

/* Null is allowed; any other pointer must be ncclMemAlloc()'s. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclMemFree, (void* ptr));

/* ---- Life of a communicator */

/* Joins a job as `rank` of `nranks`; every rank calls it, from threads or processes of its own, or
 * from one thread within a group. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommInitRank,
                    (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank));

/* The same with settings; null for none. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommInitRankConfig,
                    (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank,
                     ncclConfig_t* config));

/* The same with `nId` ids, the same in the same order on all ranks. Ranks meet by the first. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommInitRankScalable,
                    (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds,
                     ncclConfig_t* config));

/* `ndev` ranks of this process, with the device numbers of `devlist`, all different; null: 0, 1,
 * and so on. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommInitAll,
                    (ncclComm_t * comm, int ndev, const int* devlist));

/* Lets everything under way end; afterwards the communicator can only be destroyed. Once. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommFinalize, (ncclComm_t comm));

/* Lets everything under way end and frees the communicator. Null is allowed. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommDestroy, (ncclComm_t comm));

/* Ends everything under way, here and on the other ranks, and frees the communicator. From any
 * thread, also while another one is inside a call on it, which then returns. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommAbort, (ncclComm_t comm));

/* Ends everything under way; afterwards the communicator can be split, shrunk and destroyed.
 * `revokeFlags` is NCCL_REVOKE_DEFAULT. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int revokeFlags));

/* Collective: ranks of one color, 0 or more, form a communicator, ordered by key and then by rank.
 * NCCL_SPLIT_NOCOLOR gives null. Without a config the parent's holds. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommSplit,
                    (ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                     ncclConfig_t* config));

/* Called by all ranks but the excluded ones, with one and the same list: a communicator of the
 * callers, in their order. `shrinkFlags` is NCCL_SHRINK_DEFAULT or NCCL_SHRINK_ABORT. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommShrink,
                    (ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                     ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags));

/* ncclInProgress while something of a communicator with blocking = 0 is under way; its failure, if
 * it has one. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommGetAsyncError,
                    (ncclComm_t comm, ncclResult_t* asyncError));

TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int* count));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int* rank));

/* The number from ncclCommInitAll()'s list; 0 for other communicators, and without CUDA it is a
 * number only. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int* device));

/* ---- Registered memory. Not needed for anything to work. */

TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommRegister,
                    (const ncclComm_t comm, void* buff, size_t size, void** handle));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void* handle));

/* Called by all ranks of the communicator. `winFlags` is NCCL_WIN_DEFAULT or
 * NCCL_WIN_COLL_SYMMETRIC. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommWindowRegister,
                    (ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win));

/* ---- Reductions of one communicator */

/* The sum of each rank's input times its own scalar, for calls on `comm` with `datatype`. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclRedOpCreatePreMulSum,
                    (ncclRedOp_t * op, void* scalar, ncclDataType_t datatype,
                     ncclScalarResidence_t residence, ncclComm_t comm));

/* May follow the last call that uses it at once. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm));

/* ---- Collectives. All ranks call the same ones in the same order. Counts are elements; a count of
 * 0 does nothing, and then the others' must be 0 too. "In place" says where the buffers may
 * overlap. */

/* recvbuff: the reduction, at the root alone. In place: sendbuff == recvbuff. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclReduce,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream));

/* The root's buff into everybody's. ncclBroadcast() in place. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclBcast,
                    (void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                     cudaStream_t stream));

/* The root's sendbuff into everybody's recvbuff. In place: sendbuff == recvbuff. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclBroadcast,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     int root, ncclComm_t comm, cudaStream_t stream));

/* recvbuff: the reduction, everywhere the same bits. In place: sendbuff == recvbuff. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclAllReduce,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream));

/* sendbuff: a block of recvcount for each rank; recvbuff: the reduction of this rank's block. In
 * place: recvbuff == sendbuff + rank * recvcount. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclReduceScatter,
                    (const void* sendbuff, void* recvbuff, size_t recvcount,
                     ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                     cudaStream_t stream));

/* recvbuff: the blocks of sendcount of all ranks. In place: sendbuff == recvbuff + rank *
 * sendcount. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclAllGather,
                    (const void* sendbuff, void* recvbuff, size_t sendcount,
                     ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream));

/* Block j of sendbuff, of count elements, goes to rank j; block i of recvbuff comes from rank i. In
 * place: sendbuff == recvbuff. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclAlltoAll,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     ncclComm_t comm, cudaStream_t stream));

/* recvbuff: the blocks of all ranks, at the root alone. In place there: sendbuff == recvbuff + root
 * * count. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGather,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     int root, ncclComm_t comm, cudaStream_t stream));

/* recvbuff: this rank's block of the root's sendbuff. In place there: recvbuff == sendbuff + root *
 * count. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclScatter,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     int root, ncclComm_t comm, cudaStream_t stream));

/* ---- Sends and receives. Between two ranks they match in order and have the same count, which may
 * be 0. Those that need each other to end belong into one group; so do a send and a receive of a
 * rank to itself. */

TUTTI_NCCL_FUNCTION(ncclResult_t, ncclSend,
                    (const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                     ncclComm_t comm, cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclRecv,
                    (void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                     ncclComm_t comm, cudaStream_t stream));

/* ---- Groups. What this thread calls between the outermost start and end is made at the end, all
 * together. A call that fails makes the end fail with its result, and nothing of the group is made.
 * A group has either communicators to make or calls on communicators, not both. */

TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGroupStart, (void));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGroupEnd, (void));

/* Ends a group without making its calls, and says how long they would probably take. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t * simInfo));

#ifdef __cplusplus
}
#endif

#undef TUTTI_NCCL_FUNCTION

#endif
