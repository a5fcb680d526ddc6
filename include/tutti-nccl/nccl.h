/* The guard is NCCL's, so that a source cannot include both headers. */
#ifndef NCCL_H_
#define NCCL_H_

/** \file
 * The C API of NCCL 2.32.3, as Tutti's libnccl.so.2 provides it. Names, values, layouts and calling
 * conventions are NCCL's, so a program compiled with either header runs with either library. It is
 * C11 and C++, and needs no CUDA toolkit. With one, <cuda_runtime.h> may be included before or
 * after. The NCCL page of the documentation says what works and where Tutti differs.
 *
 * \par Results
 * If a function returns neither ncclSuccess nor ncclInProgress, ncclGetLastError() returns one
 * sentence about the failure.
 *
 * \par Memory and streams
 * Calls on memory of the communicator's GPU, and on pinned memory, go to any stream of that GPU.
 * Calls on host memory complete before they return. Their stream must be null, cudaStreamLegacy or
 * cudaStreamPerThread; any other stream gives ncclInvalidArgument. So does memory of another GPU,
 * and GPU memory if the communicator has no GPU.
 *
 * \par Profilers
 * Each function has a twin with the prefix p. A profiler defines the plain name itself and calls
 * the twin. */

#include "nccl_types.h"

/* Declares a function and its twin. */
#define TUTTI_NCCL_FUNCTION(Result, name, parameters) \
  Result name parameters;                             \
  Result p##name parameters

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The library */

/** Gives the NCCL_VERSION_CODE of the library. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGetVersion, (int* version));

/** Makes an id for one communicator. This process then listens for the ranks for as long as set-up
 * may last (TUTTI_SETUP_TIMEOUT_MS). With NCCL_COMM_ID=host:port the id is derived from that
 * address: it is the same in every process, and rank 0 listens there. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * uniqueId));

/** A few words for a result; never null. */
TUTTI_NCCL_FUNCTION(const char*, ncclGetErrorString, (ncclResult_t result));

/** The sentence of the latest failure in this process; "" before the first one. `comm` may be null.
 * The text lives until this thread's next call. */
TUTTI_NCCL_FUNCTION(const char*, ncclGetLastError, (ncclComm_t comm));

/** Reads NCCL_DEBUG and related variables again. Do not use it in new programs. */
TUTTI_NCCL_FUNCTION(void, ncclResetDebugInit, (void));

/** Allocates memory for communication: at least `size` bytes, aligned to
 * NCCL_WIN_REQUIRED_ALIGNMENT. A size of 0 gives null. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclMemAlloc, (void** ptr, size_t size));

/** Frees memory of ncclMemAlloc(). Null is allowed. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclMemFree, (void* ptr));

/** Settings of what goes between hosts. Begin with NCCL_ENCRYPTION_CONFIG_INITIALIZER. */
typedef enum {
  NCCL_ENCRYPTION_MODE_NONE = 0, /* connections are proved; their data is not encrypted */
  NCCL_ENCRYPTION_MODE_PSK = 1   /* they are proved by `psk` too, and their data is encrypted */
} ncclEncryptionMode_t;

typedef struct ncclEncryptionConfig_v23200 {
  size_t size;          /* set by the initializer */
  unsigned int magic;   /* set by the initializer */
  unsigned int version; /* set by the initializer */
  int mode;
  const char* psk; /* a secret of all ranks, of any length */
} ncclEncryptionConfig_t;

/* clang-format off */
#define NCCL_ENCRYPTION_CONFIG_INITIALIZER {                                              \
  sizeof(ncclEncryptionConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE,                      \
  NCCL_ENCRYPTION_MODE_NONE, NCCL_CONFIG_UNDEF_PTR }
/* clang-format on */

/** Holds for the communicators that this process makes by an id from now on, and goes before
 * TUTTI_ENCRYPTION. It must be the same on all ranks. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclSetEncryption, (const ncclEncryptionConfig_t* config));

/* ---- Life of a communicator */

