#include "src/communicator/gpu_work.h"

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/base/integers.h"
#include "src/base/log.h"
#include "src/communicator/operation_work.h"
#include "src/communicator/request.h"
#include "src/communicator/state.h"

namespace tutti {

using communicator::CallFacts;
using communicator::GpuChoice;
using communicator::GpuWork;
using communicator::kInquireAfterNs;
using communicator::kInquireAgainNs;
using communicator::OperationWork;

namespace communicator {
namespace {

// Above this, plans that address the peers' buffers move fewer bytes than those by slots; below it,
// the exchange of entries costs more than that is worth. Not measured.
constexpr uint64_t kLeastMappedBytes = 64 << 10;

// Of GPUs joined by NVLink; not measured.
topology::Tuning gpuTuning() {
  topology::Tuning tuning;
  tuning.messageMicroseconds = 1.5;
  tuning.stepMicroseconds = 0.5;
  tuning.copyGigabytesPerSecond = 200;
  tuning.reduceGigabytesPerSecond = 400;
  tuning.mappedGigabytesPerSecond = 300;
  tuning.entryMicroseconds = 0.2;
  tuning.yieldMicroseconds = 0;
  return tuning;
}

// Part of the fingerprint of a call on GPUs: never a call of the host.
constexpr uint64_t kOnGpu = 0x9b0d1c7e5a3f8642;

/// Of the larger buffer of a call with blocks of so many bytes.
uint64_t bufferBytes(const plan::PlanSpec& spec, uint64_t block) {
  return block *
         std::max(plan::blocksOf(spec, plan::Buffer::In), plan::blocksOf(spec, plan::Buffer::Out));
}

/// As many parts of this size as there is room for: each has a block of the GPU to itself, and a
/// channel.
constexpr uint64_t kSliceBytes = 64 << 10;

/// The same on all ranks.
uint32_t slicesFor(const plan::PlanSpec& spec, uint64_t bytes, const GpuSide& gpu) {
  size_t lanes = 1;
  for (int rank = 0; rank < spec.ranks; ++rank)
    lanes = std::max(lanes, collectives::build(spec, rank).lanes.size());
  const auto channels = static_cast<uint64_t>(gpu.channels() / spec.channels);
  return static_cast<uint32_t>(std::clamp<uint64_t>(
      bytes / kSliceBytes, 1, std::min(channels, std::max<uint64_t>(gpu.blocks() / lanes, 1))));
}

/// What ranks number alike: the messages from one rank to another, or, as {-1, -1}, the collectives
/// of all.
using Line = std::pair<int, int>;
constexpr Line kCollectives{-1, -1};

/// What a launch does of a line for a rank.
struct Part {
  Line line;
  int rank = 0;
  uint64_t first = 0, last = 0;
};

/// Launches of ranks of one communicator that share a stream without sharing the launch would wait
/// for each other for ever. Who launches after another rank has made the same call, or the other
/// end of a message, on the same stream is refused.
class SharedStreams {
 public:
  static SharedStreams& ofProcess() {
    static SharedStreams streams;
    return streams;
  }
  /// These are about to share a launch. The rank that has been there, or -1.
  int launch(uint64_t group, const StreamIdentity& stream, const std::vector<Part>& parts) {
    const std::lock_guard lock(mutex_);
    forgetOldest();
    Stream& here = launches_[{group, stream}];
    here.used = ++used_;
    for (const Part& part : parts)
      if (const int other = rankBefore(here.launched, part); other >= 0) return other;
    for (const Part& part : parts) here.launched[{part.line, part.rank}] = part.last;
    return -1;
  }
  void forget(uint64_t group) {
    const std::lock_guard lock(mutex_);
    std::erase_if(launches_, [&](const auto& entry) { return entry.first.first == group; });
  }

