#include "parallel/engine/background_save.h"

#include <numeric>
#include <utility>
#include <vector>

namespace tutti::parallel {

Tensor BackgroundSave::copy(const Tensor& tensor) {
  ensure(!thread_.joinable(), "copies are made while others are written");
  const Tensor copy = copies_.allocate(tensor.type, tensor.shape);
  mesh_.download(tensor, copy.data);
  return copy;
}

void BackgroundSave::start(std::function<void(MeshCommunicator*)> write) {
  ensure(!thread_.joinable(), "a save began before the one before it was awaited");
  thread_ = std::thread([this, all = ranks(), write = std::move(write)] {
    began_ = Trace::Clock::now();
    try {
      write(all);
    } catch (...) {
      failure_ = std::current_exception();
    }
    ended_ = Trace::Clock::now();
  });
}

void BackgroundSave::await() {
  join();
  copies_.rewind({});
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

MeshCommunicator* BackgroundSave::ranks() {
  MeshCommunicator* all = mesh_.communicator(AxisSet::all());
  if (all != nullptr && !ranks_) {
    std::vector<int> members(static_cast<size_t>(all->size()));
    std::iota(members.begin(), members.end(), 0);
    ranks_.emplace(all->subset(members));
  }
  return ranks_ ? &*ranks_ : nullptr;
}

void BackgroundSave::join() {
  if (!thread_.joinable()) return;
  thread_.join();
  mesh_.trace().add(
      {.name = "checkpoint", .begin = began_, .end = ended_, .lane = Trace::Lane::Checkpoint});
}

}  // namespace tutti::parallel
