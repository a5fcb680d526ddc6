// Groups: the calls of one thread between Group's construction and end(), started together. A call
// gets its number in the order of its communicator's operations when its group ends, so that one
// that is dropped was never made.

#include <algorithm>
#include <array>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "src/base/check.h"
#include "src/communicator/gpu/gpu_backend.h"
#include "src/communicator/gpu/gpu_work.h"
#include "src/communicator/operation_work.h"
#include "src/communicator/operations.h"
#include "src/communicator/state.h"
#include "src/executor/host/short_exchange.h"

namespace tutti {

using communicator::OneSidedWork;
using communicator::OperationWork;

namespace {

/// A call that has a turn, with its stream.
struct GroupCall {
  OperationWork work;
  std::shared_ptr<device::HostStream> stream;  // held: its owner may let go before the group ends
  StreamRef gpuStream;
  bool onGpu = false;
  std::vector<StreamRef> joined = {};  // of an exchange on a GPU, the streams besides
};

struct GroupOneSided {
  OneSidedWork work;
  std::shared_ptr<device::HostStream> stream;
  StreamRef gpuStream;
};

/// Sends and receives on the host of one communicator, without a stream: no operation yet, as a
/// few of them need none.
struct FewTransfers {
  static constexpr size_t kMost = executor::ShortExchange::kMostTransfers;

  std::shared_ptr<const communicator::Owners> owners;  // null without any
  std::array<executor::Transfer, kMost> sends, receives;
  size_t sent = 0, received = 0;
  std::array<bool, kMost> areSends;  // in the order of the calls

  size_t count() const { return sent + received; }
  void add(const executor::Transfer& transfer, bool isSend) {
    areSends[count()] = isSend;
    (isSend ? sends[sent++] : receives[received++]) = transfer;
  }
  void shrink(size_t to) {
    while (count() > to) --(areSends[count() - 1] ? sent : received);
    if (count() == 0) owners.reset();
  }
};

using AnyCall = std::variant<GroupCall, GroupOneSided>;

struct Collected {
  int depth = 0;
  FewTransfers few;  // ahead of the calls
  std::vector<AnyCall> calls;

  size_t count() const { return few.count() + calls.size(); }
  void shrink(size_t to) {
    const size_t behind = to > few.count() ? to - few.count() : 0;
    if (calls.size() > behind)
      calls.erase(calls.begin() + static_cast<std::ptrdiff_t>(behind), calls.end());
    few.shrink(to);
  }
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
  template <class Call>
  void add(Call work) {
    works_.push_back(std::make_unique<Call>(std::move(work)));
  }
  Status poll() override {
    const bool moved = communicator::pollAll(works_, first_);
    if (!works_.empty()) return moved ? Status::Moved : Status::Idle;
    if (first_) std::rethrow_exception(first_);
    return Status::Done;
  }
  base::SleepPlace* sleepPlace() override {
    return works_.size() == 1 ? works_.front()->sleepPlace() : nullptr;
  }

