/* Communicators that grow: ranks as processes and in one group, blocking or not, and what both
 * sides hear when it fails. */

#include <signal.h>
#include <unistd.h>

#include "harness.h"

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 2)

enum { kExisting = 2 }; /* ranks of the communicator that grows; all others are new */

/* Flags of these cases. */
enum { kIdIsThere, kDone, kTold };

/* The communicator of the existing ranks, which have the first numbers. */
static ncclComm_t join_existing(const Rank* rank, int existing, ncclConfig_t* config) {
  ncclComm_t comm = NULL;
  const ncclResult_t result = ncclCommInitRankConfig(&comm, existing, rank->id, rank->rank, config);
  CHECK(result == ncclSuccess || result == ncclInProgress);
  CHECK_EQ(settle(comm), ncclSuccess);
  return comm;
}

/* Rank 0 makes the id of the growing, and gives it to all. */
static void publish_id(const Rank* rank, ncclComm_t comm) {
  OK(ncclCommGetUniqueId(comm, &rank->shared->second_id));
  raise_flag(rank->shared, kIdIsThere);
}

static const ncclUniqueId* await_id(const Rank* rank) {
  await_flag(rank->shared, kIdIsThere, 1);
  return &rank->shared->second_id;
}

/* As a rank of `comm`, or, without one, as a new rank. */
static ncclResult_t grow(const Rank* rank, ncclComm_t comm, int size, ncclComm_t* grown,
                         ncclConfig_t* config) {
  if (!comm) return ncclCommGrow(NULL, size, await_id(rank), rank->rank, grown, config);
  const ncclUniqueId* id = rank->rank == 0 ? await_id(rank) : NULL;
  return ncclCommGrow(comm, size, id, -1, grown, config);
}

/* The communicator of the existing ranks, whose first one has made the id; none of new ranks. */
static ncclComm_t enter(const Rank* rank) {
  if (rank->rank >= kExisting) return NULL;
  ncclComm_t comm = join_existing(rank, kExisting, NULL);
  if (rank->rank == 0) publish_id(rank, comm);
  return comm;
}

/* New ranks have heard how it ended. Rank 0, whose process has the rendezvous, waits for that. */
static void part(const Rank* rank) {
  if (rank->rank >= kExisting) raise_flag(rank->shared, kTold);
  if (rank->rank == 0) await_flag(rank->shared, kTold, rank->size - kExisting);
}

static void leave(const Rank* rank, ncclComm_t comm) {
  part(rank);
  if (!comm) return;
  check_sum(comm, kExisting);
  OK(ncclCommDestroy(comm));
}

/* ---- what works */

static void check_refusals(const Rank* rank, ncclComm_t comm) {
  ncclComm_t none = NULL;
  ncclUniqueId id = rank->id;
  const int size = rank->size;
  FAILS(ncclCommGetUniqueId(NULL, &id), ncclInvalidArgument, "null");
  FAILS(ncclCommGrow(NULL, size, NULL, size - 1, &none, NULL), ncclInvalidArgument,
        "uniqueId is null");
  FAILS(ncclCommGrow(NULL, size, &id, size, &none, NULL), ncclInvalidArgument, "rank 4 of 4");
  FAILS(ncclCommGrow(NULL, size, &id, size - 1, NULL, NULL), ncclInvalidArgument, "comm is null");
  if (!comm) return;
  FAILS(ncclCommGetUniqueId(comm, NULL), ncclInvalidArgument, "uniqueId is null");
  if (rank->rank == 0)
    FAILS(ncclCommGetUniqueId(comm, &id), ncclInvalidUsage, "earlier call is not used yet");
  FAILS(ncclCommGrow(comm, size, NULL, rank->rank, &none, NULL), ncclInvalidArgument, "rank is ");
  FAILS(ncclCommGrow(comm, size, NULL, -1, NULL, NULL), ncclInvalidArgument, "newcomm is null");
  FAILS(ncclCommGrow(comm, kExisting, NULL, -1, &none, NULL), ncclInvalidArgument,
        "from 2 ranks to 2");
  FAILS(ncclCommGrow(comm, size, &rank->id, -1, &none, NULL), ncclInvalidArgument, "growId()");
  CHECK(none == NULL);
}

static void joined(const Rank* rank) {
  ncclComm_t comm = enter(rank), grown = NULL;
  check_refusals(rank, comm);
  OK(grow(rank, comm, rank->size, &grown, NULL));
  int number = -1;
  OK(ncclCommUserRank(grown, &number));
  CHECK_EQ(number, rank->rank);
  check_sum(grown, rank->size);
  if (comm) check_sum(comm, kExisting);
  ncclComm_t half = NULL;
  OK(ncclCommSplit(grown, rank->rank % 2, 0, &half, NULL));
  check_sum(half, 2);
  OK(ncclCommDestroy(half));
  OK(ncclCommDestroy(grown));
  leave(rank, comm);
}
static void processes(void) { run_processes(4, joined, -1); }

