#include "src/executor/kernel/launch_tables.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "src/device/cuda/graph.h"
#include "src/device/cuda/guards.h"

namespace tutti::executor::kernel {

LaunchTables::LaunchTables(size_t bytes, const std::string& owner)
    : memory_(bytes), arena_(memory_.data(), bytes, "the tables of launches of " + owner) {}

// The word is stored with release by a lane that is behind all others' reads.
void LaunchTables::reclaim() {
  std::erase_if(launched_, [](const Table& table) {
    return std::atomic_ref(*table.ended()).load(std::memory_order_acquire) != 0;
  });
  std::erase_if(captured_, [](const Captured& captured) {
    return captured.isOver->load(std::memory_order_acquire);
  });
}

LaunchTables::Table LaunchTables::take(size_t rowBytes, const std::function<void()>& isWorthIt) {
  const size_t bytes = kHeaderBytes + rowBytes;
  Table table;
  for (reclaim(); !(table.memory_ = arena_.tryTake(bytes)); reclaim()) {
    if (launched_.empty()) arena_.refuse(bytes, "a launch");
    isWorthIt();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  *table.ended() = 0;
  return table;
}

void LaunchTables::keep(const Table& table, cudaStream_t stream) {
  if (!device::isCapturing(stream)) {
    launched_.push_back(table);
    return;
  }
  const auto isOver = std::make_shared<std::atomic<bool>>(false);
  const auto end = [isOver](void*) { isOver->store(true, std::memory_order_release); };
  try {
    device::keepInGraph(stream, {nullptr, end});
    captured_.push_back({table, isOver});
  } catch (...) {  // the graph has the launch, and may be replayed
    captured_.push_back({table, std::make_shared<std::atomic<bool>>(false)});
    throw;
  }
}

}  // namespace tutti::executor::kernel