 private:
  std::shared_ptr<device::HostStream> stream_;
  std::vector<std::unique_ptr<device::Work>> works_;
  std::exception_ptr first_;
};

bool areOne(StreamRef one, StreamRef other) {
  return one.cuda() == other.cuda() && one.device() == other.device();
}

/// Takes the one-sided calls out: those of one communicator on one stream become one. The others
/// stay in `operations`.
std::vector<GroupOneSided> sortOut(std::vector<AnyCall> calls, std::vector<GroupCall>& operations) {
  std::vector<GroupOneSided> found;
  for (AnyCall& each : calls) {
    if (auto* const operation = std::get_if<GroupCall>(&each)) {
      operations.push_back(std::move(*operation));
      continue;
    }
    auto& call = std::get<GroupOneSided>(each);
    const auto same = std::ranges::find_if(found, [&](const GroupOneSided& other) {
      return &other.work.owners() == &call.work.owners() && other.stream == call.stream &&
             areOne(other.gpuStream, call.gpuStream);
    });
    if (same == found.end())
      found.push_back(std::move(call));
    else
      same->work.absorb(std::move(call.work));
  }
  return found;
}

/// Of an exchange.
void join(GroupCall& call, StreamRef stream) {
  const auto is = [&](StreamRef other) { return areOne(other, stream); };
  if (!is(call.gpuStream) && std::ranges::none_of(call.joined, is)) call.joined.push_back(stream);
}

// All sends and receives of a communicator become one exchange, after the collectives: its ranks
// may have issued them in different orders among collectives. On a GPU it is on all their streams.
void gatherExchanges(std::vector<GroupCall>& calls) {
  std::vector<GroupCall> collectives, exchanges;
  for (GroupCall& call : calls) {
    if (!call.work.isExchange()) {
      collectives.push_back(std::move(call));
      continue;
    }
    const auto same = std::ranges::find_if(exchanges, [&](const GroupCall& other) {
      return &other.work.owners() == &call.work.owners();
    });
    if (same == exchanges.end()) {
      exchanges.push_back(std::move(call));
    } else {
      if (same->stream != call.stream || same->onGpu != call.onGpu ||
          static_cast<bool>(same->gpuStream) != static_cast<bool>(call.gpuStream))
        base::fail(ErrorCode::InvalidUsage,
                   "the sends and receives of a group on one communicator name different streams");
      join(*same, call.gpuStream);
      same->work.absorb(std::move(call.work));
    }
  }
  for (const GroupCall& call : exchanges) call.work.requireComplete();
  std::ranges::move(exchanges, std::back_inserter(collectives));
  calls = std::move(collectives);
}

/// The few become the first of the calls.
void makeCalls(Collected& group) {
  FewTransfers& few = group.few;
  if (few.count() == 0) return;
  executor::Exchange exchange{
      .sends = {few.sends.data(), few.sends.data() + few.sent},
      .receives = {few.receives.data(), few.receives.data() + few.received}};
  GroupCall call{communicator::makeExchange(std::move(few.owners), std::move(exchange)), nullptr,
                 StreamRef()};
  few.shrink(0);
  group.calls.insert(group.calls.begin(), std::move(call));
}

/// Runs the group here, if it is a few small sends and receives on one communicator. If not, these
/// are the first of its calls.
bool ranShort(Collected& group) {
  FewTransfers& few = group.few;
  if (few.count() == 0) return false;
  struct Clearing {
    FewTransfers& few;
    ~Clearing() { few.shrink(0); }
  } const clearing{few};
  const std::span sends(few.sends.data(), few.sent), receives(few.receives.data(), few.received);
  if (group.calls.empty() &&
      communicator::ranShort(few.owners->host, sends, receives, [&] { return few.owners; }))
    return true;
  makeCalls(group);
  return false;
}

using Backends = std::vector<std::shared_ptr<communicator::GpuBackend>>;

/// Takes the calls on GPUs out, and launches them. Whose have no stream, and have to be waited for.
Backends launchThoseOfGpus(std::vector<GroupCall>& calls) {
  Backends waiting;
  std::vector<communicator::GpuWork> works;
  for (const GroupCall& call : calls) {
    if (!call.onGpu) continue;
    works.push_back(call.work.onGpu(call.gpuStream));
    works.back().joined = call.joined;
    if (!call.gpuStream) waiting.push_back(works.back().backend);
  }
  std::erase_if(calls, [](const GroupCall& call) { return call.onGpu; });
  communicator::launch(std::move(works));
  return waiting;
}

/// Throws the first failure once all have ended.
/// Keeps the first of what several actions throw.
class FirstFailure {
 public:
  template <class Action>
  void keepOf(const Action& action) {
    try {
      action();
    } catch (...) {
      if (!first_) first_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::exception_ptr first_;
};

}  // namespace

namespace communicator {

bool groupIsOpen() { return collected().depth > 0; }

void addToGroup(OperationWork work, StreamRef stream, bool onGpu) {
  collected().calls.emplace_back(std::in_place_type<GroupCall>, std::move(work),
                                 stream.host() ? stream.host()->shared_from_this() : nullptr,
                                 onGpu ? stream : StreamRef(), onGpu);
}

void addToGroup(OneSidedWork work, StreamRef stream) {
  collected().calls.emplace_back(std::in_place_type<GroupOneSided>, std::move(work),
                                 stream.host() ? stream.host()->shared_from_this() : nullptr,
                                 stream.isCuda() ? stream : StreamRef());
}

bool addToGroup(Communicator::Impl& c, const executor::Transfer& transfer, bool isSend) {
  Collected& all = collected();
  FewTransfers& few = all.few;
  const bool fits = few.count() == 0 || (few.count() < few.kMost && few.owners.get() == &c.owners);
  if (!all.calls.empty() || !fits) return false;
  if (few.count() == 0) few.owners = c.shared();
  few.add(transfer, isSend);
  return true;
}

}  // namespace communicator

Group::Group() : first_(collected().count()), exceptions_(std::uncaught_exceptions()) {
  ++collected().depth;
}

Group::~Group() noexcept(false) {
  if (!open_) return;
  if (std::uncaught_exceptions() <= exceptions_) {
    end();
    return;
  }
  open_ = false;
  --collected().depth;
  collected().shrink(first_);
}

void Group::end() {
  if (!open_) base::fail(ErrorCode::InvalidUsage, "Group::end() was called twice");
  open_ = false;
  Collected& all = collected();
  if (--all.depth > 0) return;
  if (ranShort(all)) return;
  std::vector<GroupCall> calls;
  auto oneSided = sortOut(std::exchange(all.calls, {}), calls);
  std::map<device::HostStream*, std::unique_ptr<GroupWork>> streams;
  GroupWork here(nullptr);
  bool sharesCores = false;
  const auto add = [&](auto& call) {
    if (call.stream) {
      auto& group = streams[call.stream.get()];
      if (!group) group = std::make_unique<GroupWork>(call.stream);
      group->add(std::move(call.work));
    } else {
      sharesCores |= call.work.sharesCores();
      here.add(std::move(call.work));
    }
  };
  gatherExchanges(calls);
  const auto onGpu = launchThoseOfGpus(calls);
  for (GroupCall& call : calls) {
    call.work.takeNumber();
    add(call);
  }
  FirstFailure failure;  // behind it whatever was begun on the caller's buffers is awaited
  for (GroupOneSided& call : oneSided) {
    if (!call.gpuStream)
      add(call);
    else
      failure.keepOf([&] { communicator::startOnGpu(std::move(call.work), call.gpuStream); });
  }
  for (auto& [stream, group] : streams) stream->enqueue(std::move(group));
  failure.keepOf([&] { communicator::drive(here, !sharesCores); });
  for (const auto& backend : onGpu) failure.keepOf([&] { backend->await(); });
  failure.rethrow();
}

// Of one communicator the calls run one after the other, those of several at the same time.
std::chrono::duration<double, std::micro> Group::predict() {
  if (!open_) base::fail(ErrorCode::InvalidUsage, "Group::predict() was called after its end");
  open_ = false;
  Collected& all = collected();
  if (--all.depth > 0) return {};
  std::vector<GroupCall> calls;
  makeCalls(all);
  const auto oneSided = sortOut(std::exchange(all.calls, {}), calls);
  gatherExchanges(calls);
  std::map<const communicator::Owners*, double> times;  // by communicator
  for (const GroupCall& call : calls)
    times[&call.work.owners()] += call.work.predictedMicroseconds();
  for (const GroupOneSided& call : oneSided)
    times[&call.work.owners()] += call.work.predictedMicroseconds();
  double longest = 0;
  for (const auto& [owners, time] : times) longest = std::max(longest, time);
  return std::chrono::duration<double, std::micro>(longest);
}

}  // namespace tutti