/* One thread is all ranks, existing and new. */
static void in_group(void) {
  enum { kRanks = 4 };
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  ncclComm_t comms[kExisting] = {NULL}, grown[kRanks] = {NULL};
  OK(ncclGroupStart());
  for (int r = 0; r < kExisting; ++r) OK(ncclCommInitRank(&comms[r], kExisting, id, r));
  OK(ncclGroupEnd());
  OK(ncclCommGetUniqueId(comms[1], &id));
  OK(ncclGroupStart());
  OK(ncclCommGrow(comms[0], kRanks, NULL, -1, &grown[0], NULL));
  OK(ncclCommGrow(comms[1], kRanks, &id, -1, &grown[1], NULL));
  for (int r = kExisting; r < kRanks; ++r) OK(ncclCommGrow(NULL, kRanks, &id, r, &grown[r], NULL));
  OK(ncclGroupEnd());
  int x[kRanks], sums[kRanks];
  OK(ncclGroupStart());
  for (int r = 0; r < kRanks; ++r) {
    x[r] = r + 1;
    OK(ncclAllReduce(&x[r], &sums[r], 1, ncclInt, ncclSum, grown[r], NULL));
  }
  OK(ncclGroupEnd());
  for (int r = 0; r < kRanks; ++r) {
    CHECK_EQ(sums[r], 10);
    OK(ncclCommDestroy(grown[r]));
  }
  for (int r = 0; r < kExisting; ++r) OK(ncclCommDestroy(comms[r]));
}

/* Existing ranks inherit blocking = 0. The new rank comes when their calls have returned. */
static void unblocked(const Rank* rank) {
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = NULL, grown = NULL;
  if (rank->rank < kExisting) {
    comm = join_existing(rank, kExisting, &config);
    if (rank->rank == 0) publish_id(rank, comm);
    CHECK_EQ(grow(rank, comm, rank->size, &grown, NULL), ncclInProgress);
    ncclResult_t state = ncclSuccess;
    OK(ncclCommGetAsyncError(comm, &state));
    CHECK_EQ(state, ncclInProgress);
    raise_flag(rank->shared, kDone);
  } else {
    await_flag(rank->shared, kDone, kExisting);
    CHECK_EQ(grow(rank, NULL, rank->size, &grown, &config), ncclInProgress);
  }
  CHECK_EQ(settle(grown), ncclSuccess);
  check_sum(grown, rank->size);
  if (comm) CHECK_EQ(settle(comm), ncclSuccess);
  OK(ncclCommDestroy(grown));
  leave(rank, comm);
}
static void nonblocking_ranks(void) { run_processes(3, unblocked, -1); }

/* A new rank, the last process, in the place of one that has died. */
static void replaced(const Rank* rank) {
  const int size = rank->size - 1;
  int dead = 1;
  ncclComm_t comm = NULL, rest = NULL, whole = NULL;
  if (rank->rank == size) {
    OK(ncclCommGrow(NULL, size, await_id(rank), size - 1, &whole, NULL));
  } else {
    comm = join_existing(rank, size, NULL);
    int x = 1;
    ncclResult_t result = ncclSuccess;
    while (result == ncclSuccess) { /* also the first may fail: rank 1 has ended it then */
      result = ncclAllReduce(&x, &x, 1, ncclInt, ncclSum, comm, NULL);
      if (rank->rank == dead) raise(SIGKILL);
    }
    CHECK_EQ(result, ncclRemoteError);
    OK(ncclCommShrink(comm, &dead, 1, &rest, NULL, NCCL_SHRINK_ABORT));
    if (rank->rank == 0) publish_id(rank, rest);
    OK(grow(rank, rest, size, &whole, NULL));
    OK(ncclCommDestroy(rest));
    OK(ncclCommAbort(comm));
  }
  check_sum(whole, size);
  OK(ncclCommDestroy(whole));
}
static void replaces_a_dead_rank(void) { run_processes(4, replaced, 1); }

/* ---- what fails */

/* Nobody is rank 3. */
static void missing(const Rank* rank) {
  ncclComm_t comm = enter(rank), grown = NULL;
  const ncclResult_t result = grow(rank, comm, rank->size + 1, &grown, NULL);
  CHECK(result == ncclRemoteError || result == 8); /* ncclTimeout of later versions */
  HAS(ncclGetLastError(NULL), "missing: 3");
  CHECK(grown == NULL);
  leave(rank, comm);
}
static void a_missing_rank_is_named(void) {
  setenv("TUTTI_SETUP_TIMEOUT_MS", "3000", 1);
  run_processes(3, missing, -1);
}

