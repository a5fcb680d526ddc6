#pragma once

// What graphs need for as long as they are there.

#include <cuda_runtime_api.h>

#include <memory>

namespace tutti::device {

/// Of a stream that is being captured: `kept` is the graph's, and its executables', until the last
/// of them is gone and nothing of it runs any more; a capture that has failed keeps nothing. CUDA
/// lets go of it whenever it likes, on a thread that may not call CUDA.
void keepInGraph(cudaStream_t stream, std::shared_ptr<void> kept);

}  // namespace tutti::device
