/* What ends badly: abort, revoke, deaths, ranks that never come, disagreement. */

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

/* Until set-up has ended for every rank: who aborts before ends that of the others. */
static void await_all(const Rank* rank) {
  enum { kFlag = 15 };
  raise_flag(rank->shared, kFlag);
  await_flag(rank->shared, kFlag, rank->size);
}

/* Set-up that cannot end, because nobody else comes, is given up at once. */
static void abort_of_set_up(void) {
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = NULL;
  CHECK_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInProgress);
  nap(50);
  ncclResult_t state = ncclSuccess;
  OK(ncclCommGetAsyncError(comm, &state));
  CHECK_EQ(state, ncclInProgress);
  FAILS(ncclCommDestroy(comm), ncclInvalidArgument, "being made");
  OK(ncclCommAbort(comm));
  FAILS(ncclCommGetAsyncError(comm, &state), ncclInvalidArgument, "destroyed");
}

/* Then the one that comes too late hears of it, and does not wait for its deadline. */
static void late(const Rank* rank) {
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = NULL;
  if (rank->rank == 0) {
    CHECK_EQ(ncclCommInitRankConfig(&comm, 2, rank->id, 0, &config), ncclInProgress);
    nap(50);
    OK(ncclCommAbort(comm));
    raise_flag(rank->shared, 0);
    await_flag(rank->shared, 1, 1);
  } else {
    await_flag(rank->shared, 0, 1);
    nap(300);
    CHECK(ncclCommInitRank(&comm, 2, rank->id, 1) != ncclSuccess);
    CHECK(comm == NULL);
    raise_flag(rank->shared, 1);
  }
}
static void late_rank_hears_of_abort(void) { run_processes(2, late, -1); }

typedef struct {
  ncclComm_t comm;
  ncclResult_t result;
  atomic_int inside;
} Waiter;

static void* wait_in_all_reduce(void* argument) {
  Waiter* waiter = argument;
  float x[1000] = {1}, y[1000];
  atomic_store(&waiter->inside, 1);
  waiter->result = ncclAllReduce(x, y, 1000, ncclFloat, ncclSum, waiter->comm, NULL);
  return NULL;
}

/* While a thread waits in a call, another aborts; the other rank hears of it. */
static void abort_while_waiting(const Rank* rank) {
  ncclComm_t comm = join(rank);
  await_all(rank);
  if (rank->rank == 0) {
    Waiter waiter = {.comm = comm, .result = ncclSuccess};
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, wait_in_all_reduce, &waiter), 0);
    while (!atomic_load(&waiter.inside)) nap(1);
    nap(50);
    OK(ncclCommAbort(comm));
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(waiter.result, ncclInvalidUsage);
    raise_flag(rank->shared, 0);
  } else {
    await_flag(rank->shared, 0, 1);
    float x = 1;
    FAILS(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, NULL), ncclRemoteError, "rank 0");
    CHECK_EQ(settle(comm), ncclRemoteError);
    OK(ncclCommAbort(comm));
  }
}
static void abort_from_another_thread(void) { run_processes(2, abort_while_waiting, -1); }

/* A rank without a call hears of it when it makes one. */
static void abort_unblocked(const Rank* rank) {
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = NULL;
  CHECK_EQ(ncclCommInitRankConfig(&comm, rank->size, rank->id, rank->rank, &config),
           ncclInProgress);
  CHECK_EQ(settle(comm), ncclSuccess);
  await_all(rank);
  if (rank->rank == 0) {
    static float x[100000], y[100000];
    CHECK_EQ(ncclAllReduce(x, y, 100000, ncclFloat, ncclSum, comm, NULL), ncclInProgress);
    OK(ncclCommAbort(comm));
    raise_flag(rank->shared, 0);
  } else {
    await_flag(rank->shared, 0, 1);
    stays_well(comm);
    float x = 1;
    FAILS(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, NULL), ncclRemoteError, "rank 0");
    CHECK_EQ(settle(comm), ncclRemoteError);
    OK(ncclCommDestroy(comm));
  }
}
static void abort_of_nonblocking_call(void) { run_processes(2, abort_unblocked, -1); }

/* Rank 1 does not come to the split: aborting the parent ends it, and the child can be aborted. */
static void abort_split(const Rank* rank) {
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = NULL, part = NULL;
  ncclResult_t state = ncclSuccess;
  OK(ncclCommInitRank(&comm, rank->size, rank->id, rank->rank));
  await_all(rank);
  if (rank->rank == 0) {
    CHECK_EQ(ncclCommSplit(comm, 0, 0, &part, &config), ncclInProgress);
    OK(ncclCommGetAsyncError(comm, &state));
    CHECK_EQ(state, ncclInProgress);
    FAILS(ncclCommDestroy(comm), ncclInvalidArgument, "being made");
    OK(ncclCommAbort(comm));
    CHECK(settle(part) != ncclSuccess);
    OK(ncclCommAbort(part));
    raise_flag(rank->shared, 0);
  } else {
    await_flag(rank->shared, 0, 1);
    OK(ncclCommAbort(comm));
  }
}
static void abort_of_split(void) { run_processes(2, abort_split, -1); }