static void disagreeing(const Rank* rank) {
  ncclComm_t comm = enter(rank), grown = NULL;
  FAILS(grow(rank, comm, rank->size + (rank->rank == 1), &grown, NULL), ncclInvalidUsage,
        "disagree about grow()");
  leave(rank, comm);
}
static void sizes_that_differ(void) { run_processes(3, disagreeing, -1); }

static void of_another_size(const Rank* rank) {
  ncclComm_t comm = enter(rank), grown = NULL;
  FAILS(grow(rank, comm, rank->size + (rank->rank == 2), &grown, NULL), ncclInvalidUsage,
        "world size 4");
  leave(rank, comm);
}
static void a_new_rank_of_another_size(void) { run_processes(3, of_another_size, -1); }

/* Rank 1 is in another call: both are named. */
static void skips(const Rank* rank) {
  ncclComm_t comm = enter(rank), grown = NULL;
  float x[8] = {0};
  const ncclResult_t result = rank->rank == 1
                                  ? ncclAllReduce(x, x, 8, ncclFloat, ncclSum, comm, NULL)
                                  : grow(rank, comm, rank->size, &grown, NULL);
  CHECK_EQ(result, ncclInvalidUsage);
  HAS(ncclGetLastError(NULL), "all_reduce of 8 float32");
  part(rank);
  if (comm) OK(ncclCommAbort(comm));
}
static void another_call_in_its_place(void) { run_processes(3, skips, -1); }

/* The last process dies when the others wait for one more. */
static void dies(const Rank* rank) {
  ncclComm_t comm = enter(rank), grown = NULL;
  raise_flag(rank->shared, kDone);
  if (rank->rank == 1) {
    await_flag(rank->shared, kDone, rank->size);
    nap(200);
    raise(SIGKILL);
  }
  FAILS(grow(rank, comm, rank->size + 1, &grown, NULL), ncclRemoteError, "rank 1 (pid ");
  CHECK(grown == NULL);
  part(rank);
  if (comm) OK(ncclCommAbort(comm));
}
static void an_existing_rank_dies(void) { run_processes(3, dies, 1); }

/* The new process dies when all wait for one more. */
static void new_one_dies(const Rank* rank) {
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = enter(rank), grown = NULL;
  if (!comm) {
    CHECK_EQ(grow(rank, NULL, rank->size + 1, &grown, &config), ncclInProgress);
    nap(500);
    raise(SIGKILL);
  }
  FAILS(grow(rank, comm, rank->size + 1, &grown, NULL), ncclRemoteError, "rank 2 (pid ");
  CHECK(grown == NULL);
  check_sum(comm, kExisting);
  OK(ncclCommDestroy(comm));
}
static void a_new_rank_dies(void) { run_processes(3, new_one_dies, 2); }

/* Aborting what is being made ends it for all, and the communicator that grows is as it was. */
static void aborted(const Rank* rank) {
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = enter(rank), grown = NULL;
  if (rank->rank == 1) {
    CHECK_EQ(grow(rank, comm, rank->size + 1, &grown, &config), ncclInProgress);
    await_flag(rank->shared, kDone, rank->size - 1);
    nap(200);
    OK(ncclCommAbort(grown));
  } else {
    raise_flag(rank->shared, kDone);
    FAILS(grow(rank, comm, rank->size + 1, &grown, NULL), ncclRemoteError,
          "rank 1 of 4 was stopped");
  }
  if (comm) CHECK_EQ(settle(comm), ncclSuccess);
  leave(rank, comm);
}
static void abort_while_it_grows(void) { run_processes(3, aborted, -1); }

static void revoked_communicator(void) {
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  ncclComm_t comm = NULL, grown = NULL;
  OK(ncclCommInitRank(&comm, 1, id, 0));
  OK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
  FAILS(ncclCommGetUniqueId(comm, &id), ncclInvalidUsage, "revoked");
  FAILS(ncclCommGrow(comm, 2, NULL, -1, &grown, NULL), ncclInvalidUsage, "revoked");
  OK(ncclCommAbort(comm));
}

const Case grow_cases[] = {
    {"grow/processes", processes},
    {"grow/in_group", in_group},
    {"grow/nonblocking", nonblocking_ranks},
    {"grow/replaces_a_dead_rank", replaces_a_dead_rank},
    {"grow/a_missing_rank_is_named", a_missing_rank_is_named},
    {"grow/sizes_that_differ", sizes_that_differ},
    {"grow/a_new_rank_of_another_size", a_new_rank_of_another_size},
    {"grow/another_call_in_its_place", another_call_in_its_place},
    {"grow/an_existing_rank_dies", an_existing_rank_dies},
    {"grow/a_new_rank_dies", a_new_rank_dies},
    {"grow/abort_while_it_grows", abort_while_it_grows},
    {"grow/revoked_communicator", revoked_communicator},
    {NULL, NULL},
};

#else /* a header from before ncclCommGrow */

const Case grow_cases[] = {{NULL, NULL}};

#endif
