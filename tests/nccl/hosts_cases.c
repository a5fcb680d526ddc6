/* What there is between hosts alone: calls of every kind over four of them, and how each failure is
 * told by the ranks of other hosts. hosts_main.cc makes the hosts. */

#include "hosts.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "harness.h"

static const Hosts* hosts = NULL;

/* ---- what works */

enum { kCount = 1 << 14 }; /* elements of most calls: several messages */

/* A sum of which every rank knows every element. The result of the call, or of what it goes on as.
 */
static ncclResult_t sum(ncclComm_t comm, int size, int rank) {
  static float x[kCount], y[kCount];
  for (int i = 0; i < kCount; ++i) x[i] = (float)(rank + i % 100);
  ncclResult_t result = ncclAllReduce(x, y, kCount, ncclFloat, ncclSum, comm, NULL);
  if (result == ncclInProgress) result = settle(comm);
  for (int i = 0; result == ncclSuccess && i < kCount; ++i)
    CHECK_EQ(y[i], size * (size - 1) / 2 + size * (i % 100));
  return result;
}

/* What the ranks of a communicator, old or new, can do: a sum, and a ring of messages. */
static void check_calls(ncclComm_t comm, int size) {
  static int out[kCount], in[kCount];
  int count = 0, rank = -1;
  OK(ncclCommCount(comm, &count));
  CHECK_EQ(count, size);
  OK(ncclCommUserRank(comm, &rank));
  CHECK_EQ(sum(comm, size, rank), ncclSuccess);
  const int before = (rank + size - 1) % size;
  for (int i = 0; i < kCount; ++i) out[i] = rank * kCount + i;
  OK(ncclGroupStart());
  OK(ncclSend(out, kCount, ncclInt, (rank + 1) % size, comm, NULL));
  OK(ncclRecv(in, kCount, ncclInt, before, comm, NULL));
  const ncclResult_t result = ncclGroupEnd();
  CHECK(result == ncclSuccess || result == ncclInProgress);
  CHECK_EQ(settle(comm), ncclSuccess);
  for (int i = 0; i < kCount; ++i) CHECK_EQ(in[i], before * kCount + i);
}

static void whole_and_parts(const Rank* rank) {
  ncclComm_t comm = join(rank), part = NULL, fewer = NULL;
  int first = 0;
  check_calls(comm, rank->size);
  OK(ncclCommSplit(comm, rank->rank % 2, 0, &part, NULL));
  check_calls(part, rank->size / 2);
  if (rank->rank != first) {
    OK(ncclCommShrink(comm, &first, 1, &fewer, NULL, NCCL_SHRINK_DEFAULT));
    check_calls(fewer, rank->size - 1);
    OK(ncclCommDestroy(fewer));
  }
  OK(ncclCommDestroy(part));
  check_calls(comm, rank->size);
  OK(ncclCommDestroy(comm));
}
static void calls(void) { run_processes(8, whole_and_parts, -1); }

/* ---- what fails */

/* Flags of these cases. What is to happen begins when all ranks are in their calls. */
enum { kJoined, kBusy, kDone, kTold };

static void await_all(const Rank* rank, int flag) {
  raise_flag(rank->shared, flag);
  await_flag(rank->shared, flag, rank->size);
}

/* The failure is the documented one, names who failed, and was told in time. */
static void check_failed(const Rank* rank, ncclResult_t result, ncclResult_t expected,
                         const char* who, const char* where) {
  const long long took = now_ms() - atomic_load(&rank->shared->began_ms);
  CHECK_EQ(result, expected);
  HAS(ncclGetLastError(NULL), who);
  HAS(ncclGetLastError(NULL), where);
  if (took > hosts->loss_noticed_ms) {
    fprintf(stderr, "rank %d was told after %lld ms\n", rank->rank, took);
    _Exit(1);
  }
}
static void check_failure(const Rank* rank, ncclResult_t result, const char* who,
                          const char* where) {
  check_failed(rank, result, ncclRemoteError, who, where);
}

/* Ranks 2 and 3 do not wait in their calls. */
static ncclComm_t join_blocking_or_not(const Rank* rank) {
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = NULL;
  const int blocks = rank->rank < 2;
  CHECK_EQ(ncclCommInitRankConfig(&comm, rank->size, rank->id, rank->rank, blocks ? NULL : &config),
           blocks ? ncclSuccess : ncclInProgress);
  CHECK_EQ(settle(comm), ncclSuccess);
  await_all(rank, kJoined);
  return comm;
}

