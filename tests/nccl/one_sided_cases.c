/* Windows and one-sided calls on host memory. With an older header there is nothing to test. */

#include "harness.h"

#if NCCL_VERSION_CODE >= 23203
#include <signal.h>
#include <unistd.h>

#include <nccl_device.h>

enum { kCount = 100000, kSignals = 3, kContexts = 2 };

static ncclComm_t join_with_signals(const Rank* rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.numRmaSig = kSignals;
  config.numRmaCtx = kContexts;
  ncclComm_t comm = NULL;
  OK(ncclCommInitRankConfig(&comm, rank->size, rank->id, rank->rank, &config));
  return comm;
}

static ncclResult_t wait_for(ncclComm_t comm, int peer, int signal, int context, int count) {
  ncclWaitSignalDesc_t one = {.opCnt = count, .peer = peer, .sigIdx = signal, .ctx = context};
  return ncclWaitSignal(1, &one, comm, NULL);
}

static void barrier(ncclComm_t comm) {
  int x = 1;
  OK(ncclAllReduce(&x, &x, 1, ncclInt, ncclSum, comm, NULL));
}

/* Each rank puts to the next one, by each signal of each context, into memory that other ranks
 * address and into other memory. */
static void ring_of_rank(const Rank* rank) {
  ncclComm_t comm = join_with_signals(rank);
  const int next = (rank->rank + 1) % rank->size;
  const int before = (rank->rank + rank->size - 1) % rank->size;
  int* buffers[2] = {NULL, malloc(kCount * sizeof(int))};
  OK(ncclMemAlloc((void**)&buffers[0], kCount * sizeof(int)));
  int* data = malloc(kCount * sizeof(int));
  ncclWindow_t windows[2] = {NULL, NULL};
  for (int w = 0; w < 2; ++w)
    OK(ncclCommWindowRegister(comm, buffers[w], kCount * sizeof(int), &windows[w],
                              NCCL_WIN_COLL_SYMMETRIC));
  for (int turn = 0; turn < 2 * kSignals * kContexts; ++turn) {
    const int w = turn % 2, signal = turn / 2 % kSignals, context = turn / 2 / kSignals;
    for (int i = 0; i < kCount; ++i) data[i] = turn * 1000 + rank->rank + i;
    OK(ncclPutSignal(data, kCount - 10, ncclInt, next, windows[w], 10 * sizeof(int), signal,
                     context, 0, comm, NULL));
    OK(ncclSignal(next, signal, context, 0, comm, NULL));
    OK(wait_for(comm, before, signal, context, 1));
    for (int i = 10; i < kCount; ++i) CHECK_EQ(buffers[w][i], turn * 1000 + before + i - 10);
    OK(wait_for(comm, before, signal, context, 1));
    barrier(comm);
  }
  /* The first has been taken with the communicator. */
  OK(ncclCommWindowDeregister(comm, windows[1]));
  OK(ncclCommDestroy(comm));
  OK(ncclMemFree(buffers[0]));
  free(buffers[1]);
  free(data);
}
static void ring(void) { run_processes(3, ring_of_rank, -1); }
static void threads(void) { run_threads(3, ring_of_rank); }

/* One thread that has all ranks: in a group a wait does not hold back the puts behind it. */
static void groups(void) {
  ncclComm_t comms[3];
  long long buffers[3][3] = {{0}}, values[3];
  ncclWindow_t windows[3];
  OK(ncclCommInitAll(comms, 3, NULL));
  OK(ncclGroupStart());
  for (int r = 0; r < 3; ++r)
    OK(ncclCommWindowRegister(comms[r], buffers[r], sizeof buffers[r], &windows[r], 0));
  OK(ncclGroupEnd());
  for (int round = 1; round < 4; ++round) {
    OK(ncclGroupStart());
    for (int r = 0; r < 3; ++r) {
      ncclWaitSignalDesc_t all[3];
      values[r] = 10 * round + r;
      for (int peer = 0; peer < 3; ++peer) {
        all[peer] = (ncclWaitSignalDesc_t){.opCnt = 2, .peer = peer};
        OK(ncclPutSignal(&values[r], 1, ncclInt64, peer, windows[r], (size_t)r * sizeof(long long),
                         0, 0, 0, comms[r], NULL));
      }
      OK(ncclWaitSignal(3, all, comms[r], NULL));
      for (int peer = 0; peer < 3; ++peer) OK(ncclSignal(peer, 0, 0, 0, comms[r], NULL));
    }
    OK(ncclGroupEnd());
    for (int r = 0; r < 3; ++r)
      for (int peer = 0; peer < 3; ++peer) CHECK_EQ(buffers[r][peer], 10 * round + peer);
  }
  for (int r = 0; r < 3; ++r) OK(ncclCommDestroy(comms[r]));
}