 private:
  using Launched = std::map<std::pair<Line, int>, uint64_t>;  // the last of each rank
  static int rankBefore(const Launched& here, const Part& part) {
    for (auto at = here.lower_bound({part.line, 0}); at != here.end(); ++at) {
      const auto& [line, rank] = at->first;
      if (line != part.line) break;
      if (rank != part.rank && at->second >= part.first) return rank;
    }
    return -1;
  }
  struct Stream {
    Launched launched;
    uint64_t used = 0;  // when it was last
  };
  /// A program may make a stream, or a capture, for every call. What another rank launched on one
  /// so many streams ago is no call that a rank is just about to make.
  void forgetOldest() {
    constexpr size_t kMost = 4096;
    if (launches_.size() < kMost) return;
    std::erase_if(launches_,
                  [&](const auto& entry) { return entry.second.used + kMost / 2 < used_; });
  }
  std::mutex mutex_;
  std::map<std::pair<uint64_t, StreamIdentity>, Stream> launches_;  // by communicator
  uint64_t used_ = 0;
};

/// Calls that are launched together, each with a stream: the first, or another, of every rank; and
/// those that follow in the same launch.
struct Batch {
  uint64_t group = 0;
  size_t turn = 0;
  bool waits = false;
  std::vector<GpuWork> works;
};

bool areOne(StreamRef stream, StreamRef other) {
  return stream.cuda() == other.cuda() && stream.device() == other.device();
}

bool isOn(const GpuWork& work, StreamRef stream) {
  return areOne(work.stream, stream) ||
         std::ranges::any_of(work.joined, [&](StreamRef joined) { return areOne(joined, stream); });
}

bool shareAStream(const GpuWork& one, const GpuWork& another) {
  return isOn(one, another.stream) ||
         std::ranges::any_of(another.joined, [&](StreamRef joined) { return isOn(one, joined); });
}

// Those by copies whatever their streams: one after the other they could fill these.
bool belongs(const Batch& batch, const GpuWork& work, size_t turn) {
  const GpuWork& first = batch.works.front();
  if (first.isExchange() != work.isExchange()) return false;
  if (batch.turn != turn || batch.group != work.communicator->gpu->group()) return false;
  if (work.communicator->gpu->byCopies()) return true;
  if (!work.stream)
    return batch.waits && first.stream.device() == work.communicator->settings.device;
  return !batch.waits && std::ranges::any_of(batch.works, [&](const GpuWork& other) {
    return shareAStream(other, work);
  });
}

/// A launch is on one stream, and joined by the others.
void launchOn(StreamRef stream, GpuWork& work) {
  if (areOne(work.stream, stream)) return;
  work.joined.push_back(std::exchange(work.stream, stream));
  std::erase_if(work.joined, [&](StreamRef joined) { return areOne(joined, stream); });
}

/// A group is on all streams that its calls name: of each communicator every launch comes behind
/// what is on them, and before what comes next there.
void joinStreams(std::vector<GpuWork>& works) {
  for (GpuWork& work : works) {
    const auto join = [&](StreamRef stream) {
      if (!isOn(work, stream)) work.joined.push_back(stream);
    };
    if (!work.stream) continue;
    for (const GpuWork& other : works) {
      if (!other.stream || other.communicator != work.communicator) continue;
      join(other.stream);
      std::ranges::for_each(other.joined, join);
    }
  }
}

/// Who brings none has that of a kernel which it shares, or its own.
StreamRef streamFor(const GpuWork& work, const Batch* batch) {
  if (work.stream) return work.stream;
  GpuSide& gpu = *work.communicator->gpu;
  return batch && !gpu.byCopies() ? batch->works.front().stream : gpu.ownStream();
}

/// Of several communicators on one stream the one that was named first goes first, for all ranks
/// alike: else a rank's call could wait behind another communicator's for a rank that has it the
/// other way round.
void sortByTurn(std::vector<Batch>& batches) {
  std::map<uint64_t, size_t> places;  // of communicators, by their first batch
  for (const Batch& batch : batches) places.try_emplace(batch.group, places.size());
  std::ranges::stable_sort(batches, {}, [&](const Batch& batch) {
    return std::pair(batch.turn, places.at(batch.group));
  });
}

GpuLaunch launchOf(const GpuWork& work, uint64_t capture = 0) {
  return {.side = work.communicator->gpu.get(),
          .call = std::get_if<GpuCall>(&work.call),
          .exchange = std::get_if<executor::Exchange>(&work.call),
          .stream = work.stream,
          .capture = capture,
          .joined = work.joined};
}

/// In one launch. A rank whose call before is not in that one would have it wait for another, which
/// may wait for it.
bool mayFollow(const Batch& batch, const Batch& next) {
  std::vector<GpuLaunch> launches;
  for (const GpuWork& work : batch.works) launches.push_back(launchOf(work));
  return std::ranges::all_of(next.works, [&](const GpuWork& work) {
    const bool isBehindItsOwn = std::ranges::find(batch.works, work.communicator,
                                                  &GpuWork::communicator) != batch.works.end();
    launches.push_back(launchOf(work));
    return isBehindItsOwn &&
           mayFollow(std::span(launches).first(launches.size() - 1), launches.back());
  });
}

/// Whether one has to be launched after the other: they have a rank or a stream in common.
bool areOrdered(const Batch& batch, const Batch& other) {
  return std::ranges::any_of(batch.works, [&](const GpuWork& one) {
    return std::ranges::any_of(other.works, [&](const GpuWork& another) {
      return one.communicator == another.communicator || shareAStream(one, another);
    });
  });
}

/// What may be in the launch of the batch that it has to come after, is. Past another
/// communicator's nothing is moved: their order is the same for all ranks, whoever joins what.
void joinTurns(std::vector<Batch>& batches) {
  std::vector<Batch> joined;
  for (Batch& batch : batches) {
    const auto isBound = [&](const Batch& other) {
      return other.group != batch.group || areOrdered(other, batch);
    };
    const auto before = std::find_if(joined.rbegin(), joined.rend(), isBound);
    if (before != joined.rend() && before->group == batch.group && mayFollow(*before, batch))
      std::ranges::move(batch.works, std::back_inserter(before->works));
    else
      joined.push_back(std::move(batch));
  }
  batches = std::move(joined);
}

std::vector<Batch> batchesOf(std::vector<GpuWork> works) {
  std::vector<Batch> batches;
  std::map<const Communicator::Impl*, size_t> turns;
  for (GpuWork& work : works) {
    const size_t turn = turns[work.communicator.get()]++;
    const auto mine = std::ranges::find_if(
        batches, [&](const Batch& batch) { return belongs(batch, work, turn); });
    const bool waits = !work.stream;
    work.stream = streamFor(work, mine != batches.end() ? &*mine : nullptr);
    if (mine != batches.end()) {
      if (!work.communicator->gpu->byCopies()) launchOn(mine->works.front().stream, work);
      mine->works.push_back(std::move(work));
      continue;
    }
    Batch batch{work.communicator->gpu->group(), turn, waits, {}};
    batch.works.push_back(std::move(work));
    batches.push_back(std::move(batch));
  }
  sortByTurn(batches);
  joinTurns(batches);
  return batches;
}

/// By line, how many messages of an exchange with other ranks go there.
std::map<Line, uint64_t> messagesOf(const executor::Exchange& exchange) {
  std::map<Line, uint64_t> messages;
  for (const executor::Transfer& to : exchange.sends) ++messages[{exchange.rank, to.peer}];
  for (const executor::Transfer& from : exchange.receives) ++messages[{from.peer, exchange.rank}];
  messages.erase({exchange.rank, exchange.rank});
  return messages;
}

/// To those of the calls before it on its stream.
void addParts(const GpuWork& work, std::vector<Part>& parts) {
  const Communicator::Impl& c = *work.communicator;
  if (!work.isExchange()) {
    uint64_t number = c.gpuCollectives.load() + 1;
    for (const Part& part : parts) number += part.line == kCollectives && part.rank == c.who.rank();
    parts.push_back({kCollectives, c.who.rank(), number, number});
    return;
  }
  for (const auto& [line, count] : messagesOf(std::get<executor::Exchange>(work.call))) {
    const auto known = c.gpuMessages.find(line);
    const uint64_t before = known == c.gpuMessages.end() ? 0 : known->second;
    parts.push_back({line, c.who.rank(), before + 1, before + count});
  }
}

/// Of a launch's calls, all that are on one of its streams; `one` is among them. The capture that
/// the stream is in, as StreamIdentity has it.
uint64_t requireApart(const Batch& batch, const GpuWork& one, StreamRef on) {
  std::vector<Part> parts;
  for (const GpuWork& work : batch.works)
    if (isOn(work, on)) addParts(work, parts);
  const StreamIdentity stream = one.communicator->gpu->identityOf(on);
  const int other = SharedStreams::ofProcess().launch(batch.group, stream, parts);
  if (other < 0) return stream.capture;
  const std::string call = std::visit([](const auto& its) { return its.describe(); }, one.facts);
  base::fail(ErrorCode::InvalidUsage, one.communicator->who.self(), " and rank ", other,
             " of the same communicator call ", call,
             " on one stream, one after the other, and would wait for each other: their calls have "
             "to be in one group");
}

/// Of each call the capture that its streams are in.
std::vector<uint64_t> capturesOf(const Batch& batch) {
  std::vector<std::pair<StreamRef, uint64_t>> known;
  const auto captureOf = [&](const GpuWork& work, StreamRef stream) {
    for (const auto& [other, capture] : known)
      if (areOne(other, stream)) return capture;
    return known.emplace_back(stream, requireApart(batch, work, stream)).second;
  };
  std::vector<uint64_t> captures;
  for (const GpuWork& work : batch.works) {
    captures.push_back(captureOf(work, work.stream));
    for (const StreamRef joined : work.joined)
      if (captureOf(work, joined) != captures.back())
        base::fail(
            ErrorCode::InvalidUsage, work.communicator->who.self(),
            ": of the streams of a group's calls one is captured, and another one not, or into "
            "another graph");
  }
  return captures;
}

void launch(const Batch& batch) {
  const std::vector<uint64_t> captures = capturesOf(batch);
  std::vector<GpuLaunch> launches;
  for (const GpuWork& work : batch.works) {
    auto& c = *work.communicator;
    c.throwIfFailed();
    const uint64_t capture = captures[launches.size()];
    if (capture != 0) c.gpuWasCaptured.store(true, std::memory_order_release);
    c.launching(work,
                static_cast<uint64_t>(std::ranges::count(launches, c.gpu.get(), &GpuLaunch::side)));
    launches.push_back(launchOf(work, capture));
  }
  launchOnGpu(launches);
}

/// Why a batch could not be launched. A communicator that fails aborts its kernels, also between
/// the last look at it and the launch, which then says no more than that: why it has failed, does.
Error reasonOf(const Batch& batch, const Error& error) {
  for (const GpuWork& work : batch.works) {
    const std::lock_guard lock(work.communicator->mutex);
    if (work.communicator->failure) return *work.communicator->failure;
  }
  return error;
}

}  // namespace

// What cannot be launched fails its communicators, for other ranks may have launched their part;
// the calls of others go on. Whoever waits for his calls hears of it when none touches his memory.
void launch(std::vector<GpuWork> works) {
  std::vector<std::shared_ptr<Communicator::Impl>> waiting;
  for (const GpuWork& work : works)
    if (!work.stream) waiting.push_back(work.communicator);
  std::exception_ptr first;
  joinStreams(works);
  for (const Batch& batch : batchesOf(std::move(works))) {
    try {
      launch(batch);
    } catch (const Error& error) {
      const Error reason = reasonOf(batch, error);
      for (const GpuWork& work : batch.works) work.communicator->fail(reason, true);
      if (!first) first = std::make_exception_ptr(reason);
    }
  }
  if (!first) return;
  for (const auto& communicator : waiting) {
    try {
      communicator->awaitIdleGpu();
    } catch (const Error& error) {  // the first one is what the caller has to know
      base::log(LogLevel::Error, communicator->who.self(),
                " cannot wait for its GPU: ", error.what());
    }
  }
  std::rethrow_exception(first);
}

void forgetStreams(uint64_t group) { SharedStreams::ofProcess().forget(group); }

}  // namespace communicator

const GpuChoice& Communicator::Impl::chooseOnGpu(const CallFacts& facts) {
  const uint64_t key = communicator::choiceKey(facts, size);
  if (const auto known = gpuChoices.find(key); known != gpuChoices.end()) return known->second;
  const topology::Topology joined{.ranks = size,
                                  .cores = size,
                                  .hostOf = links.topology().hostOf,
                                  .slotBytes = gpu->slotBytes(),
                                  .channels = gpu->channels()};
  plan::CollectiveRequest request = communicator::requestOf(
      facts, size, settings.deterministic, settings.algorithm, links.topology().hostOf);
  const uint64_t bytes = request.blockBytes();
  request.mappable = gpu->canMap() && bytes >= communicator::kLeastMappedBytes;
  const collectives::Choice choice =
      collectives::choose(request, joined, communicator::gpuTuning());
  GpuChoice made;
  // Some ranks may call in place and others not, so a plan has to bear it.
  const bool isMapped = choice.mapped && size > 1 && choice.mapped->inPlaceSafe;
  made.spec = isMapped ? *choice.mapped : choice.spec;
  made.hash = made.spec.hash();
  auto& plan = gpuPlans[made.hash];
  if (!plan)
    plan = gpu->prepare(made.spec, [&](int rank) { return collectives::build(made.spec, rank); });
  made.plan = plan.get();
  made.slices =
      communicator::slicesFor(made.spec, communicator::bufferBytes(made.spec, bytes), *gpu);
  base::log(LogLevel::Debug, who.self(), ": on ", toString(settings.device),
            " for blocks of up to ", bytes, " bytes: ", made.spec.describe());
  return gpuChoices.emplace(key, made).first->second;
}

GpuWork Communicator::Impl::gpuWork(const OperationWork& work, StreamRef stream) {
  const char* const call = work.placement().call;
  const auto refuse = [&](const std::string& why) {
    base::fail(ErrorCode::Unsupported, who.self(), ": ", call, " on ", toString(settings.device),
               ": ", why);
  };
  if (!noGpu.empty()) refuse("the ranks' GPUs are not joined: " + noGpu);
  const executor::Launch* const launch = work.launch();
  if (launch && launch->reduction)
    refuse("the reduction " + launch->reduction.name() + " is a function of the host");
  throwIfFailed();
  if (const auto* const transfers = work.exchange())
    return {shared_from_this(), communicator::factsOf(*transfers), *transfers, stream};
  CallFacts facts = *work.facts();
  const GpuChoice& choice = chooseOnGpu(facts);
  facts.algorithm = choice.spec.algorithm;
  facts.planHash = choice.hash ^ communicator::kOnGpu;
  const uint64_t blockBytes = communicator::blockCount(facts, size) * sizeOf(facts.type);
  if (choice.spec.mapped.any())
    for (const auto& buffer : work.placement().collective)
      gpu->allowPeers(buffer.data, buffer.bytes);
  return {.communicator = shared_from_this(),
          .facts = facts,
          .call = communicator::GpuCall{.plan = choice.plan,
                                        .in = launch->in,
                                        .out = launch->out,
                                        .count = launch->count,
                                        .blocks = launch->blocks,
                                        .type = launch->type,
                                        .op = launch->op,
                                        .scalar = launch->scalar,
                                        .scalarAt = launch->scalarAt,
                                        .deterministic = settings.deterministic,
                                        .callHash = facts.fingerprint(),
                                        .bytes = communicator::bufferBytes(choice.spec, blockBytes),
                                        .slices = choice.slices,
                                        .isMapped = choice.spec.mapped.any()},
          .stream = stream};
}

void Communicator::Impl::launching(const GpuWork& work, uint64_t behind) {
  if (work.isExchange())
    for (const auto& [line, count] :
         communicator::messagesOf(std::get<executor::Exchange>(work.call)))
      gpuMessages[line] += count;
  if (const auto* const call = std::get_if<communicator::GpuCall>(&work.call))
    gpuBuffersAreMapped |= call->isMapped;
  gpuRecorder.issued(
      {.number = gpu->launched() + behind + 1,
       .sequence = work.isExchange() ? ++gpuExchanges : gpuCollectives.fetch_add(1) + 1,
       .facts = work.facts,
       .phase = communicator::Phase::Launched});
}

void Communicator::Impl::awaitIdleGpu() {
  for (base::Backoff backoff(!links.topology().oversubscribed()); !gpuHasLeftStreams();)
    backoff.idle();
  if (std::exchange(gpuBuffersAreMapped, false) &&
      (gpu->failure() || failed.load(std::memory_order_acquire)))
    gpu->awaitPeers();
}

// Also of a failure the caller hears only when no kernel touches his memory any more: it ends them.
// The monitor finds out what has gone wrong.
void Communicator::Impl::awaitGpu() {
  awaitIdleGpu();
  base::Backoff backoff(!links.topology().oversubscribed());
  while (gpu->failure()) {
    throwIfFailed();
    backoff.idle();
  }
  throwIfFailed();
}

namespace {

// How long the news of what made a peer give up may take, and the two sides of a mismatch.
constexpr int64_t kReasonNs = 1'000'000'000, kDisputeNs = 2'000'000'000;
// How long what a rank has sent may take when it has left.
constexpr int64_t kLeaverNs = 1'000'000'000;
// How many ranks one that waits asks together.
constexpr int kAskedAtATime = 8;

}  // namespace

// A rank that has left takes part in nothing any more, and what it has sent before comes within a
// moment.
void Communicator::Impl::watchLeaversOnGpu() {
  if (!someoneStopped.load(std::memory_order_acquire)) return;
  int leaver = -1;
  {
    std::lock_guard lock(mutex);
    if (!gpu) return;
    std::vector<std::optional<uint64_t>> leftAfter;
    for (const Peer& peer : peers) leftAfter.push_back(peer.leftGpuAfter);
    leaver = gpu->missedLeaver(leftAfter);
  }
  const int64_t now = clock.nowNs();
  if (leaver != gpuLeaver) gpuLeaverSinceNs = now;
  gpuLeaver = leaver;
  if (leaver < 0 || now - gpuLeaverSinceNs < kLeaverNs) return;
  fail(Error(ErrorCode::PeerLost, base::message(who.name(leaver), " left; ", who.self(),
                                                " still needs it on ", toString(settings.device))),
       true);
}

// A kernel does not say for whom it waits: of a collective that may be anybody. Sends and receives
// may have nothing to do with a host that is gone.
void Communicator::Impl::watchWaitsOnGpu() {
  std::optional<uint64_t> ended;
  std::vector<int> waitedFor;
  {
    std::lock_guard lock(mutex);
    if (gpu) ended = gpu->underWay();
    if (ended)
      std::ranges::copy_if(links.visited(), std::back_inserter(waitedFor),
                           [&](int peer) { return !peers[peer].left; });
  }
  if (ended) inquireOnGpu(*ended);
  if (waitedFor.empty()) return;
  const auto cut = gpuNetworkWatch.look(*links.endpoint(), *ended, waitedFor, clock.nowNs());
  if (cut) fail(links.cut(*cut, "a collective on " + toString(settings.device)), true);
}

// Of ranks in different calls none may get a message of the other's: they take other wires, or have
// other roots. So whoever waits asks the others what they call, some at a time. Where a rank has
// captured calls, which it replays, ranks do not count alike.
void Communicator::Impl::inquireOnGpu(uint64_t ended) {
  const int64_t now = clock.nowNs();
  if (gpuWaited != ended) gpuWaitedSinceNs = now;
  gpuWaited = ended;
  if (now - gpuWaitedSinceNs < kInquireAfterNs || now - gpuInquiryNs < kInquireAgainNs) return;
  const auto entry = gpuRecorder.find(ended + 1);
  if (!entry || !entry->collective() || gpuWasCaptured.load(std::memory_order_acquire)) return;
  gpuInquiryNs = now;
  for (int i = 0; i < std::min(kAskedAtATime, size - 1); ++i) {
    gpuAsked = gpuAsked % (size - 1) + 1;
    inquire((who.rank() + gpuAsked) % size, *entry, Inquirer::GpuWaiting);
  }
}

// Where calls were captured, the recorder counts these once, and the GPU their replays: then a
// collective is known by what it says in its messages.
std::optional<communicator::Recorder::Entry> Communicator::Impl::callOf(
    const communicator::GpuFailure& found) const {
  if (!gpuWasCaptured.load(std::memory_order_acquire)) return gpuRecorder.find(found.operation);
  std::optional<communicator::Recorder::Entry> last;
  for (const auto& known : gpuRecorder.recent())
    if (known.collective() &&
        std::ranges::find(found.callHashes, known.collective()->fingerprint()) !=
            found.callHashes.end())
      last = known;
  return last;
}

// A peer that has given up tells why by the control plane, and ranks that disagree compare their
// calls there. What the GPU knows is the answer where they do not. What is enqueued there ends only
// while it is watched, so that goes on when the communicator has failed.
void Communicator::Impl::watchGpu() {
  std::optional<communicator::GpuFailure> found;
  try {
    std::lock_guard lock(mutex);
    if (gpu) {
      gpu->watch();
      found = gpu->failure();
    }
  } catch (const Error& error) {
    return fail(error, true);
  }
  if (failed.load(std::memory_order_acquire)) return;
  if (!found) {
    watchLeaversOnGpu();
    return watchWaitsOnGpu();
  }
  const int64_t now = clock.nowNs();
  const auto entry = callOf(*found);
  const bool isMismatch = found->code == ErrorCode::Mismatch;
  const bool isAsked = isMismatch && entry && entry->collective();
  if (gpuFailedNs == 0) {
    gpuFailedNs = now;
    // Also about those before: what a rank sent in one of them may have been left.
    for (const auto& known : gpuRecorder.recent())
      if (isAsked && known.collective() && known.number <= entry->number)
        inquire(found->peer, known, Inquirer::Gpu);
  }
  const bool isAnswer = isMismatch || found->code == ErrorCode::Timeout;
  const int64_t grace = isAsked ? kDisputeNs : isAnswer ? 0 : kReasonNs;
  if (now - gpuFailedNs < grace) return;
  std::string call = base::message(who.self(), " on ", toString(settings.device));
  if (entry)
    call += ": " + entry->describe();
  else if (found->operation > 0)
    call += ": a call, or a replay of one";
  else
    call += found->peer < 0 ? ", between calls" : ", between calls with " + who.name(found->peer);
  std::string text = base::message(call, ": ", found->text);
  if (found->code == ErrorCode::Timeout && found->peer >= 0) {
    text = base::message(call, " did not complete within ", settings.timeoutMs,
                         " ms; it waits for ", who.name(found->peer));
    if (found->bytesArrived)
      text += base::message(" with ", *found->bytesArrived, " bytes received");
  }
  fail(Error(found->code, text), true);
}

}  // namespace tutti
