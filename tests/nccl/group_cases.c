/* Groups: of one thread with many communicators, of everything at once, spoiled ones, simulated
 * ones. */

#include "harness.h"

enum { kRanks = 3, kCount = 5000 };

static void make(ncclComm_t* comms) { OK(ncclCommInitAll(comms, kRanks, NULL)); }
static void destroy(ncclComm_t* comms) {
  for (int r = 0; r < kRanks; ++r) OK(ncclCommDestroy(comms[r]));
}

/* Sends and receives in a cycle, to itself, empty ones, and collectives, over two worlds of
 * communicators, issued by each rank in another order where the order does not matter. */
static void everything_at_once(void) {
  static int out[kRanks][kCount], in[kRanks][kCount], self[kRanks][kCount], sum[kRanks][kCount];
  ncclComm_t a[kRanks], b[kRanks];
  make(a);
  make(b);
  for (int r = 0; r < kRanks; ++r)
    for (int i = 0; i < kCount; ++i) out[r][i] = r * kCount + i;
  OK(ncclGroupStart());
  for (int k = 0; k < kRanks; ++k) {
    const int r = kRanks - 1 - k;
    OK(ncclGroupStart());
    OK(ncclRecv(in[r], kCount, ncclInt, (r + kRanks - 1) % kRanks, a[r], NULL));
    OK(ncclAllReduce(out[r], sum[r], kCount, ncclInt, ncclSum, b[r], NULL));
    OK(ncclSend(out[r], kCount, ncclInt, (r + 1) % kRanks, a[r], NULL));
    OK(ncclSend(out[r], kCount, ncclInt, r, b[r], NULL));
    OK(ncclRecv(self[r], kCount, ncclInt, r, b[r], NULL));
    OK(ncclRecv(NULL, 0, ncclInt, (r + 1) % kRanks, a[r], NULL));
    OK(ncclSend(NULL, 0, ncclInt, (r + kRanks - 1) % kRanks, a[r], NULL));
    OK(ncclGroupEnd());
  }
  OK(ncclGroupEnd());
  for (int r = 0; r < kRanks; ++r)
    for (int i = 0; i < kCount; ++i) {
      CHECK_EQ(in[r][i], (r + kRanks - 1) % kRanks * kCount + i);
      CHECK_EQ(self[r][i], r * kCount + i);
      CHECK_EQ(sum[r][i], (0 + 1 + 2) * kCount + 3 * i);
    }
  destroy(b);
  destroy(a);
}

/* Of several between two ranks, the first sent is the first received. */
static void order_of_a_pair(void) {
  ncclComm_t comms[kRanks];
  make(comms);
  int first = 1, second = 2, got[2] = {0, 0};
  OK(ncclGroupStart());
  OK(ncclSend(&first, 1, ncclInt, 1, comms[0], NULL));
  OK(ncclSend(&second, 1, ncclInt, 1, comms[0], NULL));
  OK(ncclRecv(&got[0], 1, ncclInt, 0, comms[1], NULL));
  OK(ncclRecv(&got[1], 1, ncclInt, 0, comms[1], NULL));
  OK(ncclGroupEnd());
  CHECK(got[0] == 1 && got[1] == 2);
  destroy(comms);
}

static void unbalanced(void) {
  FAILS(ncclGroupEnd(), ncclInvalidUsage, "no group is open");
  OK(ncclGroupStart());
  OK(ncclGroupEnd());
  FAILS(pncclGroupEnd(), ncclInvalidUsage, "no group is open");
}

/* A call that fails is remembered to the outermost end, and nothing is made. */
static void spoiled(void) {
  ncclComm_t comms[kRanks];
  make(comms);
  int x[kRanks] = {1, 1, 1};
  OK(ncclGroupStart());
  OK(ncclGroupStart());
  for (int r = 0; r < kRanks; ++r)
    OK(ncclAllReduce(&x[r], &x[r], 1, ncclInt, ncclSum, comms[r], NULL));
  FAILS(ncclAllReduce(&x[0], NULL, 1, ncclInt, ncclSum, comms[0], NULL), ncclInvalidArgument,
        "recv is null");
  CHECK_EQ(ncclBroadcast(x, x, 1, ncclInt, 7, comms[1], NULL), ncclInvalidArgument);
  OK(ncclGroupEnd());
  CHECK_EQ(ncclGroupEnd(), ncclInvalidArgument);
  for (int r = 0; r < kRanks; ++r) CHECK_EQ(x[r], 1);
  /* It is forgotten with the group. */
  OK(ncclGroupStart());
  for (int r = 0; r < kRanks; ++r)
    OK(ncclAllReduce(&x[r], &x[r], 1, ncclInt, ncclSum, comms[r], NULL));
  OK(ncclGroupEnd());
  for (int r = 0; r < kRanks; ++r) CHECK_EQ(x[r], kRanks);
  destroy(comms);
}

