/* What every collective computes, for every type and reduction; what it refuses. */

#include <math.h>
#include <stdint.h>

#include "elements.h"
#include "harness.h"

enum { kCount = 37, kMaxSize = 4, kMaxBytes = kCount * kMaxSize * 8 };

typedef struct {
  _Alignas(8) char in[kMaxBytes], out[kMaxBytes];
} Buffers;

/* Small enough that sums and products of three ranks are exact in every type, and never all equal.
 */
static double input(int rank, size_t i) { return 1 + (double)((i + (size_t)rank) % 2); }

static void fill(Buffers* b, ncclDataType_t type, int rank, size_t count) {
  memset(b->out, 0, sizeof b->out);
  for (size_t i = 0; i < count; ++i) set_element(type, b->in, i, input(rank, i));
}

static double expected(ncclRedOp_t op, ncclDataType_t type, int size, size_t i) {
  double sum = 0, product = 1, least = INFINITY, most = -INFINITY;
  for (int r = 0; r < size; ++r) {
    const double x = input(r, i);
    sum += x;
    product *= x;
    least = fmin(least, x);
    most = fmax(most, x);
  }
  switch (op) {
    case ncclSum: return sum;
    case ncclProd: return product;
    case ncclMin: return least;
    case ncclMax: return most;
    case ncclAvg: return is_floating(type) ? sum / size : trunc(sum / size);
    default: return 2 * sum; /* every rank's scalar is 2 */
  }
}

/* An average may be rounded, all else is exact. */
static void check_reduced(const void* out, size_t from, size_t count, ncclRedOp_t op,
                          ncclDataType_t type, int size) {
  for (size_t i = 0; i < count; ++i) {
    const double want = expected(op, type, size, from + i), got = get_element(type, out, i);
    const double tolerance =
        op == ncclAvg && is_floating(type) ? 2 * element_epsilon(type) * want : 0;
    if (fabs(got - want) <= tolerance) continue;
    fprintf(stderr, "type %d, op %d, element %zu: %g, not %g\n", type, op, from + i, got, want);
    CHECK(0);
  }
}

static void reduce_all_types(const Rank* rank) {
  static _Thread_local Buffers b;
  const int size = rank->size, self = rank->rank;
  ncclComm_t comm = join(rank);
  for (int t = 0; t < ncclNumTypes; ++t) {
    const ncclDataType_t type = (ncclDataType_t)t;
    const size_t bytes = element_bytes(type);
    _Alignas(8) char two[8];
    set_element(type, two, 0, 2);
    ncclRedOp_t made = ncclSum, read_later = ncclSum;
    OK(ncclRedOpCreatePreMulSum(&made, two, type, ncclScalarHostImmediate, comm));
    OK(ncclRedOpCreatePreMulSum(&read_later, two, type, ncclScalarDevice, comm));
    CHECK(made >= ncclNumOps && read_later >= ncclNumOps && made != read_later);
    const ncclRedOp_t ops[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg, made, read_later};
    for (size_t o = 0; o < sizeof ops / sizeof *ops; ++o) {
      const ncclRedOp_t op = ops[o];
      fill(&b, type, self, kCount);
      OK(ncclAllReduce(b.in, b.out, kCount, type, op, comm, NULL));
      check_reduced(b.out, 0, kCount, op, type, size);
      OK(ncclAllReduce(b.in, b.in, kCount, type, op, comm, NULL));
      CHECK(memcmp(b.in, b.out, kCount * bytes) == 0);

      const int root = t % size;
      fill(&b, type, self, kCount);
      OK(ncclReduce(b.in, self == root ? b.out : NULL, kCount, type, op, root, comm, NULL));
      if (self == root) check_reduced(b.out, 0, kCount, op, type, size);

      const size_t block = kCount, first = (size_t)self * block;
      fill(&b, type, self, block * (size_t)size);
      OK(ncclReduceScatter(b.in, b.out, block, type, op, comm, NULL));
      check_reduced(b.out, first, block, op, type, size);
      OK(ncclReduceScatter(b.in, b.in + first * bytes, block, type, op, comm, NULL));
      CHECK(memcmp(b.in + first * bytes, b.out, block * bytes) == 0);
    }
    OK(ncclRedOpDestroy(made, comm));
    OK(ncclRedOpDestroy(read_later, comm));
  }
  OK(ncclCommDestroy(comm));
}
static void reductions(void) { run_processes(3, reduce_all_types, -1); }
static void reductions_alone(void) { run_processes(1, reduce_all_types, -1); }

