#pragma once

// How many captured calls are in graphs that are there still, as graphs or as their executables:
// CUDA tells when the last of them is gone, and nothing of it runs any more.

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>

namespace tutti::communicator {

class GraphCount {
 public:
  /// Of the graph that the stream is being captured into.
  void add(cudaStream_t stream);
  bool any() const { return count_->load(std::memory_order_acquire) > 0; }

 private:
  // CUDA calls back whenever it likes.
  std::shared_ptr<std::atomic<int>> count_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace tutti::communicator
