/* How communicators come and go: by threads, processes and groups, blocking or not; from others by
 * split and shrink. */

#include <unistd.h>

#include "harness.h"

static void whole_life(const Rank* rank) {
  ncclComm_t comm = join(rank);
  int number = -1;
  OK(ncclCommUserRank(comm, &number));
  CHECK_EQ(number, rank->rank);
  OK(ncclCommCuDevice(comm, &number));
  CHECK_EQ(number, 0);
  check_sum(comm, rank->size);
  OK(ncclCommFinalize(comm));
  FAILS(ncclCommFinalize(comm), ncclInvalidArgument, "finalized before");
  FAILS(ncclAllReduce(&number, &number, 1, ncclInt, ncclSum, comm, NULL), ncclInvalidUsage,
        "finalized");
  CHECK_EQ(settle(comm), ncclSuccess);
  OK(ncclCommDestroy(comm));
}

static void processes(void) { run_processes(3, whole_life, -1); }

/* The last error is the process's, so threads do not look at it. */
static void short_life(const Rank* rank) {
  ncclComm_t comm = join(rank);
  check_sum(comm, rank->size);
  OK(ncclCommDestroy(comm));
}
static void threads(void) { run_threads(3, short_life); }

static void alone(void) { run_processes(1, whole_life, -1); }

static void scalable(const Rank* rank) {
  ncclUniqueId ids[2] = {rank->id, rank->shared->second_id};
  ncclComm_t comm = NULL;
  OK(ncclCommInitRankScalable(&comm, rank->size, rank->rank, 2, ids, NULL));
  check_sum(comm, rank->size);
  OK(ncclCommDestroy(comm));
}
static void init_scalable(void) { run_processes(3, scalable, -1); }

/* One thread is all ranks. */
static void init_in_group(void) {
  enum { kRanks = 4 };
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  ncclComm_t comms[kRanks] = {NULL};
  int number = 0, x[kRanks], sums[kRanks];
  OK(ncclGroupStart());
  for (int r = 0; r < kRanks; ++r) OK(ncclCommInitRank(&comms[r], kRanks, id, r));
  FAILS(ncclCommCount(comms[0], &number), ncclInvalidArgument, "being made");
  OK(ncclGroupEnd());
  OK(ncclGroupStart());
  for (int r = 0; r < kRanks; ++r) {
    x[r] = r + 1;
    OK(ncclAllReduce(&x[r], &sums[r], 1, ncclInt, ncclSum, comms[r], NULL));
  }
  OK(ncclGroupEnd());
  for (int r = 0; r < kRanks; ++r) CHECK_EQ(sums[r], 10);
  ncclComm_t halves[kRanks] = {NULL};
  OK(ncclGroupStart());
  for (int r = 0; r < kRanks; ++r) OK(ncclCommSplit(comms[r], r % 2, -r, &halves[r], NULL));
  OK(ncclGroupEnd());
  for (int r = 0; r < kRanks; ++r) {
    OK(ncclCommUserRank(halves[r], &number));
    CHECK_EQ(number, r < 2 ? 1 : 0); /* keys turn the order round */
    OK(ncclCommDestroy(halves[r]));
    OK(ncclCommDestroy(comms[r]));
  }
}

static void init_all(void) {
  const int devices[] = {5, 0, 9};
  ncclComm_t comms[3] = {NULL};
  int number = 0;
  OK(ncclCommInitAll(comms, 3, devices));
  for (int r = 0; r < 3; ++r) {
    OK(ncclCommCuDevice(comms[r], &number));
    CHECK_EQ(number, devices[r]);
    OK(ncclCommUserRank(comms[r], &number));
    CHECK_EQ(number, r);
  }
  for (int r = 0; r < 3; ++r) OK(ncclCommDestroy(comms[r]));
}

static void one_bad_init_spoils_a_group(void) {
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  ncclComm_t good = NULL, bad = NULL;
  OK(ncclGroupStart());
  OK(ncclCommInitRank(&good, 2, id, 0));
  FAILS(ncclCommInitRank(&bad, 2, id, 5), ncclInvalidArgument, "rank 5 of 2");
  CHECK_EQ(ncclGroupEnd(), ncclInvalidArgument);
  CHECK(good == NULL && bad == NULL);
}