/* Bytes of rank `from`, meant for `to`. */
static char byte_of(int from, int to, size_t i) { return (char)(11 * from + 5 * to + (int)i); }

static void set_bytes(char* data, int from, int to, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) data[i] = byte_of(from, to, i);
}
static void check_bytes(const char* data, int from, int to, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) CHECK_EQ(data[i], byte_of(from, to, i));
}

static void move_all_types(const Rank* rank) {
  static _Thread_local Buffers b;
  const int size = rank->size, self = rank->rank;
  ncclComm_t comm = join(rank);
  for (int t = 0; t < ncclNumTypes; ++t) {
    const ncclDataType_t type = (ncclDataType_t)t;
    const size_t bytes = kCount * element_bytes(type);
    const int root = t % size;
    char* const mine = b.out + (size_t)self * bytes;

    set_bytes(b.in, self, 0, bytes);
    OK(ncclBroadcast(b.in, b.out, kCount, type, root, comm, NULL));
    check_bytes(b.out, root, 0, bytes);
    OK(ncclBroadcast(self == root ? b.in : NULL, b.out, kCount, type, root, comm, NULL));
    OK(ncclBcast(b.in, kCount, type, root, comm, NULL));
    check_bytes(b.in, root, 0, bytes);

    memset(b.out, 0, sizeof b.out);
    set_bytes(b.in, self, 7, bytes);
    OK(ncclAllGather(b.in, b.out, kCount, type, comm, NULL));
    for (int r = 0; r < size; ++r) check_bytes(b.out + (size_t)r * bytes, r, 7, bytes);
    memset(b.out, 0, sizeof b.out);
    memcpy(mine, b.in, bytes);
    OK(ncclAllGather(mine, b.out, kCount, type, comm, NULL));
    for (int r = 0; r < size; ++r) check_bytes(b.out + (size_t)r * bytes, r, 7, bytes);

    memset(b.out, 0, sizeof b.out);
    OK(ncclGather(b.in, self == root ? b.out : NULL, kCount, type, root, comm, NULL));
    for (int r = 0; r < size && self == root; ++r)
      check_bytes(b.out + (size_t)r * bytes, r, 7, bytes);
    memset(b.out, 0, sizeof b.out);
    memcpy(mine, b.in, bytes);
    OK(ncclGather(self == root ? mine : b.in, b.out, kCount, type, root, comm, NULL));
    for (int r = 0; r < size && self == root; ++r)
      check_bytes(b.out + (size_t)r * bytes, r, 7, bytes);

    for (int r = 0; r < size; ++r) set_bytes(b.in + (size_t)r * bytes, self, r, bytes);
    memset(b.out, 0, sizeof b.out);
    OK(ncclScatter(self == root ? b.in : NULL, b.out, kCount, type, root, comm, NULL));
    check_bytes(b.out, root, self, bytes);
    char* const own = b.in + (size_t)self * bytes;
    OK(ncclScatter(b.in, self == root ? own : b.out, kCount, type, root, comm, NULL));
    check_bytes(self == root ? own : b.out, root, self, bytes);

    memset(b.out, 0, sizeof b.out);
    OK(ncclAlltoAll(b.in, b.out, kCount, type, comm, NULL));
    for (int r = 0; r < size; ++r) check_bytes(b.out + (size_t)r * bytes, r, self, bytes);

    const int next = (self + 1) % size, before = (self + size - 1) % size;
    memset(b.out, 0, sizeof b.out);
    OK(ncclGroupStart());
    OK(ncclSend(b.in + (size_t)next * bytes, kCount, type, next, comm, NULL));
    OK(ncclRecv(b.out, kCount, type, before, comm, NULL));
    OK(ncclGroupEnd());
    check_bytes(b.out, before, self, bytes);
  }
  OK(ncclCommDestroy(comm));
}
static void movements(void) { run_processes(3, move_all_types, -1); }
static void movements_alone(void) { run_processes(1, move_all_types, -1); }
static void movements_of_threads(void) { run_threads(4, move_all_types); }