static ncclResult_t sum_until_it_fails(const Rank* rank, ncclComm_t comm) {
  ncclResult_t result = sum(comm, rank->size, rank->rank);
  CHECK_EQ(result, ncclSuccess);
  raise_flag(rank->shared, kBusy);
  while (result == ncclSuccess) result = sum(comm, rank->size, rank->rank);
  return result;
}

/* The ranks that are left go on, and the old communicator can go. */
static void go_on_without(const Rank* rank, ncclComm_t comm, int* lost, int count) {
  ncclResult_t state = ncclSuccess;
  OK(ncclCommGetAsyncError(comm, &state));
  CHECK_EQ(state, ncclRemoteError);
  ncclComm_t fewer = NULL;
  const ncclResult_t result = ncclCommShrink(comm, lost, count, &fewer, NULL, NCCL_SHRINK_ABORT);
  CHECK(result == ncclSuccess || result == ncclInProgress);
  CHECK_EQ(settle(fewer), ncclSuccess);
  check_calls(fewer, rank->size - count);
  OK(ncclCommAbort(comm));
  OK(ncclCommDestroy(fewer));
}

static void* die_when_all_are_busy(void* argument) {
  const Rank* rank = argument;
  await_flag(rank->shared, kBusy, rank->size);
  atomic_store(&rank->shared->began_ms, now_ms());
  raise(SIGKILL);
  return NULL;
}

static int victim = -1;

static void lose_a_rank(const Rank* rank) {
  ncclComm_t comm = join_blocking_or_not(rank);
  pthread_t thread;
  if (rank->rank == victim)
    CHECK_EQ(pthread_create(&thread, NULL, die_when_all_are_busy, (void*)rank), 0);
  const ncclResult_t result = sum_until_it_fails(rank, comm);
  char who[32], where[32];
  snprintf(who, sizeof who, "rank %d (pid ", victim);
  snprintf(where, sizeof where, "on host n%d)", victim % hosts->count);
  check_failure(rank, result, who, where);
  go_on_without(rank, comm, &victim, 1);
}
/* Of the rank that made the id, and of one that is alone on its host. */
static void death_amid_sums(void) {
  for (victim = 0; victim < 2; ++victim) run_processes(4, lose_a_rank, victim);
}

static void lose_a_host(const Rank* rank) {
  ncclComm_t comm = join_blocking_or_not(rank);
  const ncclResult_t result = sum_until_it_fails(rank, comm);
  int lost[] = {1 - rank->rank % 2, 3 - rank->rank % 2};
  check_failure(rank, result, "rank ", rank->rank % 2 == 0 ? "on host n1)" : "on host n0)");
  go_on_without(rank, comm, lost, 2);
}
static void unplug_when_all_are_busy(Shared* shared) {
  await_flag(shared, kBusy, 4);
  atomic_store(&shared->began_ms, now_ms());
  hosts->unplug(1);
}
static void partition(void) { run_processes_during(4, lose_a_host, -1, unplug_when_all_are_busy); }

/* Rank 0 waits in a sum for a rank that does not call, and another of its threads ends that. */
typedef struct {
  const Rank* rank;
  ncclComm_t comm;
  ncclResult_t (*end)(ncclComm_t comm);
} Ending;

static void* end_it(void* argument) {
  const Ending* ending = argument;
  await_flag(ending->rank->shared, kBusy, 2);
  nap(50);
  atomic_store(&ending->rank->shared->began_ms, now_ms());
  OK(ending->end(ending->comm));
  CHECK(now_ms() - atomic_load(&ending->rank->shared->began_ms) < hosts->loss_noticed_ms);
  raise_flag(ending->rank->shared, kDone);
  return NULL;
}