/** Joins a job as `rank` of `nranks`. Every rank calls it, from its own thread or process, or from
 * one thread inside a group. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommInitRank,
                    (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank));

/** ncclCommInitRank() with settings; null for none. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommInitRankConfig,
                    (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank,
                     ncclConfig_t* config));

/** ncclCommInitRankConfig() with `nId` ids, which must be the same in the same order on all ranks.
 * The first id is the rendezvous. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommInitRankScalable,
                    (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds,
                     ncclConfig_t* config));

/** Makes `ndev` ranks in this process. Rank i has device devlist[i]; the numbers must differ. With
 * a null `devlist` they are 0, 1 and so on. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommInitAll,
                    (ncclComm_t * comm, int ndev, const int* devlist));

/** Completes all operations. Afterwards the communicator can only be destroyed. Call it once. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommFinalize, (ncclComm_t comm));

/** Completes all operations and frees the communicator. Null is allowed. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommDestroy, (ncclComm_t comm));

/** Aborts all operations, on this rank and on the others, and frees the communicator. Any thread
 * may call it, even while another thread is inside a call on it; that call then returns. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommAbort, (ncclComm_t comm));

/** Ends all operations. Afterwards the communicator can be split, shrunk and destroyed.
 * `revokeFlags` is NCCL_REVOKE_DEFAULT. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int revokeFlags));

/** Collective. Ranks of one color (0 or more) form a new communicator, ordered by key and then by
 * rank. NCCL_SPLIT_NOCOLOR gives null. Without a config, the parent's settings hold. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommSplit,
                    (ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                     ncclConfig_t* config));

/** Makes a communicator of the calling ranks, in their order. All ranks call it except the excluded
 * ones, with the same list. `shrinkFlags` is NCCL_SHRINK_DEFAULT or NCCL_SHRINK_ABORT. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommShrink,
                    (ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                     ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags));

/** Makes an id for one ncclCommGrow() of `comm`. One rank of `comm` calls it, and gives the id to
 * the ranks that will join. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommGetUniqueId, (ncclComm_t comm, ncclUniqueId* uniqueId));

/** Makes a communicator of `nRanks`: the ranks of `comm`, which keep their numbers, and new ones.
 * Ranks of `comm` give `rank` -1; the one that made the id gives it, the others give null. New
 * ranks give a null `comm`, the id, and their rank, from the size of `comm` on. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommGrow,
                    (ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
                     ncclComm_t* newcomm, ncclConfig_t* config));

/** Gives memory back until ncclCommResume(). All ranks call it, with no operation in flight. Calls
 * in between give ncclInvalidUsage. `flags` is NCCL_SUSPEND_MEM. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommSuspend, (ncclComm_t comm, int flags));

/** Takes the memory again. All ranks call it. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommResume, (ncclComm_t comm));

typedef enum {
  ncclStatGpuMemSuspend = 0,   /* bytes that ncclCommSuspend() gives back */
  ncclStatGpuMemSuspended = 1, /* 1 while it is suspended, else 0 */
  ncclStatGpuMemPersist = 2,   /* bytes that stay */
  ncclStatGpuMemTotal = 3      /* bytes that the communicator has */
} ncclCommMemStat_t;

/** Gives one number about this rank's memory of the communicator: which one says `stat`. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommMemStats,
                    (ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value));

/** Gives the communicator's failure, if it has one. With blocking = 0 it gives ncclInProgress while
 * an operation is in flight. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommGetAsyncError,
                    (ncclComm_t comm, ncclResult_t* asyncError));

TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int* count));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int* rank));

/** Gives the number of the communicator's GPU. Without CUDA it is the one in the list of
 * ncclCommInitAll(), or 0, and has no further meaning. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int* device));

/* ---- Registered memory. Only ncclPutSignal() needs it. */

TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommRegister,
                    (const ncclComm_t comm, void* buff, size_t size, void** handle));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void* handle));

/** All ranks of the communicator call it, in the same order. `winFlags` is NCCL_WIN_DEFAULT, or
 * NCCL_WIN_COLL_SYMMETRIC and NCCL_WIN_STRICT_ORDERING, one or both. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommWindowRegister,
                    (ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win));

/** Gives the `buff` that was registered. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclWinGetUserPtr,
                    (ncclComm_t comm, ncclWindow_t win, void** outUserPtr));

/* ---- Reductions of one communicator */

/** Makes a reduction: the sum of each rank's input times the rank's own scalar. It is for calls on
 * `comm` with `datatype`. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclRedOpCreatePreMulSum,
                    (ncclRedOp_t * op, void* scalar, ncclDataType_t datatype,
                     ncclScalarResidence_t residence, ncclComm_t comm));

/** Destroys a reduction. It may directly follow the last call that uses the reduction. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm));

/* ---- Collectives. All ranks call the same collectives in the same order. Counts are elements. A
 * count of 0 moves nothing, and must then be 0 on all ranks. Buffers may overlap only as "in place"
 * says. */

/** The root's recvbuff receives the reduction. In place: sendbuff == recvbuff. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclReduce,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream));

/** Copies the root's buff to every rank's buff: an ncclBroadcast() in place. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclBcast,
                    (void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                     cudaStream_t stream));

/** Copies the root's sendbuff to every rank's recvbuff. In place: sendbuff == recvbuff. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclBroadcast,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     int root, ncclComm_t comm, cudaStream_t stream));

/** Every recvbuff receives the reduction, with the same bits. In place: sendbuff == recvbuff. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclAllReduce,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream));

/** sendbuff has a block of recvcount elements for each rank. recvbuff receives the reduction of
 * this rank's block. In place: recvbuff == sendbuff + rank * recvcount. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclReduceScatter,
                    (const void* sendbuff, void* recvbuff, size_t recvcount,
                     ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                     cudaStream_t stream));

/** recvbuff receives the blocks of all ranks, sendcount elements each. In place: sendbuff ==
 * recvbuff + rank * sendcount. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclAllGather,
                    (const void* sendbuff, void* recvbuff, size_t sendcount,
                     ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream));

/** Block j of sendbuff goes to rank j; block i of recvbuff comes from rank i. Each has count
 * elements. In place: sendbuff == recvbuff. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclAlltoAll,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     ncclComm_t comm, cudaStream_t stream));

/** The root's recvbuff receives the blocks of all ranks. In place at the root: sendbuff ==
 * recvbuff + root * count. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGather,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     int root, ncclComm_t comm, cudaStream_t stream));

/** recvbuff receives this rank's block of the root's sendbuff. In place at the root: recvbuff ==
 * sendbuff + root * count. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclScatter,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     int root, ncclComm_t comm, cudaStream_t stream));

/* ---- Collectives with settings of their own; null for none. */