static void* sum_until_it_fails(void* argument) {
  Waiter* waiter = argument;
  float x = 1;
  atomic_store(&waiter->inside, 1);
  do waiter->result = ncclAllReduce(&x, &x, 1, ncclFloat, ncclMax, waiter->comm, NULL);
  while (waiter->result == ncclSuccess);
  return NULL;
}

/* After a revocation on all ranks the communicator has no calls, but children. */
static void revoke_and_go_on(const Rank* rank) {
  ncclComm_t comm = join(rank), part = NULL, fewer = NULL;
  float x = 1;
  await_all(rank);
  FAILS(ncclCommRevoke(comm, 1), ncclInvalidArgument, "revokeFlags");
  Waiter waiter = {.comm = comm, .result = ncclSuccess};
  pthread_t thread;
  CHECK_EQ(pthread_create(&thread, NULL, sum_until_it_fails, &waiter), 0);
  while (!atomic_load(&waiter.inside)) nap(1);
  nap(20 * rank->rank);
  OK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
  CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK(waiter.result == ncclInvalidUsage || waiter.result == ncclRemoteError);
  CHECK_EQ(settle(comm), ncclSuccess);
  FAILS(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, NULL), ncclInvalidUsage, "revoked");
  FAILS(ncclCommFinalize(comm), ncclInvalidUsage, "revoked");
  FAILS(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT), ncclInvalidUsage, "revoked before");
  OK(ncclCommSplit(comm, rank->rank == 0, 0, &part, NULL));
  int count = 0, last = rank->size - 1;
  OK(ncclCommCount(part, &count));
  CHECK_EQ(count, rank->rank == 0 ? 1 : rank->size - 1);
  OK(ncclCommDestroy(part));
  if (rank->rank != last) {
    OK(ncclCommShrink(comm, &last, 1, &fewer, NULL, NCCL_SHRINK_DEFAULT));
    OK(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, fewer, NULL));
    OK(ncclCommDestroy(fewer));
  }
  OK(ncclCommDestroy(comm));
}
static void revocation(void) { run_processes(3, revoke_and_go_on, -1); }

/* A rank is killed: the others' calls fail, and they go on without it. */
static void death(const Rank* rank) {
  ncclComm_t comm = join(rank), fewer = NULL;
  float x = 1;
  int dead = 1, count = 0;
  OK(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, NULL));
  await_all(rank);
  if (rank->rank == dead) raise(SIGKILL);
  FAILS(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, NULL), ncclRemoteError, "rank 1");
  ncclResult_t state = ncclSuccess;
  OK(ncclCommGetAsyncError(comm, &state));
  CHECK_EQ(state, ncclRemoteError);
  CHECK_EQ(ncclCommShrink(comm, &dead, 1, &fewer, NULL, NCCL_SHRINK_DEFAULT), ncclRemoteError);
  OK(ncclCommShrink(comm, &dead, 1, &fewer, NULL, NCCL_SHRINK_ABORT));
  OK(ncclCommCount(fewer, &count));
  CHECK_EQ(count, rank->size - 1);
  x = 1;
  OK(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, fewer, NULL));
  CHECK_EQ(x, 2);
  OK(ncclCommDestroy(fewer));
  OK(ncclCommAbort(comm));
}
static void death_of_a_rank(void) { run_processes(3, death, 1); }

/* Without blocking it is the asynchronous error that tells. */
static void quiet_death(const Rank* rank) {
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = NULL;
  CHECK_EQ(ncclCommInitRankConfig(&comm, rank->size, rank->id, rank->rank, &config),
           ncclInProgress);
  CHECK_EQ(settle(comm), ncclSuccess);
  await_all(rank);
  float x = 1;
  if (rank->rank == 0) {
    await_flag(rank->shared, 0, 1);
    raise(SIGKILL);
  }
  CHECK_EQ(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, NULL), ncclInProgress);
  raise_flag(rank->shared, 0);
  CHECK_EQ(settle(comm), ncclRemoteError);
  OK(ncclCommAbort(comm));
}
static void death_is_an_asynchronous_error(void) { run_processes(2, quiet_death, 0); }

