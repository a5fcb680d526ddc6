// Groups: the calls of one thread between Group's construction and end(), started together. A call
// gets its number in the order of its communicator's operations when its group ends, so that one
// that is dropped was never made.

#include <exception>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/communicator/collective_work.h"

namespace tutti {

using communicator::CollectiveWork;

namespace {

struct Call {
  CollectiveWork work;
  std::shared_ptr<device::HostStream> stream;  // held: its owner may let go before the group ends
};

struct Collected {
  int depth = 0;
  std::vector<Call> calls;
};

Collected& collected() {
  thread_local Collected instance;
  return instance;
}

// The works of one group on one stream, or on none: one item of the stream, polled together. It
// holds its stream, so that the works are run to their end also when nobody else does.
class GroupWork final : public device::Work {
 public:
  explicit GroupWork(std::shared_ptr<device::HostStream> stream) : stream_(std::move(stream)) {}
  void add(CollectiveWork work) { works_.push_back(std::move(work)); }
  Status poll() override {
    const bool moved = communicator::pollAll(works_, first_);
    if (!works_.empty()) return moved ? Status::Moved : Status::Idle;
    if (first_) std::rethrow_exception(first_);
    return Status::Done;
  }

 private:
  std::shared_ptr<device::HostStream> stream_;
  std::vector<CollectiveWork> works_;
  std::exception_ptr first_;
};

}  // namespace

namespace communicator {

bool groupIsOpen() { return collected().depth > 0; }

void addToGroup(CollectiveWork work, StreamRef stream) {
  collected().calls.push_back(
      {std::move(work), stream ? stream.get()->shared_from_this() : nullptr});
}

}  // namespace communicator

Group::Group() : first_(collected().calls.size()), exceptions_(std::uncaught_exceptions()) {
  ++collected().depth;
}

Group::~Group() noexcept(false) {
  if (!open_) return;
  if (std::uncaught_exceptions() <= exceptions_) {
    end();
    return;
  }
  open_ = false;
  auto& [depth, calls] = collected();
  --depth;
  calls.erase(calls.begin() + static_cast<std::ptrdiff_t>(first_), calls.end());
}

void Group::end() {
  if (!open_) base::fail(ErrorCode::InvalidUsage, "Group::end() was called twice");
  open_ = false;
  if (--collected().depth > 0) return;
  auto calls = std::exchange(collected().calls, {});
  std::map<device::HostStream*, std::unique_ptr<GroupWork>> streams;
  GroupWork here(nullptr);
  bool sharesCores = false;
  for (auto& [work, stream] : calls) {
    work.takeNumber();
    if (stream) {
      auto& group = streams[stream.get()];
      if (!group) group = std::make_unique<GroupWork>(stream);
      group->add(std::move(work));
    } else {
      sharesCores |= work.sharesCores();
      here.add(std::move(work));
    }
  }
  for (auto& [stream, group] : streams) stream->enqueue(std::move(group));
  base::Backoff backoff(!sharesCores);
  for (auto status = here.poll(); status != device::Work::Status::Done; status = here.poll())
    status == device::Work::Status::Moved ? backoff.reset() : backoff.idle();
}

}  // namespace tutti