TUTTI_NCCL_FUNCTION(ncclResult_t, ncclAllReduceConfig,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
                     const ncclCollConfig_t* config));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclBroadcastConfig,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     int root, ncclComm_t comm, cudaStream_t stream,
                     const ncclCollConfig_t* config));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclReduceConfig,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream,
                     const ncclCollConfig_t* config));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclAllGatherConfig,
                    (const void* sendbuff, void* recvbuff, size_t sendcount,
                     ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                     const ncclCollConfig_t* config));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclReduceScatterConfig,
                    (const void* sendbuff, void* recvbuff, size_t recvcount,
                     ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
                     const ncclCollConfig_t* config));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclAlltoAllConfig,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGatherConfig,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     int root, ncclComm_t comm, cudaStream_t stream,
                     const ncclCollConfig_t* config));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclScatterConfig,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     int root, ncclComm_t comm, cudaStream_t stream,
                     const ncclCollConfig_t* config));

/* ---- Sends and receives. Between two ranks they match in order and have the same count, which may
 * be 0. Put sends and receives that wait for each other into one group. A send and a receive of a
 * rank to itself belong into one group, too. */

TUTTI_NCCL_FUNCTION(ncclResult_t, ncclSend,
                    (const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                     ncclComm_t comm, cudaStream_t stream));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclRecv,
                    (void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                     ncclComm_t comm, cudaStream_t stream));

/* ---- One-sided calls: the peer calls nothing. A rank counts its signals for each pair of ranks,
 * `sigIdx` (0 to numRmaSig - 1 of the communicator's settings) and `ctx` (0 to numRmaCtx - 1).
 * `flags` is 0. */

/** Copies `localbuff` to `peerWinOffset` bytes in the peer's window, then adds one to a signal of
 * the peer. What one rank puts to a peer in one context arrives in order. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclPutSignal,
                    (const void* localbuff, size_t count, ncclDataType_t datatype, int peer,
                     ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                     unsigned int flags, ncclComm_t comm, cudaStream_t stream));

/** Adds one to a signal of the peer. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclSignal,
                    (int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                     cudaStream_t stream));

typedef struct {
  int opCnt; /* how many signals */
  int peer;  /* of which rank */
  int sigIdx;
  int ctx;
} ncclWaitSignalDesc_t;

/** Waits until all these signals have come, besides those of earlier waits. What was put with them
 * is there then. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclWaitSignal,
                    (int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm,
                     cudaStream_t stream));

/* ---- Groups. The outermost ncclGroupEnd() makes all calls of this thread since the outermost
 * ncclGroupStart() together. If a call fails, ncclGroupEnd() fails with its result, and no call of
 * the group is made. A group either makes communicators or has calls on communicators, not both. */

TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGroupStart, (void));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGroupEnd, (void));

/** Ends a group without making its calls, and estimates how long they would take. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t * simInfo));

/* ---- Settings of the process: environment variables of NCCL that have a meaning here, and
 * Tutti's. Texts live until the same thread's next call. */

typedef struct ncclParamHandle* ncclParamHandle_t;

/** Gives the handle of the setting that is named `key`. Nobody frees it. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamBind, (ncclParamHandle_t * out, const char* key));

/* The value as a number; ncclInvalidArgument if it is none, or does not fit. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGetI8, (ncclParamHandle_t h, int8_t* out));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGetI16, (ncclParamHandle_t h, int16_t* out));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGetI32, (ncclParamHandle_t h, int32_t* out));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGetI64, (ncclParamHandle_t h, int64_t* out));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGetU8, (ncclParamHandle_t h, uint8_t* out));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGetU16, (ncclParamHandle_t h, uint16_t* out));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGetU32, (ncclParamHandle_t h, uint32_t* out));
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGetU64, (ncclParamHandle_t h, uint64_t* out));

/** The value as text; "" if it is not set. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGetStr, (ncclParamHandle_t h, const char** out));

/** Copies that text, `len` bytes without a terminator. ncclInvalidArgument if it has more than
 * `maxLen`. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGet,
                    (ncclParamHandle_t h, void* out, int maxLen, int* len));

/** ncclParamBind() and ncclParamGetStr() in one. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGetParameter,
                    (const char* key, const char** value, int* valueLen));

/** Gives the names of all settings. */
TUTTI_NCCL_FUNCTION(ncclResult_t, ncclParamGetAllParameterKeys,
                    (const char*** table, int* tableLen));

/** Writes all settings to the log. */
TUTTI_NCCL_FUNCTION(void, ncclParamDumpAll, (void));

#ifdef __cplusplus
}
#endif

#undef TUTTI_NCCL_FUNCTION

#endif
