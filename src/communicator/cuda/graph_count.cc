#include "src/communicator/cuda/graph_count.h"

#include "src/device/cuda/graph.h"

namespace tutti::communicator {

void GraphCount::add(cudaStream_t stream) {
  count_->fetch_add(1, std::memory_order_relaxed);
  const auto countDown = [count = count_](void*) {
    count->fetch_sub(1, std::memory_order_release);
  };
  device::keepInGraph(stream, {nullptr, countDown});
}

}  // namespace tutti::communicator
