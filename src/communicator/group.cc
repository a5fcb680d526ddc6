// Groups: the calls of one thread between Group's construction and end(), started together.

#include <map>
#include <vector>

#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/communicator/collective_work.h"

namespace tutti {

using communicator::CollectiveWork;

namespace {

struct Collected {
  int depth = 0;
  std::vector<std::pair<CollectiveWork, StreamRef>> works;
};

Collected& collected() {
  thread_local Collected instance;
  return instance;
}

// The works of one group on one stream: one item of the stream, polled together.
class GroupWork final : public device::Work {
 public:
  void add(CollectiveWork work) { works_.push_back(std::move(work)); }
  Status poll() override {
    const bool moved = communicator::pollAll(works_, first_);
    if (!works_.empty()) return moved ? Status::Moved : Status::Idle;
    if (first_) std::rethrow_exception(first_);
    return Status::Done;
  }

 private:
  std::vector<CollectiveWork> works_;
  std::exception_ptr first_;
};

}  // namespace

namespace communicator {

bool groupIsOpen() { return collected().depth > 0; }

void addToGroup(CollectiveWork work, StreamRef stream) {
  collected().works.emplace_back(std::move(work), stream);
}

}  // namespace communicator

Group::Group() { ++collected().depth; }

Group::~Group() noexcept(false) {
  if (!open_) return;
  if (std::uncaught_exceptions() == 0) {
    end();
    return;
  }
  open_ = false;
  if (--collected().depth == 0) collected().works.clear();
}

void Group::end() {
  if (!open_) base::fail(ErrorCode::InvalidUsage, "Group::end() was called twice");
  open_ = false;
  if (--collected().depth > 0) return;
  auto works = std::exchange(collected().works, {});
  std::map<device::HostStream*, std::unique_ptr<GroupWork>> streams;
  GroupWork here;
  bool sharesCores = false;
  for (auto& [work, stream] : works) {
    if (stream) {
      auto& group = streams[stream.get()];
      if (!group) group = std::make_unique<GroupWork>();
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