static void of_two_kinds(void) {
  ncclComm_t comms[kRanks], part = NULL;
  make(comms);
  int x = 1;
  OK(ncclGroupStart());
  OK(ncclAllReduce(&x, &x, 1, ncclInt, ncclSum, comms[0], NULL));
  FAILS(ncclCommSplit(comms[1], 0, 0, &part, NULL), ncclInvalidUsage, "not both");
  CHECK_EQ(ncclGroupEnd(), ncclInvalidUsage);
  CHECK(part == NULL);
  OK(ncclGroupStart());
  OK(ncclCommSplit(comms[1], 0, 0, &part, NULL));
  FAILS(ncclAllReduce(&x, &x, 1, ncclInt, ncclSum, comms[0], NULL), ncclInvalidUsage, "not both");
  CHECK_EQ(ncclGroupEnd(), ncclInvalidUsage);
  CHECK(part == NULL);
  destroy(comms); /* not in the split any more */
}

static void wrong_sends(void) {
  ncclComm_t comms[kRanks];
  make(comms);
  int x = 1, y = 0;
  OK(ncclGroupStart());
  OK(ncclSend(&x, 1, ncclInt, 0, comms[0], NULL));
  CHECK_EQ(ncclGroupEnd(), ncclInvalidUsage); /* to itself, and not received */
  OK(ncclGroupStart());
  OK(ncclSend(&x, 1, ncclInt, 0, comms[0], NULL));
  OK(ncclRecv(&y, 1, ncclInt, 0, comms[0], NULL));
  OK(ncclGroupEnd());
  CHECK_EQ(y, 1);
  destroy(comms);
}

static void simulated(void) {
  ncclComm_t comms[kRanks];
  static float x[kRanks][1 << 20];
  make(comms);
  float times[3];
  for (int k = 0; k < 3; ++k) {
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    CHECK(info.estimatedTime == NCCL_UNDEF_FLOAT);
    const size_t count = k == 0 ? 1 : 1 << 20;
    OK(ncclGroupStart());
    for (int r = 0; r < kRanks; ++r) {
      if (k < 2) OK(ncclAllReduce(x[r], x[r], count, ncclFloat, ncclSum, comms[r], NULL));
      if (k == 2) OK(ncclSend(x[r], count, ncclFloat, (r + 1) % kRanks, comms[r], NULL));
    }
    OK(ncclGroupSimulateEnd(&info));
    times[k] = info.estimatedTime;
  }
  CHECK(times[0] > 0 && times[1] > 10 * times[0] && times[2] > times[0]);
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  OK(ncclGroupStart());
  OK(ncclGroupStart());
  OK(ncclAllReduce(x[0], x[0], 1, ncclFloat, ncclSum, comms[0], NULL));
  OK(ncclGroupSimulateEnd(&info)); /* an inner end, whose calls stay with the outer group */
  CHECK(info.estimatedTime == NCCL_UNDEF_FLOAT);
  OK(ncclGroupSimulateEnd(&info));
  CHECK(info.estimatedTime > 0);
  info.estimatedTime = NCCL_UNDEF_FLOAT;
  OK(ncclGroupStart());
  FAILS(ncclAllReduce(x[0], x[0] + 1, 4, ncclFloat, ncclSum, comms[0], NULL), ncclInvalidArgument,
        "overlap");
  CHECK(ncclGroupSimulateEnd(&info) == ncclInvalidArgument); /* as ncclGroupEnd() says */
  CHECK(info.estimatedTime == NCCL_UNDEF_FLOAT);
  OK(ncclGroupStart());
  info.magic = 0;
  FAILS(ncclGroupSimulateEnd(&info), ncclInvalidArgument, "INITIALIZER");
  FAILS(ncclGroupSimulateEnd(&info), ncclInvalidUsage, "no group is open");
  /* A caller's struct that ends before the time is not written beyond its end. */
  info = (ncclSimInfo_t)NCCL_SIM_INFO_INITIALIZER;
  info.size = 16;
  OK(ncclGroupStart());
  OK(ncclGroupSimulateEnd(&info));
  CHECK(info.estimatedTime == NCCL_UNDEF_FLOAT);
  /* Nothing of it was made. */
  for (int r = 0; r < kRanks; ++r) x[r][0] = 1;
  OK(ncclGroupStart());
  for (int r = 0; r < kRanks; ++r)
    OK(ncclAllReduce(x[r], x[r], 1, ncclFloat, ncclSum, comms[r], NULL));
  OK(ncclGroupEnd());
  CHECK(x[0][0] == kRanks && x[2][0] == kRanks);
  destroy(comms);
}

/* Groups belong to threads: this rank's is open while the other calls without. */
static void by_thread(const Rank* rank) {
  ncclComm_t comm = join(rank);
  int x = 1, y = 0;
  if (rank->rank == 0) OK(ncclGroupStart());
  raise_flag(rank->shared, 0);
  await_flag(rank->shared, 0, 2);
  OK(ncclAllReduce(&x, &y, 1, ncclInt, ncclSum, comm, NULL));
  if (rank->rank == 0) OK(ncclGroupEnd());
  CHECK_EQ(y, 2);
  OK(ncclCommDestroy(comm));
}
static void groups_of_threads(void) { run_threads(2, by_thread); }