/* Addresses, where the memory is the library's. */
static void pointers_of_rank(const Rank* rank) {
  ncclComm_t comm = join(rank);
  int *mapped = NULL, own[4] = {0};
  OK(ncclMemAlloc((void**)&mapped, 16));
  ncclWindow_t windows[2] = {NULL};
  OK(ncclCommWindowRegister(comm, mapped, 16, &windows[0], NCCL_WIN_COLL_SYMMETRIC));
  OK(ncclCommWindowRegister(comm, own, 16, &windows[1], NCCL_WIN_STRICT_ORDERING));
  void* at = NULL;
  OK(ncclWinGetUserPtr(comm, windows[1], &at));
  CHECK(at == own);
  const ncclTeam_t team = ncclTeamLsa(comm), rail = ncclTeamRail(comm);
  CHECK(team.nRanks == rank->size && team.rank == rank->rank && team.stride == 1);
  CHECK(rail.nRanks == 1 && rail.rank == 0);
  for (int peer = 0; peer < rank->size; ++peer) {
    OK(ncclGetPeerDevicePointer(windows[0], 4, peer, &at));
    CHECK(at && (peer != rank->rank || at == mapped + 1));
    void* lsa = NULL;
    OK(ncclGetLsaDevicePointer(windows[0], 4, peer, &lsa));
    CHECK(lsa == at);
    if (peer == (rank->rank + 1) % rank->size) *(int*)at = 70 + rank->rank;
    OK(ncclGetPeerDevicePointer(windows[1], 0, peer, &at));
    CHECK(peer == rank->rank ? at == own : at == NULL);
  }
  barrier(comm);
  CHECK_EQ(mapped[1], 70 + (rank->rank + rank->size - 1) % rank->size);
  FAILS(ncclGetPeerDevicePointer(windows[0], 16, 0, &at), ncclInvalidArgument, "offset 16");
  FAILS(ncclGetPeerDevicePointer(windows[0], 0, rank->size, &at), ncclInvalidArgument, "peer");
  FAILS(ncclGetLsaDevicePointer(windows[0], 0, -1, &at), ncclInvalidArgument, "lsaRank -1");
  FAILS(ncclGetPeerDevicePointer((ncclWindow_t)own, 0, 0, &at), ncclInvalidArgument, "no window");
  FAILS(ncclGetPeerDevicePointer(windows[0], 0, 0, NULL), ncclInvalidArgument, "outPtr is null");
  at = windows;
  OK(ncclGetLsaMultimemDevicePointer(windows[0], 0, &at));
  CHECK(at == NULL);
  at = windows;
  OK(ncclGetMultimemDevicePointer(windows[0], 0, (ncclMultimemHandle_t){NULL}, &at));
  CHECK(at == NULL);
  FAILS(ncclGetLsaMultimemDevicePointer(windows[0], 0, NULL), ncclInvalidArgument, "null");
  FAILS(ncclGetLsaMultimemDevicePointer(NULL, 0, &at), ncclInvalidArgument, "null");
  barrier(comm);
  OK(ncclCommDestroy(comm));
  OK(ncclMemFree(mapped));
}
static void pointers(void) { run_processes(2, pointers_of_rank, -1); }

