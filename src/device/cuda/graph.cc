#include "src/device/cuda/graph.h"

#include <utility>

#include "src/base/check.h"
#include "src/base/process.h"
#include "src/device/cuda.h"
#include "src/device/cuda/check.h"
#include "src/device/cuda/guards.h"

namespace tutti::device {
namespace {

class CudaGraph final : public Graph {
 public:
  /// Takes `captured` over.
  CudaGraph(cudaGraph_t captured, int device) : device_(device), captured_(captured) {
    const OnDevice here(device_);
    const cudaError_t made = cudaGraphInstantiate(&ready_, captured_, 0);
    if (made == cudaSuccess) return;
    cudaGraphDestroy(captured_);
    failCuda("cudaGraphInstantiate", made, "");
  }
  ~CudaGraph() override {
    if (guard_.inForkedChild()) return;
    cudaGraphExecDestroy(ready_);
    cudaGraphDestroy(captured_);
  }
  void launch(StreamRef stream) override {
    guard_.requireOwner("Graph::launch");
    const OnDevice here(device_);
    TUTTI_CUDA(cudaGraphLaunch(ready_, stream.cuda()));
  }

 private:
  const int device_;
  const base::ProcessGuard guard_;
  cudaGraph_t captured_;
  cudaGraphExec_t ready_ = nullptr;
};

using Kept = std::shared_ptr<void>;

void letGo(void* kept) { delete static_cast<Kept*>(kept); }

// Since CUDA 13 edges have data, which none of ours has.
#if CUDART_VERSION >= 13000
cudaError_t getCapture(cudaStream_t stream, cudaStreamCaptureStatus* status, cudaGraph_t* graph,
                       const cudaGraphNode_t** last, size_t* count) {
  return cudaStreamGetCaptureInfo(stream, status, nullptr, graph, last, nullptr, count);
}
cudaError_t addEdge(cudaGraph_t graph, cudaGraphNode_t from, cudaGraphNode_t to) {
  return cudaGraphAddDependencies(graph, &from, &to, nullptr, 1);
}
cudaError_t removeEdge(cudaGraph_t graph, cudaGraphNode_t from, cudaGraphNode_t to) {
  return cudaGraphRemoveDependencies(graph, &from, &to, nullptr, 1);
}
#else
cudaError_t getCapture(cudaStream_t stream, cudaStreamCaptureStatus* status, cudaGraph_t* graph,
                       const cudaGraphNode_t** last, size_t* count) {
  return cudaStreamGetCaptureInfo(stream, status, nullptr, graph, last, count);
}
cudaError_t addEdge(cudaGraph_t graph, cudaGraphNode_t from, cudaGraphNode_t to) {
  return cudaGraphAddDependencies(graph, &from, &to, 1);
}
cudaError_t removeEdge(cudaGraph_t graph, cudaGraphNode_t from, cudaGraphNode_t to) {
  return cudaGraphRemoveDependencies(graph, &from, &to, 1);
}
#endif

}  // namespace

std::unique_ptr<Graph> capture(StreamRef stream, const std::function<void()>& work) {
  TUTTI_REQUIRE(stream.isCuda(), "there are no graphs of work on ", toString(stream.device()));
  const int device = stream.device().index;
  const OnDevice here(device);
  TUTTI_CUDA(cudaStreamBeginCapture(stream.cuda(), cudaStreamCaptureModeThreadLocal));
  cudaGraph_t captured = nullptr;
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(stream.cuda(), &captured);
    if (captured != nullptr) cudaGraphDestroy(captured);
    cudaGetLastError();
    throw;
  }
  TUTTI_CUDA(cudaStreamEndCapture(stream.cuda(), &captured));
  return std::make_unique<CudaGraph>(captured, device);
}

void keepInGraph(cudaStream_t stream, std::shared_ptr<void> kept) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  TUTTI_CUDA(cudaStreamGetCaptureInfo(stream, &status, &id, &graph));
  if (status != cudaStreamCaptureStatusActive) return;
  auto held = std::make_unique<Kept>(std::move(kept));
  cudaUserObject_t object = nullptr;
  TUTTI_CUDA(cudaUserObjectCreate(&object, held.get(), letGo, 1, cudaUserObjectNoDestructorSync));
  held.release();  // letGo() has it
  const cudaError_t error = cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove);
  if (error == cudaSuccess) return;
  cudaUserObjectRelease(object, 1);
  failCuda("cudaGraphRetainUserObject", error);
}

// While a graph is captured nodes of it may be added, and not removed.
void RecordNode::move(cudaStream_t stream, cudaEvent_t event) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* last = nullptr;
  size_t count = 0;
  TUTTI_CUDA(getCapture(stream, &status, &graph, &last, &count));
  TUTTI_ASSERT(status == cudaStreamCaptureStatusActive, "a stream that is not captured");
  const std::vector<cudaGraphNode_t> now(last, last + count);
  if (node_ == nullptr) TUTTI_CUDA(cudaGraphAddEventRecordNode(&node_, graph, nullptr, 0, event));
  for (const cudaGraphNode_t before : std::exchange(behind_, {}))
    TUTTI_CUDA(removeEdge(graph, before, node_));
  for (const cudaGraphNode_t before : now) {
    TUTTI_CUDA(addEdge(graph, before, node_));
    behind_.push_back(before);
  }
}

}  // namespace tutti::device