/* What a group cannot make is refused before any of it has begun; the deadline of set-up is two
 * minutes. */
static void contradictions(void) {
  ncclUniqueId id, good;
  ncclComm_t c[4] = {NULL, NULL, NULL, NULL};
  OK(ncclGetUniqueId(&id));
  OK(ncclGetUniqueId(&good));
  const long long begun = now_ms();
  OK(ncclGroupStart());
  OK(ncclCommInitRank(&c[0], 3, id, 0));
  OK(ncclCommInitRank(&c[1], 3, id, 1));
  OK(ncclCommInitRank(&c[2], 3, id, 1));
  FAILS(ncclGroupEnd(), ncclInvalidArgument, "one unique id as rank 1 of 3 twice");
  OK(ncclGroupStart());
  OK(ncclCommInitRank(&c[0], 2, good, 0));
  OK(ncclCommInitRank(&c[1], 2, good, 1));
  OK(ncclCommInitRank(&c[2], 2, id, 0));
  OK(ncclCommInitRank(&c[3], 3, id, 1));
  FAILS(ncclGroupEnd(), ncclInvalidArgument, "one unique id as ranks of 2 and of 3");
  CHECK(now_ms() - begun < 10000);
  for (int i = 0; i < 4; ++i) CHECK(c[i] == NULL);
  OK(ncclGroupStart()); /* nobody has used them up */
  OK(ncclCommInitRank(&c[0], 2, good, 0));
  OK(ncclCommInitRank(&c[1], 2, good, 1));
  OK(ncclCommInitRank(&c[2], 1, id, 0));
  OK(ncclGroupEnd());
  for (int i = 0; i < 3; ++i) OK(ncclCommDestroy(c[i]));
}

/* Rank 1 takes the place of rank 0 in the second id. The group of rank 0 hears of it in one of its
 * members, and the other, which waits for a rank that never comes, ends at once. */
static void one_fails(const Rank* rank) {
  Shared* shared = rank->shared;
  ncclComm_t c[4] = {NULL, NULL, NULL, NULL};
  ncclConfig_t config = nonblocking();
  if (rank->rank == 1) {
    ncclComm_t taken = NULL;
    CHECK_EQ(ncclCommInitRankConfig(&taken, 2, shared->second_id, 0, &config), ncclInProgress);
    nap(500);
    raise_flag(shared, 0);
    await_flag(shared, 0, 2);
    OK(ncclCommAbort(taken));
    return;
  }
  await_flag(shared, 0, 1);
  ncclUniqueId lonely, good;
  OK(ncclGetUniqueId(&lonely));
  OK(ncclGetUniqueId(&good));
  const long long begun = now_ms();
  OK(ncclGroupStart());
  OK(ncclCommInitRank(&c[0], 2, lonely, 0));
  OK(ncclCommInitRank(&c[1], 2, good, 0));
  OK(ncclCommInitRank(&c[2], 2, good, 1));
  OK(ncclCommInitRank(&c[3], 2, shared->second_id, 0));
  FAILS(ncclGroupEnd(), ncclInvalidUsage, "rank 0");
  for (int i = 0; i < 4; ++i) CHECK(c[i] == NULL);
  /* Of those that nobody waits for. */
  OK(ncclGetUniqueId(&lonely));
  OK(ncclGroupStart());
  CHECK_EQ(ncclCommInitRankConfig(&c[0], 2, lonely, 0, &config), ncclSuccess);
  CHECK_EQ(ncclCommInitRankConfig(&c[3], 2, shared->second_id, 0, &config), ncclSuccess);
  CHECK_EQ(ncclGroupEnd(), ncclInProgress);
  CHECK_EQ(settle(c[3]), ncclInvalidUsage);
  CHECK_EQ(settle(c[0]), ncclInvalidUsage);
  CHECK(now_ms() - begun < 20000);
  OK(ncclCommAbort(c[0]));
  OK(ncclCommAbort(c[3]));
  raise_flag(shared, 0);
}
static void members_end_with_their_group(void) { run_processes(2, one_fails, -1); }

const Case group_cases[] = {
    {"groups/everything_at_once", everything_at_once},
    {"groups/order_of_a_pair", order_of_a_pair},
    {"groups/unbalanced", unbalanced},
    {"groups/spoiled", spoiled},
    {"groups/of_two_kinds", of_two_kinds},
    {"groups/wrong_sends", wrong_sends},
    {"groups/simulated", simulated},
    {"groups/groups_of_threads", groups_of_threads},
    {"groups/contradictions", contradictions},
    {"groups/members_end_with_their_group", members_end_with_their_group},
    {NULL, NULL},
};
