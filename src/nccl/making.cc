#include "src/nccl/making.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <future>
#include <mutex>
#include <set>
#include <stop_token>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/service_thread.h"
#include "src/communicator/inspection.h"
#include "src/nccl/debug_log.h"
#include "src/nccl/device_pointers.h"
#include "src/nccl/encryption.h"
#include "src/nccl/entry.h"
#include "src/nccl/environment.h"
#include "src/nccl/gpu_calls.h"
#include "src/nccl/handles.h"

namespace tutti::nccl {
namespace {

constexpr const char* kThread = "tutti-nccl";

/// GPUs of a host reach each other's memory whatever NCCL_SHM_DISABLE says.
std::string transportOf(Device device) {
  return device.kind == DeviceKind::Host ? environment().transport : "";
}

UniqueId toUniqueId(const ncclUniqueId& id) {
  UniqueId same;
  static_assert(sizeof id == sizeof same.bytes);
  std::memcpy(same.bytes.data(), &id, sizeof id);
  return same;
}

/// The handle of a communicator that is going to be there.
void giveHandle(Making& making) {
  *making.out = making.handle = making.comm ? NcclHandles::ofProcess().add(making.comm) : nullptr;
}

void logMade(const Making& making) {
  const Comm::Facts& facts = making.comm->facts();
  const std::string& name = facts.config.name;
  DebugLog::ofProcess().info(Subsystem::Init, making.function, " comm ", making.handle, " rank ",
                             making.comm->rank(), " nranks ", making.comm->size(), " cudaDev ",
                             facts.device, name.empty() ? "" : " commName ", name,
                             " - Init COMPLETE");
}

/// What was thrown while a communicator was made, for whoever asks for it later.
Error asError(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& e) {
    return e;
  } catch (const std::bad_alloc&) {
    return {ErrorCode::OutOfMemory, "no memory for a communicator"};
  } catch (const std::exception& e) {
    return {ErrorCode::Internal, e.what()};
  }
}

/// The parent is free again before anybody hears of the child's end.
void makeOne(Making& making) {
  const auto comm = making.comm;
  auto parent = std::move(making.parent);
  try {
    auto communicator = making.make();
    parent.reset();
    if (!comm) return;
    comm->ready(std::move(*communicator));
  } catch (const Error& e) {
    const bool isOwn = (comm && comm->isAborted()) || (parent && parent->isAborted());
    if (isOwn && e.code() == ErrorCode::Aborted)
      base::fail(ErrorCode::InvalidUsage, "ended by ncclCommAbort on this rank");
    throw;
  }
  logMade(making);
}

void tellFailure(const Making& making, const std::exception_ptr& failure) {
  if (making.comm) making.comm->failed(asError(failure));
}

/// What the makings of a group share. They begin when all have their threads, or none does; and one
/// that fails ends the others, which may wait for it, until their deadline.
class Together {
 public:
  explicit Together(const std::vector<Making>& makings) {
    for (const Making& making : makings)
      if (making.comm) stops_.emplace_back(making.comm.get(), making.comm->stopOfMaking());
  }

  void begin() { begins_.set_value(true); }
  /// Instead of begin(): throws `why`, when the threads have let go.
  void giveUp() { begins_.set_value(false); }
  bool awaitBegin() const { return gate_.get(); }

  /// What `making` has failed with: where the others' failure has ended it, theirs.
  std::exception_ptr failed(const Making& making, std::exception_ptr failure) {
    {
      const std::lock_guard lock(mutex_);
      if (!first_)
        first_ = failure;
      else if (asError(failure).code() == ErrorCode::Aborted)
        failure = std::make_exception_ptr(Error(
            asError(first_).code(),
            base::message("another communicator of its group failed: ", asError(first_).what())));
    }
    for (auto& [comm, stop] : stops_)
      if (comm != making.comm.get()) stop.request_stop();
    return failure;
  }
  std::exception_ptr first() const {
    const std::lock_guard lock(mutex_);
    return first_;
  }