static void end_while_waiting(const Rank* rank, ncclComm_t comm,
                              ncclResult_t (*end)(ncclComm_t comm)) {
  Ending ending = {rank, comm, end};
  pthread_t thread;
  await_all(rank, kJoined);
  if (rank->rank == 0) CHECK_EQ(pthread_create(&thread, NULL, end_it, &ending), 0);
  if (rank->rank == 2)
    await_flag(rank->shared, kDone, 1);
  else
    raise_flag(rank->shared, kBusy);
  /* Rank 0 may have sent all that the others' sum needs of it; the next one it has no part in. */
  ncclResult_t result = sum(comm, rank->size, rank->rank);
  if (rank->rank != 0 && result == ncclSuccess) result = sum(comm, rank->size, rank->rank);
  if (rank->rank == 0) {
    CHECK_EQ(result, ncclInvalidUsage);
    CHECK_EQ(pthread_join(thread, NULL), 0);
  } else {
    check_failure(rank, result, "rank 0 (pid ", "on host n0)");
  }
  await_all(rank, kTold); /* before others end theirs */
}

static void abort_one(const Rank* rank) {
  ncclComm_t comm = join(rank);
  end_while_waiting(rank, comm, ncclCommAbort);
  if (rank->rank != 0) OK(ncclCommAbort(comm));
}
static void abort_amid_a_sum(void) { run_processes(3, abort_one, -1); }

static ncclResult_t revoke_now(ncclComm_t comm) {
  return ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT);
}

static void revoke_all(const Rank* rank) {
  ncclComm_t comm = join(rank), again = NULL;
  end_while_waiting(rank, comm, revoke_now);
  if (rank->rank != 0) OK(revoke_now(comm));
  OK(ncclCommSplit(comm, 0, 0, &again, NULL));
  check_calls(again, rank->size);
  OK(ncclCommDestroy(again));
  OK(ncclCommDestroy(comm));
}
static void revoke_amid_a_sum(void) { run_processes(3, revoke_all, -1); }

enum { kSetUpMs = 1500 };

static int missing = -1;

static void never_come(const Rank* rank) {
  if (rank->rank == missing) {
    await_flag(rank->shared, kDone, rank->size - 1);
    return;
  }
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = NULL;
  atomic_store(&rank->shared->began_ms, now_ms() + kSetUpMs);
  CHECK_EQ(ncclCommInitRankConfig(&comm, rank->size, rank->id, rank->rank, &config),
           ncclInProgress);
  const ncclResult_t result = settle(comm);
  char who[32];
  snprintf(who, sizeof who, "missing: %d", missing);
  const int knows_timeout = NCCL_VERSION_CODE >= NCCL_VERSION(2, 30, 3);
  check_failed(rank, result, knows_timeout ? (ncclResult_t)8 : ncclRemoteError,
               "ncclCommInitRankConfig: ", who);
  OK(ncclCommAbort(comm));
  raise_flag(rank->shared, kDone);
}
static void missing_rank(void) {
  char time[16];
  snprintf(time, sizeof time, "%d", kSetUpMs);
  setenv("TUTTI_SETUP_TIMEOUT_MS", time, 1);
  for (missing = 0; missing < 3; ++missing) run_processes(3, never_come, -1);
}

static void disagree(const Rank* rank) {
  ncclComm_t comm = join(rank);
  await_all(rank, kJoined); /* who were still in set-up would hear of it there */
  float x[65] = {1};
  FAILS(ncclAllReduce(x, x, rank->rank == 1 ? 65 : 64, ncclFloat, ncclSum, comm, NULL),
        ncclInvalidUsage, "of 64 float32");
  HAS(ncclGetLastError(NULL), "of 65 float32");
  CHECK_EQ(settle(comm), ncclInvalidUsage);
  await_all(rank, kDone);
  OK(ncclCommAbort(comm));
}
static void disagreement(void) { run_processes(3, disagree, -1); }

static const Case hosts_cases[] = {
    {"hosts/calls", calls},
    {"hosts/death_amid_sums", death_amid_sums},
    {"hosts/partition", partition},
    {"hosts/abort_amid_a_sum", abort_amid_a_sum},
    {"hosts/revoke_amid_a_sum", revoke_amid_a_sum},
    {"hosts/missing_rank", missing_rank},
    {"hosts/disagreement", disagreement},
    {NULL, NULL},
};

int run_cases_on_hosts(const Hosts* made, const char* prefix) {
  const Case* const files[] = {life_cases, collective_cases, failure_cases,
                               grow_cases, one_sided_cases,  hosts_cases};
  hosts = made;
  go_to_host_of = made->enter;
  return run_cases(files, sizeof files / sizeof *files, prefix);
}