/* A collective of nothing is nothing: no other rank needs to call, and nothing is touched. */
static void of_nothing(const Rank* rank) {
  ncclComm_t comm = join(rank);
  const ncclDataType_t type = ncclFloat;
  if (rank->rank == 0) {
    OK(ncclAllReduce(NULL, NULL, 0, type, ncclSum, comm, NULL));
    OK(ncclReduce(NULL, NULL, 0, type, ncclSum, 1, comm, NULL));
    OK(ncclBroadcast(NULL, NULL, 0, type, 1, comm, NULL));
    OK(ncclBcast(NULL, 0, type, 1, comm, NULL));
    OK(ncclAllGather(NULL, NULL, 0, type, comm, NULL));
    OK(ncclReduceScatter(NULL, NULL, 0, type, ncclSum, comm, NULL));
    OK(ncclAlltoAll(NULL, NULL, 0, type, comm, NULL));
    OK(ncclGather(NULL, NULL, 0, type, 1, comm, NULL));
    OK(ncclScatter(NULL, NULL, 0, type, 1, comm, NULL));
    FAILS(ncclBroadcast(NULL, NULL, 0, type, 2, comm, NULL), ncclInvalidArgument, "root 2");
    FAILS(ncclAllReduce(NULL, NULL, 0, type, (ncclRedOp_t)99, comm, NULL), ncclInvalidArgument,
          "reduction 99");
  }
  /* Sends and receives of nothing take part. */
  if (rank->rank == 0) {
    OK(ncclSend(NULL, 0, type, 1, comm, NULL));
    OK(ncclRecv(NULL, 0, type, 1, comm, NULL));
    CHECK_EQ(atomic_load(&rank->shared->flags[0]), 1);
  } else {
    OK(ncclRecv(NULL, 0, type, 0, comm, NULL));
    nap(50);
    raise_flag(rank->shared, 0);
    OK(ncclSend(NULL, 0, type, 0, comm, NULL));
  }
  int x = 1;
  OK(ncclAllReduce(&x, &x, 1, ncclInt, ncclSum, comm, NULL));
  CHECK_EQ(x, 2);
  OK(ncclCommDestroy(comm));
}
static void nothing(void) { run_processes(2, of_nothing, -1); }

static void refusals(void) {
  ncclComm_t comms[2];
  OK(ncclCommInitAll(comms, 2, NULL));
  ncclComm_t comm = comms[0];
  float x[8] = {0}, y[8] = {0};
  const ncclDataType_t f = ncclFloat;
  FAILS(ncclAllReduce(x, y, 1, (ncclDataType_t)12, ncclSum, comm, NULL), ncclInvalidArgument,
        "datatype 12");
  FAILS(ncclAllReduce(x, y, 1, (ncclDataType_t)-1, ncclSum, comm, NULL), ncclInvalidArgument,
        "datatype -1");
  FAILS(ncclAllReduce(x, y, 1, f, (ncclRedOp_t)-1, comm, NULL), ncclInvalidArgument,
        "reduction -1");
  FAILS(ncclAllReduce(x, y, 1, f, ncclNumOps, comm, NULL), ncclInvalidArgument, "reduction 5");
  FAILS(ncclAllReduce(x, NULL, 1, f, ncclSum, comm, NULL), ncclInvalidArgument, "recv is null");
  FAILS(ncclAllReduce(NULL, y, 1, f, ncclSum, comm, NULL), ncclInvalidArgument, "send is null");
  FAILS(ncclAllReduce(x, x + 1, 4, f, ncclSum, comm, NULL), ncclInvalidArgument, "overlap");
  FAILS(ncclAllReduce(x, y, SIZE_MAX / 2, f, ncclSum, comm, NULL), ncclInvalidArgument, "memory");
  FAILS(ncclBroadcast(x, y, 1, f, 2, comm, NULL), ncclInvalidArgument, "root 2");
  FAILS(ncclReduce(x, y, 1, f, ncclSum, -1, comm, NULL), ncclInvalidArgument, "root -1");
  FAILS(ncclGather(x, y, 1, f, 9, comm, NULL), ncclInvalidArgument, "root 9");
  FAILS(ncclScatter(x, y, 1, f, 9, comm, NULL), ncclInvalidArgument, "root 9");
  FAILS(ncclSend(x, 1, f, 2, comm, NULL), ncclInvalidArgument, "peer 2");
  FAILS(ncclRecv(x, 1, f, -1, comm, NULL), ncclInvalidArgument, "peer -1");
  FAILS(ncclSend(x, 1, f, 0, comm, NULL), ncclInvalidUsage, "rank 0");
  FAILS(ncclAllReduce(x, y, 1, f, ncclSum, NULL, NULL), ncclInvalidArgument, "null");
  const cudaStream_t stream = (cudaStream_t)x;
  FAILS(ncclAllReduce(x, y, 1, f, ncclSum, comm, stream), ncclInvalidArgument, "stream");
  FAILS(ncclSend(x, 1, f, 1, comm, stream), ncclInvalidArgument, "stream");
  /* None of that was made: the ranks are still in step. CUDA's names of default streams are fine.
   */
  x[0] = 1;
  OK(ncclGroupStart());
  OK(ncclAllReduce(x, y, 1, f, ncclSum, comms[0], (cudaStream_t)1));
  OK(ncclAllReduce(x, y + 1, 1, f, ncclSum, comms[1], (cudaStream_t)2));
  OK(ncclGroupEnd());
  CHECK(y[0] == 2 && y[1] == 2);
  for (int r = 0; r < 2; ++r) OK(ncclCommDestroy(comms[r]));
}