 private:
  std::vector<std::pair<const Comm*, std::stop_source>> stops_;  // whose they are is not looked at
  std::promise<bool> begins_;
  const std::shared_future<bool> gate_ = begins_.get_future().share();
  mutable std::mutex mutex_;
  std::exception_ptr first_;
};

/// Failures are for asError() or report().
std::exception_ptr makeWithOthers(Making& making, Together& together) {
  if (!together.awaitBegin()) return nullptr;
  try {
    makeOne(making);
    return nullptr;
  } catch (...) {
    return together.failed(making, std::current_exception());
  }
}

/// By a thread that nobody waits for. The caller's `out` is not touched from there. Whoever sees
/// the state of a failure finds its text.
void makeAlone(Making& making, const std::shared_ptr<Together>& together) {
  auto own = std::make_shared<Making>(making);
  base::ServiceThread::startAlone(kThread, [own, together] {
    const auto failure = makeWithOthers(*own, *together);
    if (!failure) return;
    report(own->function, failure);
    tellFailure(*own, failure);
  });
  making.parent.reset();
}

/// Two ranks of a group that cannot both be in a job: refused before the first of them arrives.
void requireBoth(const Making::Seat& one, const Making::Seat& other) {
  if (one.id != other.id) return;
  TUTTI_REQUIRE(one.size == other.size, "the group joins one unique id as ranks of ", one.size,
                " and of ", other.size);
  TUTTI_REQUIRE(one.rank != other.rank, "the group joins one unique id as rank ", one.rank, " of ",
                one.size, " twice");
}

/// Of a communicator that is made of another: what its Communicator has from that one stays.
NcclConfig readConfigOfChild(const ncclConfig_t* given, const Comm& parent) {
  NcclConfig config = parent.facts().config;
  const NcclConfig said = readConfig(given, config);
  config.blocking = said.blocking;
  config.name = said.name;
  return config;
}

/// The ranks of `size` less the excluded ones.
std::vector<int> survivorsOf(const int* excluded, int count, int size, int self) {
  TUTTI_REQUIRE(count > 0 && count < size, "excludeRanksCount is ", count, " of ", size, " ranks");
  TUTTI_REQUIRE(excluded, "excludeRanksList is null");
  std::set<int> out;
  for (int i = 0; i < count; ++i) {
    TUTTI_REQUIRE(excluded[i] >= 0 && excluded[i] < size, "excluded rank ", excluded[i],
                  " is not one of 0..", size - 1);
    TUTTI_REQUIRE(out.insert(excluded[i]).second, "rank ", excluded[i], " is excluded twice");
  }
  TUTTI_REQUIRE(!out.contains(self), "rank ", self, " excludes itself: excluded ranks do not call");
  std::vector<int> survivors;
  for (int r = 0; r < size; ++r)
    if (!out.contains(r)) survivors.push_back(r);
  return survivors;
}

}  // namespace

void takeBack(const Making& making) {
  if (!making.handle || !making.out) return;
  NcclHandles::ofProcess().remove(making.handle);
  *making.out = nullptr;
}

Making makeOfId(const char* function, ncclComm_t* out, int size, const ncclUniqueId& id, int rank,
                const ncclConfig_t* config) {
  findDriver();
  announce();
  TUTTI_REQUIRE(out, "comm is null");
  TUTTI_REQUIRE(size >= 1 && rank >= 0 && rank < size, "rank ", rank, " of ", size, " ranks");
  const NcclConfig settings = readConfig(config);
  const Device place = deviceOfThread();
  Making making{.function = function,
                .comm = std::make_shared<Comm>(
                    Comm::Facts{.device = place.index, .place = place, .config = settings}),
                .out = out,
                .blocking = settings.blocking};
  CommunicatorOptions options{.id = toUniqueId(id),
                              .rank = rank,
                              .size = size,
                              .algorithm = environment().algorithm,
                              .transport = transportOf(place),
                              .device = place,
                              .gpuBlocks = settings.maxBlocks,
                              .gpuCopies = settings.byCopies,
                              .signals = std::max(settings.rmaContexts * settings.rmaSignals, 1),
                              .stop = making.comm->stopOfMaking().get_token()};
  applyEncryption(options);
  making.seat = {*options.id, rank, size};
  making.make = [options] { return Communicator::create(options); };
  giveHandle(making);
  return making;
}

Making makeBySplit(ncclComm_t parent, int color, int key, ncclComm_t* out,
                   const ncclConfig_t* config) {
  TUTTI_REQUIRE(out, "newcomm is null");
  TUTTI_REQUIRE(color >= 0 || color == NCCL_SPLIT_NOCOLOR, "color ", color,
                " is neither 0 or more nor NCCL_SPLIT_NOCOLOR");
  const auto above = NcclHandles::ofProcess().find(parent);
  const NcclConfig settings = readConfigOfChild(config, *above);
  Making making{.function = "ncclCommSplit", .out = out, .blocking = settings.blocking};
  making.parent = std::make_shared<Comm::Parenthood>(above, Comm::Operations::Remain);
  if (color >= 0)
    making.comm = std::make_shared<Comm>(Comm::Facts{
        .device = above->facts().device, .place = above->facts().place, .config = settings});
  else
    making.blocking = above->facts().config.blocking;
  making.make = [revoked = making.parent->revoked(), color, key,
                 parenthood = std::weak_ptr(making.parent)] {
    Communicator& from = parenthood.lock()->communicator();
    return revoked ? communicator::Inspection::splitAborted(from, color, key)
                   : from.split(color, key);
  };
  giveHandle(making);
  return making;
}

Making makeByShrink(ncclComm_t parent, const int* excluded, int excludedCount, ncclComm_t* out,
                    const ncclConfig_t* config, int flags) {
  TUTTI_REQUIRE(out, "newcomm is null");
  TUTTI_REQUIRE(flags == NCCL_SHRINK_DEFAULT || flags == NCCL_SHRINK_ABORT, "shrinkFlags is ",
                flags);
  const auto above = NcclHandles::ofProcess().find(parent);
  const NcclConfig settings = readConfigOfChild(config, *above);
  Making making{.function = "ncclCommShrink", .out = out, .blocking = settings.blocking};
  making.parent = std::make_shared<Comm::Parenthood>(
      above, flags == NCCL_SHRINK_ABORT ? Comm::Operations::WillEnd : Comm::Operations::Remain);
  const Communicator& old = making.parent->communicator();
  auto survivors = survivorsOf(excluded, excludedCount, old.size(), old.rank());
  making.comm = std::make_shared<Comm>(Comm::Facts{
      .device = above->facts().device, .place = above->facts().place, .config = settings});
  making.make = [survivors = std::move(survivors), flags,
                 parenthood = std::weak_ptr(making.parent)] {
    Communicator& from = parenthood.lock()->communicator();
    if (flags == NCCL_SHRINK_ABORT) from.abort();
    return from.subset(survivors);
  };
  giveHandle(making);
  return making;
}

