#include "src/communicator/one_sided/service.h"

#include <iterator>
#include <utility>

#include <tutti/error.h>

#include "src/communicator/one_sided/one_sided.h"

namespace tutti::communicator {

class OneSidedService::Rounds final : public device::Work {
 public:
  explicit Rounds(std::shared_ptr<OneSidedService> service) : service_(std::move(service)) {}

  // Calls that are over may be the last that keep the communicator: they go without the locks.
  Status poll() override {
    service_->take(calls_);
    bool moved = false;
    const bool serves = service_->serve(moved);
    std::erase_if(calls_, [&](const auto& call) {
      const Status status = pollCall(*call);
      moved |= status != Status::Idle;
      return status == Status::Done;
    });
    if (!serves && calls_.empty() && service_->mayStop()) return Status::Done;
    return moved ? Status::Moved : Status::Idle;
  }

 private:
  static Status pollCall(device::Work& call) {
    try {
      return call.poll();
    } catch (const Error&) {  // the communicator has failed with it, which its next call says
      return Status::Done;
    }
  }

  const std::shared_ptr<OneSidedService> service_;
  std::vector<std::unique_ptr<device::Work>> calls_;
};

void OneSidedService::start(StreamRef stream) {
  wanted_ = true;
  if (std::exchange(running_, true)) return;
  stream.host()->enqueue(std::make_unique<Rounds>(shared_from_this()));
}

void OneSidedService::wake(StreamRef stream) {
  const std::lock_guard lock(mutex_);
  start(stream);
}

void OneSidedService::post(std::unique_ptr<device::Work> call, StreamRef stream) {
  const std::lock_guard lock(mutex_);
  posted_.push_back(std::move(call));
  start(stream);
}

void OneSidedService::take(std::vector<std::unique_ptr<device::Work>>& calls) {
  const std::lock_guard lock(mutex_);
  wanted_ = false;
  std::ranges::move(posted_, std::back_inserter(calls));
  posted_.clear();
}

bool OneSidedService::serve(bool& moved) {
  const std::lock_guard lock(ownerMutex_);
  return owner_ && owner_->serve(moved);
}

bool OneSidedService::mayStop() {
  const std::lock_guard lock(mutex_);
  if (!wanted_) running_ = false;
  return !wanted_;
}

void OneSidedService::end() {
  const std::lock_guard lock(ownerMutex_);
  owner_ = nullptr;
}

}  // namespace tutti::communicator
