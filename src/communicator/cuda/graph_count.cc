#include "src/communicator/cuda/graph_count.h"

#include "src/device/cuda/check.h"

namespace tutti::communicator {
namespace {

using Shared = std::shared_ptr<std::atomic<int>>;

/// By a thread of CUDA's, which may not call CUDA.
void countDown(void* shared) {
  const std::unique_ptr<Shared> count(static_cast<Shared*>(shared));
  (*count)->fetch_sub(1, std::memory_order_release);
}

}  // namespace

void GraphCount::add(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  TUTTI_CUDA(cudaStreamGetCaptureInfo(stream, &status, &id, &graph));
  if (status != cudaStreamCaptureStatusActive) return;  // it has failed, and there is no graph
  auto shared = std::make_unique<Shared>(count_);
  cudaUserObject_t object = nullptr;
  TUTTI_CUDA(
      cudaUserObjectCreate(&object, shared.get(), countDown, 1, cudaUserObjectNoDestructorSync));
  count_->fetch_add(1, std::memory_order_relaxed);
  shared.release();  // countDown() has it
  const cudaError_t error = cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove);
  if (error == cudaSuccess) return;
  cudaUserObjectRelease(object, 1);
  device::failCuda("cudaGraphRetainUserObject", error);
}

}  // namespace tutti::communicator