/* Shrinking ends what the parent still does: here a call that one rank never makes. */
static void shrink_busy(const Rank* rank) {
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = NULL, fewer = NULL;
  CHECK_EQ(ncclCommInitRankConfig(&comm, rank->size, rank->id, rank->rank, &config),
           ncclInProgress);
  CHECK_EQ(settle(comm), ncclSuccess);
  await_all(rank);
  int out = 2;
  float x = 1;
  if (rank->rank != out) {
    CHECK_EQ(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, NULL), ncclInProgress);
    FAILS(ncclCommShrink(comm, &out, 1, &fewer, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument,
          "under way");
    raise_flag(rank->shared, 0);
    await_flag(rank->shared, 0, 2);
    CHECK_EQ(ncclCommShrink(comm, &out, 1, &fewer, NULL, NCCL_SHRINK_ABORT), ncclInProgress);
    CHECK_EQ(settle(fewer), ncclSuccess);
    CHECK_EQ(settle(comm), ncclRemoteError);
    raise_flag(rank->shared, 1);
    OK(ncclCommDestroy(fewer));
  }
  await_flag(rank->shared, 1, 2);
  OK(ncclCommAbort(comm));
}
static void shrink_ends_calls(void) { run_processes(3, shrink_busy, -1); }

static void disagree(const Rank* rank) {
  ncclComm_t comm = join(rank);
  float x[8] = {1};
  FAILS(ncclAllReduce(x, x, rank->rank == 0 ? 4 : 8, ncclFloat, ncclSum, comm, NULL),
        ncclInvalidUsage, "disagree");
  CHECK_EQ(settle(comm), ncclInvalidUsage);
  OK(ncclCommAbort(comm));
}
static void disagreement(void) { run_processes(2, disagree, -1); }

/* ncclChar is ncclInt8, but ncclUint8 is another type. */
static void send_another_type(const Rank* rank) {
  ncclComm_t comm = join(rank);
  const char* const both = "rank 1 receives 8 int8 from rank 0, which sends 8 uint8";
  char x[8] = {1};
  if (rank->rank == 0) {
    OK(ncclSend(x, 8, ncclChar, 1, comm, NULL));
    OK(ncclSend(x, 8, ncclUint8, 1, comm, NULL));
    FAILS(ncclAllReduce(x, x, 8, ncclInt8, ncclSum, comm, NULL), ncclInvalidUsage, both);
  } else {
    OK(ncclRecv(x, 8, ncclInt8, 0, comm, NULL));
    FAILS(ncclRecv(x, 8, ncclInt8, 0, comm, NULL), ncclInvalidUsage, both);
  }
  OK(ncclCommAbort(comm));
}
static void disagreement_about_types(void) { run_processes(2, send_another_type, -1); }

/* Programs that never destroy their communicators: what they sent arrives, and the others hear that
 * they have left when they need more. */
static void exit_early(const Rank* rank) {
  enum { kCount = 100000 };
  static float x[kCount];
  ncclComm_t comm = join(rank), others = NULL;
  OK(ncclCommSplit(comm, rank->rank == 0 ? NCCL_SPLIT_NOCOLOR : 0, 0, &others, NULL));
  if (rank->rank == 0) {
    x[kCount - 1] = 7;
    OK(ncclSend(x, kCount, ncclFloat, 1, comm, NULL));
    exit(0);
  }
  nap(300);
  if (rank->rank == 1) {
    OK(ncclRecv(x, kCount, ncclFloat, 0, comm, NULL));
    CHECK(x[kCount - 1] == 7);
  }
  for (int k = 0; k < 200; ++k) {
    int one = 1;
    OK(ncclAllReduce(&one, &one, 1, ncclInt, ncclSum, others, NULL));
    CHECK_EQ(one, 2);
  }
  if (rank->rank == 1)
    FAILS(ncclRecv(x, kCount, ncclFloat, 0, comm, NULL), ncclRemoteError, ") left");
  exit(0);
}
static void exits_without_destroying(void) { run_processes(3, exit_early, -1); }

/* A parent's communicators do not work in a forked child, and say so. */
static void forked_child(void) {
  ncclComm_t comm = NULL;
  float x = 1;
  OK(ncclCommInitAll(&comm, 1, NULL));
  fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) {
    FAILS(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, NULL), ncclInvalidUsage, "fork");
    _Exit(0);
  }
  int status = -1;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  OK(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, NULL));
  OK(ncclCommDestroy(comm));
}

const Case failure_cases[] = {
    {"failure/abort_of_set_up", abort_of_set_up},
    {"failure/late_rank_hears_of_abort", late_rank_hears_of_abort},
    {"failure/abort_from_another_thread", abort_from_another_thread},
    {"failure/abort_of_nonblocking_call", abort_of_nonblocking_call},
    {"failure/abort_of_split", abort_of_split},
    {"failure/revocation", revocation},
    {"failure/death_of_a_rank", death_of_a_rank},
    {"failure/death_is_an_asynchronous_error", death_is_an_asynchronous_error},
    {"failure/shrink_ends_calls", shrink_ends_calls},
    {"failure/disagreement", disagreement},
    {"failure/disagreement_about_types", disagreement_about_types},
    {"failure/exits_without_destroying", exits_without_destroying},
    {"failure/forked_child", forked_child},
    {NULL, NULL},
};