static void refusals(void) {
  ncclComm_t comms[2];
  int word = 0;
  ncclWindow_t windows[2];
  void* at = NULL;
  OK(ncclCommInitAll(comms, 2, NULL));
  FAILS(ncclSignal(1, 0, 0, 0, comms[0], NULL), ncclInvalidUsage, "signal needs a window");
  for (int r = 0; r < 2; ++r)
    OK(ncclCommWindowRegister(comms[r], &word, sizeof word, &windows[r], NCCL_WIN_DEFAULT));
#define PUT(data, type, peer, window, offset, signal, context, flags) \
  ncclPutSignal(data, 1, type, peer, window, offset, signal, context, flags, comms[0], NULL)
  FAILS(PUT(&word, ncclInt, 1, NULL, 0, 0, 0, 0), ncclInvalidArgument, "the window is null");
  FAILS(PUT(&word, ncclInt, 1, windows[1], 0, 0, 0, 0), ncclInvalidArgument, "another comm");
  FAILS(PUT(&word, ncclInt, 2, windows[0], 0, 0, 0, 0), ncclInvalidArgument, "peer 2");
  FAILS(PUT(&word, ncclInt, 1, windows[0], 1, 0, 0, 0), ncclInvalidArgument, "do not fit");
  FAILS(PUT(&word, ncclInt64, 1, windows[0], 0, 0, 0, 0), ncclInvalidArgument, "do not fit");
  FAILS(PUT(&word, 77, 1, windows[0], 0, 0, 0, 0), ncclInvalidArgument, "77");
  FAILS(PUT(NULL, ncclInt, 1, windows[0], 0, 0, 0, 0), ncclInvalidArgument, "null");
  FAILS(PUT(&word, ncclInt, 1, windows[0], 0, 1, 0, 0), ncclInvalidArgument, "numRmaSig");
  FAILS(PUT(&word, ncclInt, 1, windows[0], 0, 0, 1, 0), ncclInvalidArgument, "numRmaCtx");
  FAILS(PUT(&word, ncclInt, 1, windows[0], 0, 0, 0, 1), ncclInvalidArgument, "flags is 1");
  FAILS(ncclSignal(1, -1, 0, 0, comms[0], NULL), ncclInvalidArgument, "sigIdx is -1");
  FAILS(ncclSignal(-1, 0, 0, 0, comms[0], NULL), ncclInvalidArgument, "peer -1");
  FAILS(ncclSignal(1, 0, 0, 5, comms[0], NULL), ncclInvalidArgument, "flags is 5");
  FAILS(ncclSignal(1, 0, 0, 0, NULL, NULL), ncclInvalidArgument, "communicator is null");
  FAILS(ncclWaitSignal(1, NULL, comms[0], NULL), ncclInvalidArgument, "nDesc is 1");
  FAILS(ncclWaitSignal(-1, NULL, comms[0], NULL), ncclInvalidArgument, "nDesc is -1");
  FAILS(wait_for(comms[0], 1, 0, 0, -1), ncclInvalidArgument, "opCnt of signalDescs[0] is -1");
  FAILS(wait_for(comms[0], 1, 7, 0, 1), ncclInvalidArgument, "sigIdx is 7");
  OK(ncclWaitSignal(0, NULL, comms[0], NULL));
  OK(wait_for(comms[0], 1, 0, 0, 0));
  FAILS(ncclWinGetUserPtr(comms[1], windows[0], &at), ncclInvalidArgument, "another comm");
  FAILS(ncclWinGetUserPtr(comms[0], windows[0], NULL), ncclInvalidArgument, "null");
  FAILS(ncclCommWindowDeregister(comms[1], windows[0]), ncclInvalidArgument, "another comm");
  /* In a group a call that is refused spoils the group. */
  OK(ncclGroupStart());
  OK(ncclSignal(1, 0, 0, 0, comms[0], NULL));
  FAILS(ncclSignal(5, 0, 0, 0, comms[0], NULL), ncclInvalidArgument, "peer 5");
  CHECK_EQ(ncclGroupEnd(), ncclInvalidArgument);
  OK(ncclSignal(1, 0, 0, 0, comms[0], NULL));
  OK(wait_for(comms[1], 0, 0, 0, 1));
  for (int r = 0; r < 2; ++r) OK(ncclCommDestroy(comms[r]));
  FAILS(ncclGetPeerDevicePointer(windows[0], 0, 0, &at), ncclInvalidArgument, "no window");
}