static void made_reductions(void) {
  ncclComm_t comms[2];
  OK(ncclCommInitAll(comms, 2, NULL));
  float half = 0.5f, x[2] = {3, 5}, y[2];
  int64_t huge = (INT64_C(1) << 60) + 1, large = INT64_C(1) << 60;
  ncclRedOp_t op = ncclSum, other = ncclSum;
  FAILS(ncclRedOpCreatePreMulSum(NULL, &half, ncclFloat, ncclScalarHostImmediate, comms[0]),
        ncclInvalidArgument, "op is null");
  FAILS(ncclRedOpCreatePreMulSum(&op, NULL, ncclFloat, ncclScalarHostImmediate, comms[0]),
        ncclInvalidArgument, "scalar is null");
  FAILS(ncclRedOpCreatePreMulSum(&op, &half, ncclNumTypes, ncclScalarHostImmediate, comms[0]),
        ncclInvalidArgument, "datatype 12");
  FAILS(ncclRedOpCreatePreMulSum(&op, &half, ncclFloat, (ncclScalarResidence_t)2, comms[0]),
        ncclInvalidArgument, "residence 2");
  FAILS(ncclRedOpCreatePreMulSum(&op, &huge, ncclInt64, ncclScalarHostImmediate, comms[0]),
        ncclInvalidArgument, "53 significant bits");
  OK(ncclRedOpCreatePreMulSum(&op, &large, ncclInt64, ncclScalarHostImmediate, comms[0]));
  OK(ncclRedOpDestroy(op, comms[0]));
  OK(ncclRedOpCreatePreMulSum(&op, &half, ncclFloat, ncclScalarHostImmediate, comms[0]));
  OK(ncclRedOpCreatePreMulSum(&other, &half, ncclFloat, ncclScalarDevice, comms[1]));
  FAILS(ncclAllReduce(x, y, 1, ncclFloat, op, comms[1], NULL), ncclInvalidArgument, "neither");
  FAILS(ncclAllReduce(x, y, 1, ncclDouble, op, comms[0], NULL), ncclInvalidArgument,
        "made for datatype 7");
  /* The first was read when it was made, the second is read when it is used. */
  half = 10;
  OK(ncclGroupStart());
  for (int r = 0; r < 2; ++r)
    OK(ncclAllReduce(&x[r], &y[r], 1, ncclFloat, r == 0 ? op : other, comms[r], NULL));
  OK(ncclRedOpDestroy(op, comms[0]));
  OK(ncclGroupEnd());
  CHECK(y[0] == 51.5f && y[1] == 51.5f);
  FAILS(ncclAllReduce(x, y, 1, ncclFloat, op, comms[0], NULL), ncclInvalidArgument, "neither");
  FAILS(ncclRedOpDestroy(op, comms[0]), ncclInvalidArgument, "not made");
  FAILS(ncclRedOpDestroy(other, comms[0]), ncclInvalidArgument, "not made");
  FAILS(ncclRedOpDestroy(ncclSum, comms[0]), ncclInvalidArgument, "built in");
  OK(ncclRedOpDestroy(other, comms[1]));
  for (int r = 0; r < 2; ++r) OK(ncclCommDestroy(comms[r]));
}

/* Shared memory of ours that this process has mapped. */
static int mappings(void) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[512];
  int count = 0;
  CHECK(maps);
  while (fgets(line, sizeof line, maps)) count += strstr(line, "memfd:tutti") != NULL;
  fclose(maps);
  return count;
}

