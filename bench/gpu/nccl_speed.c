/* nccl_speed: AllReduce over all GPUs of the machine by one thread, through whatever libnccl.so.2
 * the loader finds: a line "bytes microseconds" for each size, the median of 20 calls by events of
 * rank 0. For two libraries side by side, run it with two LD_LIBRARY_PATHs, in turn. */

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

enum { kMost = 16, kWarmups = 5, kCalls = 20 };
static const size_t kMostBytes = (size_t)256 << 20;

static int ascending(const void* a, const void* b) {
  const float x = *(const float*)a, y = *(const float*)b;
  return (x > y) - (x < y);
}

int main(void) {
  int size = 0;
  CHECK(cudaGetDeviceCount(&size));
  if (size > kMost) size = kMost;
  ncclComm_t comms[kMost];
  cudaStream_t streams[kMost];
  void* buffers[kMost];
  CHECK(ncclCommInitAll(comms, size, NULL));
  for (int r = 0; r < size; ++r) {
    CHECK(cudaSetDevice(r));
    CHECK(cudaStreamCreateWithFlags(&streams[r], cudaStreamNonBlocking));
    CHECK(cudaMalloc(&buffers[r], kMostBytes));
    CHECK(cudaMemset(buffers[r], 0, kMostBytes));
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaSetDevice(0));
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  for (size_t bytes = 8; bytes <= kMostBytes; bytes *= 8) {
    float times[kWarmups + kCalls];
    for (int call = 0; call < kWarmups + kCalls; ++call) {
      CHECK(cudaEventRecord(begin, streams[0]));
      CHECK(ncclGroupStart());
      for (int r = 0; r < size; ++r)
        CHECK(ncclAllReduce(buffers[r], buffers[r], bytes / 4, ncclFloat32, ncclMax, comms[r],
                            streams[r]));
      CHECK(ncclGroupEnd());
      CHECK(cudaEventRecord(end, streams[0]));
      CHECK(cudaEventSynchronize(end));
      CHECK(cudaEventElapsedTime(&times[call], begin, end));
    }
    for (int r = 0; r < size; ++r) CHECK(cudaStreamSynchronize(streams[r]));
    qsort(times + kWarmups, kCalls, sizeof *times, ascending);
    printf("%zu %.2f\n", bytes, 1000 * (double)times[kWarmups + kCalls / 2]);
  }
  for (int r = 0; r < size; ++r) CHECK(ncclCommDestroy(comms[r]));
  return 0;
}
