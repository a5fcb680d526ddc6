#include "gpu.h"

#include <math.h>
#include <stdint.h>

int device_count(void) {
  int count = 0;
  CUDA(cudaGetDeviceCount(&count));
  return count;
}

Gpu make_gpu(int rank, int size, int device, ncclComm_t comm) {
  Gpu g = {rank, size, device, {0, 1, 2, 3}, comm, NULL, NULL, NULL};
  CUDA(cudaSetDevice(device));
  CUDA(cudaStreamCreateWithFlags(&g.stream, cudaStreamNonBlocking));
  CUDA(cudaMalloc((void**)&g.in, kCount * kMaxRanks * 8));
  CUDA(cudaMalloc((void**)&g.out, kCount * kMaxRanks * 8));
  return g;
}

void end_gpu(Gpu* g) {
  OK(ncclCommDestroy(g->comm));
  CUDA(cudaSetDevice(g->device));
  CUDA(cudaStreamDestroy(g->stream));
  CUDA(cudaFree(g->in));
  CUDA(cudaFree(g->out));
}

double input(ncclDataType_t type, int number, size_t i) {
  uint32_t mixed = (uint32_t)(i * kMaxRanks + (size_t)number) * 0x9e3779b1u;
  mixed = (mixed ^ mixed >> 15) * 0x85ebca77u;
  mixed ^= mixed >> 13;
  if (element_bytes(type) > 2) return 1 + mixed % 2039;
  if (element_bytes(type) == 1 && is_floating(type)) return 1 << mixed % 3;
  return 1 + mixed % 11;
}

void put(const Gpu* g, ncclDataType_t type, size_t count) {
  char host[kCount * kMaxRanks * 8];
  for (size_t i = 0; i < count; ++i) set_element(type, host, i, input(type, g->number[g->rank], i));
  CUDA(
      cudaMemcpyAsync(g->in, host, count * element_bytes(type), cudaMemcpyHostToDevice, g->stream));
  CUDA(cudaMemsetAsync(g->out, 0, kCount * kMaxRanks * 8, g->stream));
  CUDA(cudaStreamSynchronize(g->stream));
}

void get(const Gpu* g, const void* from, char* host, size_t bytes) {
  CUDA(cudaStreamSynchronize(g->stream));
  CUDA(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, g->stream));
  CUDA(cudaStreamSynchronize(g->stream));
}

void check_reduced(const Gpu* g, const void* out, ncclDataType_t type, ncclRedOp_t op, size_t first,
                   size_t count) {
  char host[kCount * kMaxRanks * 8];
  get(g, out, host, count * element_bytes(type));
  for (size_t i = 0; i < count; ++i) {
    double sum = 0, product = 1, least = INFINITY, most = 0;
    for (int r = 0; r < g->size; ++r) {
      const double x = input(type, g->number[r], first + i);
      sum += x;
      product *= x;
      least = fmin(least, x);
      most = fmax(most, x);
    }
    double want = op == ncclSum ? sum : op == ncclProd ? product : op == ncclMin ? least : most;
    if (op == ncclAvg) want = is_floating(type) ? sum / g->size : trunc(sum / g->size);
    if (op >= ncclNumOps) want = 2 * sum; /* every rank's scalar is 2 */
    const double got = get_element(type, host, i);
    if (got == want) continue;
    fprintf(stderr, "rank %d of %d, type %d, op %d, element %zu: %g, not %g\n", g->rank, g->size,
            (int)type, (int)op, first + i, got, want);
    CHECK(0);
  }
}

void check_input(const Gpu* g, const void* out, ncclDataType_t type, int rank, size_t first,
                 size_t count) {
  char host[kCount * kMaxRanks * 8];
  get(g, out, host, count * element_bytes(type));
  for (size_t i = 0; i < count; ++i) {
    const double got = get_element(type, host, i), want = input(type, g->number[rank], first + i);
    if (got == want) continue;
    fprintf(stderr, "rank %d of %d, from rank %d, element %zu: %g, not %g\n", g->rank, g->size,
            rank, first + i, got, want);
    CHECK(0);
  }
}

void check_block(const Gpu* g, ncclDataType_t type, size_t b, int rank, size_t first,
                 size_t count) {
  check_input(g, g->out + b * count * element_bytes(type), type, rank, first, count);
}

void reduce_every_type(Gpu* g) {
  for (int t = 0; t < ncclNumTypes; ++t) {
    const ncclDataType_t type = (ncclDataType_t)t;
    _Alignas(8) char two[8];
    set_element(type, two, 0, 2);
    char* on_device = NULL;
    CUDA(cudaMalloc((void**)&on_device, 8));
    CUDA(cudaMemcpyAsync(on_device, two, 8, cudaMemcpyHostToDevice, g->stream));
    ncclRedOp_t made = ncclSum, read_later = ncclSum;
    OK(ncclRedOpCreatePreMulSum(&made, two, type, ncclScalarHostImmediate, g->comm));
    OK(ncclRedOpCreatePreMulSum(&read_later, on_device, type, ncclScalarDevice, g->comm));
    const ncclRedOp_t ops[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg, made, read_later};
    for (size_t o = 0; o < sizeof ops / sizeof *ops; ++o) {
      put(g, type, kCount);
      OK(ncclAllReduce(g->in, g->out, kCount, type, ops[o], g->comm, g->stream));
      check_reduced(g, g->out, type, ops[o], 0, kCount);
    }
    OK(ncclRedOpDestroy(made, g->comm));
    OK(ncclRedOpDestroy(read_later, g->comm));
    CUDA(cudaStreamSynchronize(g->stream));
  }
}