// PyTorch takes nothing but ncclSuccess there, whatever `blocking` says.
Making makeByResume(ncclComm_t handle) {
  const auto comm = NcclHandles::ofProcess().find(handle);
  Making making{.function = "ncclCommResume", .comm = comm, .handle = handle, .blocking = true};
  making.make = [resumption = std::make_shared<Comm::Resumption>(comm)] {
    return resumption->resume();
  };
  return making;
}

Making makeByGrow(ncclComm_t parent, int size, const ncclUniqueId* id, ncclComm_t* out,
                  const ncclConfig_t* config) {
  const auto above = NcclHandles::ofProcess().find(parent);
  const NcclConfig settings = readConfigOfChild(config, *above);
  Making making{.function = "ncclCommGrow", .out = out, .blocking = settings.blocking};
  making.parent = std::make_shared<Comm::Parenthood>(above, Comm::Operations::Remain);
  if (making.parent->revoked())
    base::fail(ErrorCode::InvalidUsage,
               "the communicator was revoked: ncclCommShrink makes one that can grow");
  making.comm = std::make_shared<Comm>(Comm::Facts{
      .device = above->facts().device, .place = above->facts().place, .config = settings});
  GrowArgs args{.size = size, .stop = making.comm->stopOfMaking().get_token()};
  if (id) args.id = toUniqueId(*id);
  making.make = [args, parenthood = std::weak_ptr(making.parent)] {
    return parenthood.lock()->communicator().grow(args);
  };
  giveHandle(making);
  return making;
}

void makeAll(ncclComm_t* out, const std::vector<int>& devices) {
  findDriver();
  announce();
  const int size = static_cast<int>(devices.size());
  const NcclConfig settings = readConfig(nullptr);
  CommunicatorOptions o;
  o.algorithm = environment().algorithm;
  o.gpuBlocks = settings.maxBlocks;
  for (const int device : devices) o.devices.push_back(deviceNumbered(device));
  o.transport = transportOf(o.devices[0]);
  auto communicators = Communicator::createLocal(size, o);
  std::vector<Making> made;
  for (int r = 0; r < size; ++r) {
    const size_t place = static_cast<size_t>(r);
    Making making{.function = "ncclCommInitAll",
                  .comm = std::make_shared<Comm>(Comm::Facts{
                      .device = devices[place], .place = o.devices[place], .config = settings}),
                  .out = out + r};
    try {
      making.comm->ready(std::move(communicators[place]));
      giveHandle(making);
    } catch (...) {
      for (const Making& earlier : made) takeBack(earlier);
      throw;
    }
    made.push_back(making);
  }
  for (const Making& making : made) logMade(making);
}

namespace {

/// Each by a thread, until those have ended that are waited for. Whether none of these has failed.
bool makeTogether(std::vector<Making>& makings, const std::shared_ptr<Together>& together) {
  std::atomic<bool> allMade{true};
  const auto make = [&](size_t i) {
    const auto failure = makeWithOthers(makings[i], *together);
    if (!failure) return;
    allMade.store(false);
    tellFailure(makings[i], failure);
  };
  if (makings.size() == 1 && makings[0].blocking) {
    together->begin();
    make(0);
    return allMade.load();
  }
  std::deque<base::ServiceThread> threads;  // joined at their end
  try {
    for (size_t i = 0; i < makings.size(); ++i) {
      if (makings[i].blocking)
        threads.emplace_back().start(kThread, [&, i] { make(i); });
      else
        makeAlone(makings[i], together);
    }
  } catch (...) {
    together->giveUp();
    for (const Making& making : makings) tellFailure(making, std::current_exception());
    throw;
  }
  together->begin();
  threads.clear();
  return allMade.load();
}

void requireTogether(const std::vector<Making>& makings) {
  for (size_t i = 0; i < makings.size(); ++i)
    for (size_t other = 0; other < i; ++other)
      if (makings[i].seat && makings[other].seat)
        requireBoth(*makings[other].seat, *makings[i].seat);
}

}  // namespace

ncclResult_t run(std::vector<Making> makings) {
  try {
    requireTogether(makings);
    const auto together = std::make_shared<Together>(makings);
    if (!makeTogether(makings, together)) std::rethrow_exception(together->first());
  } catch (...) {
    for (const Making& making : makings) takeBack(making);
    throw;
  }
  return std::ranges::all_of(makings, &Making::blocking) ? ncclSuccess : ncclInProgress;
}

}  // namespace tutti::nccl
