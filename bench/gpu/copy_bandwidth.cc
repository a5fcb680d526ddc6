// copy_bandwidth [MIB]: the physical limit beside which collectives on one GPU are measured: copies
// of so many MiB (256) from one place of a GPU's memory to another, bytes read plus bytes written
// over the median time of 20. Prints gigabytes per second, and nothing else.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "copy_bandwidth: %s: %s\n", call, cudaGetErrorString(error));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

double medianMs(const char* from, char* to, size_t bytes) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<float> times(25);
  for (float& time : times) {
    CHECK(cudaEventRecord(begin));
    CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice));
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaEventElapsedTime(&time, begin, end));
  }
  times.erase(times.begin(), times.begin() + 5);  // the first ones warm up
  std::ranges::nth_element(times, times.begin() + 10);
  return times[10];
}

}  // namespace

int main(int argc, char** argv) {
  const size_t bytes = static_cast<size_t>(argc > 1 ? std::atoll(argv[1]) : 256) << 20;
  char *from = nullptr, *to = nullptr;
  CHECK(cudaMalloc(reinterpret_cast<void**>(&from), bytes));
  CHECK(cudaMalloc(reinterpret_cast<void**>(&to), bytes));
  std::vector<char> content(bytes);
  for (size_t i = 0; i < bytes; ++i) content[i] = static_cast<char>(i * 2654435761U >> 13);
  CHECK(cudaMemcpy(from, content.data(), bytes, cudaMemcpyHostToDevice));
  std::printf("%.1f\n", 2e-6 * static_cast<double>(bytes) / medianMs(from, to, bytes));
  return 0;
}