/* Registered memory of ncclMemAlloc() gives the same results, here large enough that it matters;
 * so does other memory. */
static void registered(const Rank* rank) {
  enum { kLarge = 300000 };
  ncclComm_t comm = join(rank), part = NULL;
  OK(ncclCommSplit(comm, 0, 0, &part, NULL));
  float *in = NULL, *out = NULL, *own = malloc(kLarge * sizeof *own);
  OK(ncclMemAlloc((void**)&in, kLarge * sizeof *in));
  OK(ncclMemAlloc((void**)&out, kLarge * sizeof *out));
  void *handle = NULL, *again = NULL, *ownHandle = NULL;
  ncclWindow_t window = NULL;
  const int before = mappings();
  raise_flag(rank->shared, 0);
  await_flag(rank->shared, 0, rank->size);
  OK(ncclCommRegister(comm, in, kLarge * sizeof *in, &handle));
  OK(ncclCommRegister(part, in, kLarge * sizeof *in, &again));
  raise_flag(rank->shared, 1);
  await_flag(rank->shared, 1, rank->size);
  CHECK_EQ(mappings(), before + rank->size - 1); /* the other ranks', each once */
  raise_flag(rank->shared, 2);
  await_flag(rank->shared, 2, rank->size);
  OK(ncclCommRegister(comm, own, kLarge * sizeof *own, &ownHandle));
  OK(ncclCommWindowRegister(comm, out, kLarge * sizeof *out, &window, NCCL_WIN_COLL_SYMMETRIC));
  CHECK(handle && again && ownHandle && window);
  FAILS(ncclCommWindowRegister(comm, out, 1, &window, 4), ncclInvalidUsage, "ncclPutSignal");
  FAILS(ncclCommWindowRegister(comm, out, 1, &window, 16), ncclInvalidArgument, "winFlags is 16");
  FAILS(ncclCommWindowRegister(comm, NULL, 1, &window, 0), ncclInvalidArgument, "buff");
  FAILS(ncclCommWindowRegister(comm, out, 0, &window, 0), ncclInvalidArgument, "size 0");
  FAILS(ncclCommRegister(comm, out, 1, NULL), ncclInvalidArgument, "handle is null");
  for (int round = 0; round < 3; ++round) {
    ncclComm_t on = round == 1 ? part : comm;
    for (size_t i = 0; i < kLarge; ++i) in[i] = own[i] = (float)(rank->rank + 1) * (float)(i % 7);
    OK(ncclAllReduce(in, out, kLarge, ncclFloat, ncclSum, on, NULL));
    OK(ncclAllReduce(own, own, kLarge, ncclFloat, ncclSum, on, NULL));
    const float ranks = (float)(rank->size * (rank->size + 1) / 2);
    for (size_t i = 0; i < kLarge; ++i) CHECK(out[i] == ranks * (float)(i % 7));
    CHECK(memcmp(out, own, kLarge * sizeof *out) == 0);
    if (round == 1) OK(ncclCommDeregister(comm, handle)); /* `again` is still there */
  }
  FAILS(ncclCommDeregister(comm, handle), ncclInvalidArgument, "no registration");
  FAILS(ncclCommDeregister(comm, again), ncclInvalidArgument, "no registration");
  OK(ncclCommDeregister(part, again));
  OK(ncclCommDeregister(comm, ownHandle));
  OK(ncclCommDeregister(comm, NULL));
  OK(ncclMemFree(out)); /* the window keeps it */
  OK(ncclCommWindowDeregister(comm, window));
  OK(ncclCommWindowDeregister(comm, NULL));
  FAILS(ncclCommWindowDeregister(comm, window), ncclInvalidArgument, "no window");
  OK(ncclCommDestroy(part));
  OK(ncclCommDestroy(comm));
  OK(ncclMemFree(in));
  free(own);
}
static void registrations(void) { run_processes(3, registered, -1); }

const Case collective_cases[] = {
    {"collectives/reductions", reductions},
    {"collectives/reductions_alone", reductions_alone},
    {"collectives/movements", movements},
    {"collectives/movements_alone", movements_alone},
    {"collectives/movements_of_threads", movements_of_threads},
    {"collectives/nothing", nothing},
    {"collectives/refusals", refusals},
    {"collectives/made_reductions", made_reductions},
    {"collectives/registrations", registrations},
    {NULL, NULL},
};