static void nonblocking_of_rank(const Rank* rank) {
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = NULL;
  const ncclResult_t made =
      ncclCommInitRankConfig(&comm, rank->size, rank->id, rank->rank, &config);
  CHECK(made == ncclSuccess || made == ncclInProgress);
  OK(settle(comm));
  int buffer = 0, value = 30 + rank->rank;
  ncclWindow_t window = NULL;
  OK(ncclCommWindowRegister(comm, &buffer, sizeof buffer, &window, 0));
  const int peer = 1 - rank->rank;
  ncclResult_t result = ncclPutSignal(&value, 1, ncclInt, peer, window, 0, 0, 0, 0, comm, NULL);
  CHECK(result == ncclSuccess || result == ncclInProgress);
  OK(settle(comm));
  result = wait_for(comm, peer, 0, 0, 1);
  CHECK(result == ncclSuccess || result == ncclInProgress);
  OK(settle(comm));
  CHECK_EQ(buffer, 30 + peer);
  raise_flag(rank->shared, 0);
  await_flag(rank->shared, 0, rank->size);
  OK(ncclCommDestroy(comm));
}
static void in_progress(void) { run_processes(2, nonblocking_of_rank, -1); }

/* Rank 1 dies while the others put to it and wait for it. */
static void death_of_rank(const Rank* rank) {
  ncclComm_t comm = join(rank);
  int* buffer = calloc(kCount, sizeof(int));
  ncclWindow_t window = NULL;
  OK(ncclCommWindowRegister(comm, buffer, kCount * sizeof(int), &window, 0));
  barrier(comm);
  raise_flag(rank->shared, 0);
  if (rank->rank == 1) {
    await_flag(rank->shared, 0, rank->size);
    nap(100);
    raise(SIGKILL);
  }
  ncclResult_t result = ncclSuccess;
  while (result == ncclSuccess)
    result = rank->rank == 0
                 ? wait_for(comm, 1, 0, 0, 1)
                 : ncclPutSignal(buffer, kCount, ncclInt, 1, window, 0, 0, 0, 0, comm, NULL);
  CHECK_EQ(result, ncclRemoteError);
  HAS(ncclGetLastError(NULL), "rank 1 (pid ");
  OK(ncclCommAbort(comm));
}
static void death(void) { run_processes(3, death_of_rank, 1); }

/* A communicator that is made of another has that one's signals, whatever its config says. */
static void signals_of_a_child(void) {
  ncclComm_t comm, child;
  OK(ncclCommInitAll(&comm, 1, NULL));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.numRmaSig = 8;
  OK(ncclCommSplit(comm, 0, 0, &child, &config));
  FAILS(ncclSignal(0, 1, 0, 0, child, NULL), ncclInvalidArgument, "not 0 to 0");
  OK(ncclCommDestroy(child));
  OK(ncclCommDestroy(comm));
}

static void no_signals(void) {
  ncclUniqueId id;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.numRmaSig = 0;
  ncclComm_t comm = NULL;
  ncclWindow_t window = NULL;
  int word = 0;
  OK(ncclGetUniqueId(&id));
  OK(ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  OK(ncclCommWindowRegister(comm, &word, sizeof word, &window, NCCL_WIN_DEFAULT));
  FAILS(ncclSignal(0, 0, 0, 0, comm, NULL), ncclInvalidArgument, "need at least 1 of each");
  ncclCommProperties_t p = NCCL_COMM_PROPERTIES_INITIALIZER;
  OK(ncclCommQueryProperties(comm, &p));
  CHECK(!p.hostRmaSupport);
  OK(ncclCommDestroy(comm));
}

const Case one_sided_cases[] = {{"one_sided/signals_of_a_child", signals_of_a_child},
                                {"one_sided/no_signals", no_signals},
                                {"one_sided/ring", ring},
                                {"one_sided/threads", threads},
                                {"one_sided/groups", groups},
                                {"one_sided/pointers", pointers},
                                {"one_sided/refusals", refusals},
                                {"one_sided/nonblocking", in_progress},
                                {"one_sided/death", death},
                                {NULL, NULL}};
#else
const Case one_sided_cases[] = {{NULL, NULL}};
#endif
