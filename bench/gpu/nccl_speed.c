/* nccl_speed [MOST_BYTES [CALLS]]: collectives over all GPUs of the machine by one thread, through
 * whatever libnccl.so.2 the loader finds: a line "collective bytes microseconds" for each size,
 * from 8 bytes to MOST_BYTES (256 MiB), the median of CALLS (20) by events of rank 0. Bytes are
 * those of the larger buffer of a rank. For two libraries side by side, run it with two
 * LD_LIBRARY_PATHs, in turn. */

#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

#define CHECK(call)                                                                         \
  do {                                                                                      \
    const int result_ = (int)(call);                                                        \
    if (result_ != 0) {                                                                     \
      fprintf(stderr, "nccl_speed: %s: %d (%s)\n", #call, result_, ncclGetLastError(NULL)); \
      exit(1);                                                                              \
    }                                                                                       \
  } while (0)

enum { kMost = 16, kWarmups = 5, kMostCalls = 1000 };

typedef struct {
  void *in, *out;
  int rank, size;
  ncclComm_t comm;
  cudaStream_t stream;
} Rank;

/* `count` elements of float32 are in the larger of a rank's buffers; a multiple of the ranks. */
typedef ncclResult_t (*Call)(const Rank* r, size_t count);

static ncclResult_t all_reduce(const Rank* r, size_t count) {
  return ncclAllReduce(r->in, r->out, count, ncclFloat32, ncclSum, r->comm, r->stream);
}
static ncclResult_t all_gather(const Rank* r, size_t count) {
  return ncclAllGather(r->in, r->out, count / r->size, ncclFloat32, r->comm, r->stream);
}
static ncclResult_t reduce_scatter(const Rank* r, size_t count) {
  return ncclReduceScatter(r->in, r->out, count / r->size, ncclFloat32, ncclSum, r->comm,
                           r->stream);
}
static ncclResult_t broadcast(const Rank* r, size_t count) {
  return ncclBroadcast(r->in, r->out, count, ncclFloat32, 0, r->comm, r->stream);
}
static ncclResult_t reduce(const Rank* r, size_t count) {
  return ncclReduce(r->in, r->out, count, ncclFloat32, ncclSum, 0, r->comm, r->stream);
}
static ncclResult_t alltoall(const Rank* r, size_t count) {
  const size_t block = count / r->size;
  for (int peer = 0; peer < r->size; ++peer) {
    CHECK(
        ncclSend((const float*)r->in + peer * block, block, ncclFloat32, peer, r->comm, r->stream));
    CHECK(ncclRecv((float*)r->out + peer * block, block, ncclFloat32, peer, r->comm, r->stream));
  }
  return ncclSuccess;
}
static ncclResult_t sendrecv(const Rank* r, size_t count) {
  const int next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
  CHECK(ncclSend(r->in, count, ncclFloat32, next, r->comm, r->stream));
  return ncclRecv(r->out, count, ncclFloat32, before, r->comm, r->stream);
}

static const struct {
  const char* name;
  Call call;
} kCollectives[] = {
    {"all_reduce", all_reduce}, {"all_gather", all_gather}, {"reduce_scatter", reduce_scatter},
    {"broadcast", broadcast},   {"reduce", reduce},         {"alltoall", alltoall},
    {"sendrecv", sendrecv}};

static int ascending(const void* a, const void* b) {
  const float x = *(const float*)a, y = *(const float*)b;
  return (x > y) - (x < y);
}

static size_t number(const char* text, size_t least, size_t most, const char* what) {
  char* end = NULL;
  const unsigned long long value = strtoull(text, &end, 10);
  if (end == text || *end != '\0' || *text == '-' || value < least || value > most) {
    fprintf(stderr, "nccl_speed: %s \"%s\" is no number of %zu to %zu\n", what, text, least, most);
    exit(2);
  }
  return (size_t)value;
}

int main(int argc, char** argv) {
  if (argc > 3) {
    fprintf(stderr, "usage: nccl_speed [MOST_BYTES [CALLS]]\n");
    return 2;
  }
  const size_t most =
      argc > 1 ? number(argv[1], 8, (size_t)1 << 36, "MOST_BYTES") : (size_t)256 << 20;
  const int calls = argc > 2 ? (int)number(argv[2], 1, kMostCalls, "CALLS") : 20;
  int size = 0;
  CHECK(cudaGetDeviceCount(&size));
  if (size > kMost) size = kMost;
  ncclComm_t comms[kMost];
  Rank ranks[kMost];
  CHECK(ncclCommInitAll(comms, size, NULL));
  for (int r = 0; r < size; ++r) {
    ranks[r] = (Rank){.rank = r, .size = size, .comm = comms[r]};
    CHECK(cudaSetDevice(r));
    CHECK(cudaStreamCreateWithFlags(&ranks[r].stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&ranks[r].in, most + 4 * kMost));
    CHECK(cudaMalloc(&ranks[r].out, most + 4 * kMost));
    CHECK(cudaMemset(ranks[r].in, 0, most));
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaSetDevice(0));
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  for (size_t c = 0; c < sizeof kCollectives / sizeof *kCollectives; ++c)
    for (size_t bytes = 8; bytes <= most; bytes *= 8) {
      const size_t count = (bytes / 4 + size - 1) / size * size;
      float times[kWarmups + kMostCalls];
      for (int call = 0; call < kWarmups + calls; ++call) {
        CHECK(cudaEventRecord(begin, ranks[0].stream));
        CHECK(ncclGroupStart());
        for (int r = 0; r < size; ++r) CHECK(kCollectives[c].call(&ranks[r], count));
        CHECK(ncclGroupEnd());
        CHECK(cudaEventRecord(end, ranks[0].stream));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaEventElapsedTime(&times[call], begin, end));
      }
      for (int r = 0; r < size; ++r) CHECK(cudaStreamSynchronize(ranks[r].stream));
      qsort(times + kWarmups, calls, sizeof *times, ascending);
      printf("%s %zu %.2f\n", kCollectives[c].name, bytes,
             1000 * (double)times[kWarmups + calls / 2]);
    }
  for (int r = 0; r < size; ++r) CHECK(ncclCommDestroy(comms[r]));
  return 0;
}
