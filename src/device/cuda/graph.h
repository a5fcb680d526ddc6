#pragma once

// What graphs need for as long as they are there.

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

namespace tutti::device {

/// Of a stream that is being captured: `kept` is the graph's, and its executables', until the last
/// of them is gone and nothing of it runs any more; a capture that has failed keeps nothing. CUDA
/// lets go of it whenever it likes, on a thread that may not call CUDA.
void keepInGraph(cudaStream_t stream, std::shared_ptr<void> kept);

/// A node of one graph, as which each replay records an event: for whoever comes next, be that on a
/// stream or in another graph.
class RecordNode {
 public:
  /// While the stream is captured, always into the same graph: puts the node behind what the stream
  /// has in it now, and no longer behind what it was put behind before.
  void move(cudaStream_t stream, cudaEvent_t event);

 private:
  cudaGraphNode_t node_ = nullptr;
  std::vector<cudaGraphNode_t> behind_;
};

}  // namespace tutti::device
