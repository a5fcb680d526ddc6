#pragma once

// The stream of a device on which the library does what waits for no kernel.

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>

#include "src/device/cuda/guards.h"

namespace tutti::device {

/// A device's stream for set-up, and for copies that return when they are done: it waits for
/// nothing else there, where kernels may spin until a peer is ready. All of the process share it,
/// and it stays: CUDA deals its queues out as streams are made, and ranks of one device whose
/// streams get the same one would wait for each other. Streams of different priorities do not share
/// a queue, so it has the greatest, which callers' seldom have.
class SetupStream {
 public:
  explicit SetupStream(int device) {
    static std::mutex mutex;
    static auto& streams = *new std::map<int, cudaStream_t>;
    const std::lock_guard lock(mutex);
    const auto known = streams.find(device);
    if (known != streams.end()) {
      stream_ = known->second;
      return;
    }
    OnDevice on(device);
    int least = 0, greatest = 0;
    TUTTI_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    TUTTI_CUDA(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest));
    streams.emplace(device, stream_);
  }
  cudaStream_t get() const { return stream_; }
  void wait() const { TUTTI_CUDA(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace tutti::device