static void split(const Rank* rank) {
  ncclComm_t comm = join(rank), part = (ncclComm_t)1;
  /* Ranks 0 and 2, ranks 1 and 3; rank 4 is in neither. */
  const int color = rank->rank == 4 ? NCCL_SPLIT_NOCOLOR : rank->rank % 2;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "part";
  OK(ncclCommSplit(comm, color, 0, &part, &config));
  CHECK((part == NULL) == (rank->rank == 4));
  if (part) {
    check_sum(part, 2);
    OK(ncclCommDestroy(part));
  }
  FAILS(ncclCommSplit(comm, -2, 0, &part, NULL), ncclInvalidArgument, "color -2");
  FAILS(ncclCommSplit(comm, 0, 0, NULL, NULL), ncclInvalidArgument, "newcomm is null");
  config.magic = 0;
  FAILS(ncclCommSplit(comm, 0, 0, &part, &config), ncclInvalidArgument, "magic");
  check_sum(comm, rank->size);
  OK(ncclCommDestroy(comm));
}
static void splits(void) { run_processes(5, split, -1); }

/* The parent stays usable, for the excluded rank too. */
static void shrink(const Rank* rank) {
  ncclComm_t comm = join(rank), fewer = NULL;
  int excluded[] = {3, 1}, twice[] = {1, 1}, self[] = {rank->rank}, beyond[] = {4};
  for (int again = 0; again < 2 && rank->rank % 2 == 0; ++again) {
    OK(ncclCommShrink(comm, excluded, 2, &fewer, NULL, NCCL_SHRINK_DEFAULT));
    check_sum(fewer, 2);
    OK(ncclCommDestroy(fewer));
  }
  FAILS(ncclCommShrink(comm, twice, 2, &fewer, NULL, 0), ncclInvalidArgument, "twice");
  FAILS(ncclCommShrink(comm, self, 1, &fewer, NULL, 0), ncclInvalidArgument, "itself");
  FAILS(ncclCommShrink(comm, beyond, 1, &fewer, NULL, 0), ncclInvalidArgument, "excluded rank 4");
  FAILS(ncclCommShrink(comm, NULL, 1, &fewer, NULL, 0), ncclInvalidArgument, "null");
  FAILS(ncclCommShrink(comm, excluded, 0, &fewer, NULL, 0), ncclInvalidArgument, "Count is 0");
  FAILS(ncclCommShrink(comm, excluded, 2, &fewer, NULL, 8), ncclInvalidArgument, "shrinkFlags");
  check_sum(comm, rank->size);
  OK(ncclCommDestroy(comm));
}
static void shrinks(void) { run_processes(4, shrink, -1); }

static void unblocked(const Rank* rank) {
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = NULL, part = NULL, fewer = NULL;
  CHECK_EQ(ncclCommInitRankConfig(&comm, rank->size, rank->id, rank->rank, &config),
           ncclInProgress);
  CHECK(comm);
  CHECK_EQ(settle(comm), ncclSuccess);
  check_sum(comm, rank->size);

  /* Rank 0 comes late: until then the others' call is under way, and no other is allowed. */
  int mine = 1, sum = 0;
  ncclResult_t state = ncclSuccess;
  if (rank->rank == 0) await_flag(rank->shared, 0, rank->size - 1);
  CHECK_EQ(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), ncclInProgress);
  if (rank->rank != 0) {
    OK(ncclCommGetAsyncError(comm, &state));
    CHECK_EQ(state, ncclInProgress);
    FAILS(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), ncclInvalidArgument,
          "under way");
    raise_flag(rank->shared, 0);
  }
  CHECK_EQ(settle(comm), ncclSuccess);
  CHECK_EQ(sum, rank->size);

  OK(ncclGroupStart());
  OK(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL));
  OK(ncclAllReduce(&mine, &mine, 1, ncclInt, ncclMax, comm, NULL));
  CHECK_EQ(ncclGroupEnd(), ncclInProgress);
  CHECK_EQ(settle(comm), ncclSuccess);
  CHECK_EQ(sum, rank->size);

  /* Children inherit blocking = 0, and are there to be asked at once. */
  CHECK_EQ(ncclCommSplit(comm, 0, 0, &part, NULL), ncclInProgress);
  CHECK(part);
  CHECK_EQ(settle(comm), ncclSuccess);
  CHECK_EQ(settle(part), ncclSuccess);
  check_sum(part, rank->size);
  int last = rank->size - 1;
  if (rank->rank != last) {
    CHECK_EQ(ncclCommShrink(comm, &last, 1, &fewer, NULL, NCCL_SHRINK_DEFAULT), ncclInProgress);
    CHECK_EQ(settle(fewer), ncclSuccess);
    check_sum(fewer, last);
    OK(ncclCommDestroy(fewer));
  }
  config.blocking = 1;
  OK(ncclCommDestroy(part));
  OK(ncclCommSplit(comm, 0, 0, &part, &config));
  check_sum(part, rank->size);
  OK(ncclCommDestroy(part));
  const ncclResult_t result = ncclCommFinalize(comm);
  CHECK(result == ncclSuccess || result == ncclInProgress);
  CHECK_EQ(settle(comm), ncclSuccess);
  OK(ncclCommDestroy(comm));
}
static void nonblocking_life(void) { run_processes(3, unblocked, -1); }