char* cleared(const Gpu* g) {
  CUDA(cudaMemsetAsync(g->out, 0, kCount * kMaxRanks * 8, g->stream));
  return g->out;
}

static void copy(const Gpu* g, void* to, const void* from, size_t bytes) {
  CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, g->stream));
}

static void in_place_collectives(Gpu* g) {
  const ncclDataType_t type = ncclFloat32;
  const size_t block = 4 * kCount;
  const int root = g->size - 1;
  char* own = g->out + block * (size_t)g->rank;
  put(g, type, kCount * (size_t)g->size);
  copy(g, own, g->in, block);
  OK(ncclAllGather(own, g->out, kCount, type, g->comm, g->stream));
  for (int r = 0; r < g->size; ++r) check_block(g, type, (size_t)r, r, 0, kCount);
  copy(g, g->out, g->in, block * (size_t)g->size);
  OK(ncclReduceScatter(g->out, own, kCount, type, ncclSum, g->comm, g->stream));
  check_reduced(g, own, type, ncclSum, kCount * (size_t)g->rank, kCount);
  if (g->rank == root) copy(g, cleared(g), g->in, block);
  OK(ncclBcast(g->out, kCount, type, root, g->comm, g->stream));
  check_block(g, type, 0, root, 0, kCount);
  OK(ncclAllReduce(g->in, g->in, kCount, type, ncclSum, g->comm, g->stream));
  check_reduced(g, g->in, type, ncclSum, 0, kCount);
}

void every_collective(Gpu* g) {
  const ncclDataType_t type = ncclFloat32;
  const size_t all = kCount * (size_t)g->size;
  const int root = g->size - 1;
  put(g, type, all);
  OK(ncclReduceScatter(g->in, cleared(g), kCount, type, ncclSum, g->comm, g->stream));
  check_reduced(g, g->out, type, ncclSum, kCount * (size_t)g->rank, kCount);
  OK(ncclReduce(g->in, cleared(g), kCount, type, ncclMax, root, g->comm, g->stream));
  if (g->rank == root) check_reduced(g, g->out, type, ncclMax, 0, kCount);
  OK(ncclAllGather(g->in, cleared(g), kCount, type, g->comm, g->stream));
  for (int r = 0; r < g->size; ++r) check_block(g, type, (size_t)r, r, 0, kCount);
  OK(ncclAlltoAll(g->in, cleared(g), kCount, type, g->comm, g->stream));
  for (int r = 0; r < g->size; ++r)
    check_block(g, type, (size_t)r, r, kCount * (size_t)g->rank, kCount);
  char* at_root = g->rank == root ? cleared(g) : NULL;
  OK(ncclGather(g->in, at_root, kCount, type, root, g->comm, g->stream));
  for (int r = 0; r < g->size && g->rank == root; ++r)
    check_block(g, type, (size_t)r, r, 0, kCount);
  const char* of_root = g->rank == root ? g->in : NULL;
  OK(ncclScatter(of_root, cleared(g), kCount, type, root, g->comm, g->stream));
  check_block(g, type, 0, root, kCount * (size_t)g->rank, kCount);
  OK(ncclBroadcast(of_root, cleared(g), kCount, type, root, g->comm, g->stream));
  check_block(g, type, 0, root, 0, kCount);
  OK(ncclAllReduce(g->in, g->out, 0, type, ncclSum, g->comm, g->stream));
  in_place_collectives(g);
}

Gpu enter_on(const Rank* rank, int device) {
  CUDA(cudaSetDevice(device));
  Gpu g = make_gpu(rank->rank, rank->size, device, join(rank));
  int said = -1;
  OK(ncclCommCuDevice(g.comm, &said));
  CHECK_EQ(said, device);
  return g;
}

Gpu part_of(const Gpu* g, ncclComm_t comm, const int* members, int size) {
  Gpu part = *g;
  part.comm = comm;
  OK(ncclCommUserRank(comm, &part.rank));
  OK(ncclCommCount(comm, &part.size));
  CHECK_EQ(part.size, size);
  CHECK_EQ(members[part.rank], g->rank);
  for (int r = 0; r < size; ++r) part.number[r] = g->number[members[r]];
  return part;
}

void meet(const Rank* rank, int flag) {
  raise_flag(rank->shared, flag);
  await_flag(rank->shared, flag, rank->size);
}