static void unblocked_group(void) {
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  ncclConfig_t config = nonblocking();
  ncclComm_t comms[2] = {NULL};
  OK(ncclGroupStart());
  for (int r = 0; r < 2; ++r) OK(ncclCommInitRankConfig(&comms[r], 2, id, r, &config));
  CHECK_EQ(ncclGroupEnd(), ncclInProgress);
  for (int r = 0; r < 2; ++r) CHECK_EQ(settle(comms[r]), ncclSuccess);
  for (int r = 0; r < 2; ++r) OK(ncclCommDestroy(comms[r]));
}

static void blocking_by_variable(void) {
  setenv("NCCL_COMM_BLOCKING", "0", 1);
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  ncclComm_t comm = NULL;
  CHECK_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclInProgress);
  CHECK_EQ(settle(comm), ncclSuccess);
  OK(ncclCommDestroy(comm));
}

/* Each rank makes the id for itself; rank 0 listens. */
static void address(const Rank* rank) {
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  ncclComm_t comm = NULL;
  OK(ncclCommInitRank(&comm, rank->size, id, rank->rank));
  check_sum(comm, rank->size);
  OK(ncclCommDestroy(comm));
}
static void comm_id(void) {
  char where[32]; /* nobody else's */
  snprintf(where, sizeof where, "127.0.0.1:%d", 1024 + (int)getpid() % 60000);
  setenv("NCCL_COMM_ID", where, 1);
  run_processes(3, address, -1);
}
static void bad_comm_id(void) {
  setenv("NCCL_COMM_ID", "nowhere", 1);
  ncclUniqueId id;
  FAILS(ncclGetUniqueId(&id), ncclInvalidArgument, "NCCL_COMM_ID: \"nowhere\" is not host:port");
}

/* An id is good for one communicator. */
static void used_id(const Rank* rank) {
  ncclComm_t comm = join(rank), again = NULL;
  raise_flag(rank->shared, 0);
  await_flag(rank->shared, 0, rank->size);
  FAILS(ncclCommInitRank(&again, rank->size, rank->id, rank->rank), ncclInvalidUsage,
        "expired or was used");
  CHECK(again == NULL);
  OK(ncclCommDestroy(comm));
}
static void ids_are_used_once(void) { run_processes(2, used_id, -1); }

const Case life_cases[] = {
    {"life/processes", processes},
    {"life/threads", threads},
    {"life/alone", alone},
    {"life/init_scalable", init_scalable},
    {"life/init_in_group", init_in_group},
    {"life/init_all", init_all},
    {"life/one_bad_init_spoils_a_group", one_bad_init_spoils_a_group},
    {"life/splits", splits},
    {"life/shrinks", shrinks},
    {"life/nonblocking", nonblocking_life},
    {"life/nonblocking_group", unblocked_group},
    {"life/blocking_by_variable", blocking_by_variable},
    {"life/comm_id", comm_id},
    {"life/bad_comm_id", bad_comm_id},
    {"life/ids_are_used_once", ids_are_used_once},
    {NULL, NULL},
};
