#include "src/executor/copy/copy_executor.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/device/cuda.h"
#include "src/device/cuda/guards.h"
#include "src/executor/copy/exchange_run.h"

namespace tutti::executor::copy {
namespace {

using device::OnDevice;
using transports::p2p::DeviceMemory;

DeviceMemory ownWords(int device) {
  DeviceMemory memory(device, sizeof(OwnWords));
  const auto words = std::make_unique<OwnWords>();
  std::iota(words->count, words->count + kCounted, 0);
  words->count[kCounted] = 0;
  std::fill_n(words->turned, kCounted, 0);
  memory.upload(words.get(), sizeof *words);
  return memory;
}

/// Calls of CUDA for a step, at most: events, its waits, what it moves, and what it tells.
uint64_t operationsOf(const plan::Step& step) {
  uint64_t chunks = 0, operations = 2 + 2 * step.after.size();
  for (const plan::Port& port : step.targets) chunks += port.chunks;
  for (const auto* ports : {&step.sources, &step.targets})
    for (const plan::Port& port : *ports) operations += isChannel(port) ? 3 : 0;
  return operations + chunks;
}

/// How long a message of a rank that has left may take to be seen.
constexpr std::chrono::seconds kLeaver{1};

/// Operations are counted modulo a number: the last of those that `ended` can be.
uint64_t lastOf(uint32_t ended, uint64_t launched) {
  return launched - std::min((launched - ended) % kCounted, launched);
}

const CopyPlan& planOf(const GpuLaunch& launch) {
  return static_cast<const CopyPlan&>(*launch.plan);
}

/// More are of no use: a plan has two lanes on a channel at most, and an exchange one for each peer
/// and direction.
size_t mostStreams(const transports::p2p::P2pEndpoint& endpoint, size_t allowed) {
  const int lanes = 2 * std::max(endpoint.layout().rings.channels, endpoint.size() - 1);
  return std::min(static_cast<size_t>(lanes), allowed);
}

}  // namespace

uint64_t scratchBytes(const transports::p2p::P2pLayout& layout) {
  return 2 * static_cast<uint64_t>(layout.rings.channels) * layout.copySlotBytes;
}

uint64_t mostScratchBytes(const plan::PlanSpec& spec, const transports::p2p::P2pLayout& layout) {
  if (spec.scratchBlocks == 0) return 0;
  TUTTI_REQUIRE(spec.messageChunks > 0, spec.describe(), " needs scratch memory without bound");
  const uint64_t chunkBytes =
      layout.copySlotBytes / spec.messageChunks / plan::kChunkAlignment * plan::kChunkAlignment;
  TUTTI_REQUIRE(chunkBytes > 0, spec.describe(), " has messages of ", spec.messageChunks,
                " chunks, which slots of ", layout.copySlotBytes, " bytes do not hold");
  return spec.scratchBlocks * spec.divisions * chunkBytes;
}

CopyExecutor::CopyExecutor(const transports::p2p::P2pEndpoint& endpoint, const CopyOptions& options)
    : endpoint_(endpoint),
      options_(options),
      own_(ownWords(endpoint.device())),
      ground_{endpoint, own_.as<OwnWords>(), waitFlagsOf(endpoint.device())},
      watcher_(ground_, options.deadlineNs) {
  if (endpoint.layout().copySlotBytes == 0)
    base::fail(ErrorCode::InvalidUsage, "rank ", endpoint.rank(), " has no slots for copies");
  endpoint.requireConnected();
  OnDevice on(endpoint.device());
  scratch_ = DeviceMemory(endpoint.device(), scratchBytes(endpoint.layout()));
  streams_ = std::make_unique<LaneStreams>(mostStreams(endpoint, options.mostStreams));
  // Now: to load waits for what runs, and that may wait for others.
  for (const size_t size : {1, 2, 4, 8}) {
    const device::Kernel fold{"fold", foldAddress(size)};
    device::loadKernels({&fold, 1}, endpoint.device());
  }
}

std::unique_ptr<PreparedPlan> CopyExecutor::prepare(const plan::PlanSpec& spec,
                                                    const plan::ProgramOf& programOf) {
  const auto& layout = endpoint_.layout();
  if (spec.mapped.any())
    base::fail(ErrorCode::Unsupported, spec.describe(),
               ": copies that are enqueued must not go to buffers of peers");
  const plan::Program program = programOf(endpoint_.rank());
  TUTTI_REQUIRE(program.lanes.size() <= kMostLanes, spec.describe(), " has ", program.lanes.size(),
                " lanes: ", kMostLanes, " are possible");
  TUTTI_REQUIRE(spec.minSlots <= static_cast<int>(layout.rings.slotCount),
                "a plan for channels of ", spec.minSlots, " slots on channels of ",
                layout.rings.slotCount);
  const uint64_t scratch = mostScratchBytes(spec, layout);
  TUTTI_REQUIRE(scratch <= scratch_.bytes(), spec.describe(), " needs ", scratch,
                " bytes of scratch memory: rank ", endpoint_.rank(), " has ", scratch_.bytes(),
                " on device ", endpoint_.device());
  auto plan = std::make_unique<CopyPlan>();
  plan->spec_ = spec;
  plan->program_ = program;
  plan->waves_ = plan::wavesOf(programOf, spec.ranks, endpoint_.rank(), layout.rings.slotCount);
  for (const plan::Lane& lane : program.lanes) {
    TUTTI_REQUIRE(lane.channel < layout.rings.channels, "a lane on channel ", lane.channel, " of ",
                  layout.rings.channels);
    for (const plan::Step& step : lane.steps) {
      TUTTI_REQUIRE(step.sources.size() + step.targets.size() <= kMostOperands, spec.describe(),
                    " has a step of ", step.sources.size() + step.targets.size(),
                    " operands: ", kMostOperands, " are possible");
      plan->operationsPerRound_ += operationsOf(step);
    }
  }
  watcher_.include(program.lanes.size());
  return plan;
}

void CopyExecutor::requireRoom(uint64_t operations, const std::string& what) const {
  TUTTI_REQUIRE(operations <= options_.mostOperations, what, " take ", operations,
                " operations on streams, and ", options_.mostOperations,
                " are allowed: slots larger than ", endpoint_.layout().copySlotBytes,
                " bytes are needed");
}

/// One rank's, under way.
struct CopyExecutor::Part {
  CopyExecutor* executor = nullptr;
  cudaStream_t stream = nullptr;
  size_t streams = 0;           // that its lanes have
  std::vector<CopyLane> lanes;  // `run` points there
  std::unique_ptr<Enqueuing> run;
};

// Checks of all ranks come first, so that nothing is enqueued where one of them is refused.
void CopyExecutor::launch(std::span<const GpuLaunch> ranks) {
  const auto of = [](const GpuLaunch& rank) { return static_cast<CopyExecutor*>(rank.executor); };
  for (const GpuLaunch& rank : ranks)
    if (const auto failed = of(rank)->watcher_.failure()) throw *failed;
  for (const GpuLaunch& rank : ranks) of(rank)->check(rank);
  Parts parts;
  try {
    for (const GpuLaunch& rank : ranks) parts.push_back(of(rank)->begin(rank));
    enqueueAll(parts);
    for (const auto& part : parts) part->executor->end(*part);
  } catch (...) {
    for (const auto& part : parts) part->executor->joinWhatThereIs(*part);
    throw;
  }
}

void CopyExecutor::enqueueAll(const Parts& parts) {
  const auto placeOf = [](const auto& part) { return part->run->place(); };
  for (;;) {
    Part& next = **std::ranges::min_element(parts, {}, placeOf);
    if (next.run->place() == Enqueuing::kEnd) return;
    OnDevice on(next.executor->endpoint_.device());
    next.run->enqueueNext();
  }
}

// CUDA has refused a call, and may refuse these.
void CopyExecutor::joinWhatThereIs(const Part& part) const {
  try {
    OnDevice on(endpoint_.device());
    streams_->join(part.stream, part.streams);
  } catch (const Error& error) {
    base::log(LogLevel::Error, "rank ", endpoint_.rank(),
              ": copies of a launch that failed may go on behind its stream: ", error.what());
  }
}

plan::PlanShape CopyExecutor::shapeOf(const CopyPlan& plan, const CollectiveCall& call) const {
  return call.shape(plan.spec_, endpoint_.rank(), endpoint_.layout().copySlotBytes);
}

void CopyExecutor::check(const GpuLaunch& launch) {
  if (launch.call)
    check(planOf(launch), *launch.call);
  else
    check(*launch.exchange);
}

void CopyExecutor::check(const CopyPlan& plan, const CollectiveCall& call) const {
  call.requireFits(plan.spec_);
  TUTTI_REQUIRE((call.callHash & base::kExchangeBit) == 0, "a fingerprint of ", call.callHash);
  const int64_t rounds = shapeOf(plan, call).rounds();
  requireRoom(plan.operationsPerRound_ * static_cast<uint64_t>(rounds),
              base::message(rounds, " rounds of ", plan.spec_.describe()));
}

void CopyExecutor::check(const Exchange& exchange) {
  requireSelfMatches(exchange, endpoint_.rank());
  requireDisjoint(exchange, endpoint_.rank());
  const auto edges = edgesOf(exchange, endpoint_.rank());
  const uint64_t messages =
      exchange.sends.size() + messagesOf(edges, endpoint_.layout().copySlotBytes);
  requireRoom(4 * messages, base::message(messages, " messages of an exchange"));
  TUTTI_REQUIRE(edges.size() <= kMostLanes, edges.size(),
                " peers to send to and to receive from: ", kMostLanes, " are possible");
  for (const CopyEdge& edge : edges)
    TUTTI_ASSERT(edge.peer >= 0 && edge.peer < endpoint_.size(), "a transfer of rank ",
                 endpoint_.rank(), " with rank ", edge.peer);
  watcher_.include(edges.size());
}

std::unique_ptr<CopyExecutor::Part> CopyExecutor::begin(const GpuLaunch& launch) {
  OnDevice on(endpoint_.device());
  launched_.fetch_add(1, std::memory_order_relaxed);
  auto part = std::make_unique<Part>();
  part->executor = this;
  part->stream = launch.stream.cuda();
  if (launch.call) {
    const CopyPlan& plan = planOf(launch);
    makeLanes(*part, plan.program_.lanes.size(), launch.call->callHash);
    part->run = std::make_unique<ProgramRun>(plan, *launch.call, shapeOf(plan, *launch.call),
                                             part->lanes, scratch_.data(), options_.foldBlocks);
  } else {
    auto edges = edgesOf(*launch.exchange, endpoint_.rank());
    copyToSelf(*launch.exchange, part->stream);
    makeLanes(*part, edges.size(), 0);
    part->run = std::make_unique<ExchangeRun>(std::move(edges), part->lanes,
                                              endpoint_.layout().copySlotBytes);
  }
  return part;
}

// Of a graph CUDA itself decides which branches share a queue, so it has none.
void CopyExecutor::makeLanes(Part& part, size_t lanes, uint64_t key) const {
  part.streams = device::isCapturing(part.stream) ? 1 : std::min(lanes, streams_->most());
  const auto streams = streams_->fork(part.stream, part.streams);
  for (uint32_t number = 0; number < lanes; ++number)
    part.lanes.emplace_back(ground_, number, streams[number % streams.size()], key);
}

void CopyExecutor::end(Part& part) const {
  OnDevice on(endpoint_.device());
  for (CopyLane& lane : part.lanes) lane.end();
  streams_->join(part.stream, part.streams);
  StreamQueue queue(part.stream, ground_.waitFlags);
  finish(queue);
}

// In order: check() has compared them.
void CopyExecutor::copyToSelf(const Exchange& exchange, cudaStream_t stream) const {
  StreamQueue queue(stream, ground_.waitFlags);
  auto to = exchange.receives.begin();
  for (const Transfer& from : exchange.sends) {
    if (from.peer != endpoint_.rank()) continue;
    to = std::find_if(to, exchange.receives.end(),
                      [&](const Transfer& t) { return t.peer == endpoint_.rank(); });
    queue.copy(to->data, from.data, from.bytes);
    ++to;
  }
}

// Behind all lanes: only where no peer has given up so far is the operation done, and counted. The
// count is a ring of words that turns by one.
void CopyExecutor::finish(StreamQueue& queue) const {
  for (const uint32_t* const poison : endpoint_.copyPoisons()) queue.awaitAtLeast(poison, 0);
  OwnWords& own = *ground_.own;
  queue.copy(own.turned, own.count + 1, sizeof own.turned);
  queue.copy(own.count, own.turned, sizeof own.turned);
  queue.copy(own.count + kCounted, own.count, sizeof(uint32_t));
}

bool CopyExecutor::isRunning() {
  return !hasLeft_.load(std::memory_order_acquire) && watcher_.isWaiting();
}

std::optional<uint64_t> CopyExecutor::underWay() const {
  const auto ended = watcher_.collectiveAwaitedIn();
  if (!ended || hasLeft_.load(std::memory_order_acquire)) return std::nullopt;
  return lastOf(*ended, launched_.load(std::memory_order_relaxed));
}

// What a rank has sent before it left is there.
int CopyExecutor::missedLeaver(const std::vector<std::optional<uint64_t>>& leftAfter) const {
  if (hasLeft_.load(std::memory_order_acquire)) return -1;
  for (const int peer : awaited(kLeaver))
    if (leftAfter[static_cast<size_t>(peer)]) return peer;
  return -1;
}

// Whoever aborts has a failure to tell already.
void CopyExecutor::abort() {
  try {
    watcher_.abort();
  } catch (const Error& error) {
    base::log(LogLevel::Error, "copies cannot be aborted: ", error.what());
  }
}

void CopyExecutor::leave() {
  hasLeft_.store(true, std::memory_order_release);
  watcher_.leave();
}

std::optional<ExecutorFailure> CopyExecutor::failure() const {
  if (hasLeft_.load(std::memory_order_acquire)) return {};
  auto found = watcher_.failure();
  if (found) {
    const auto seen = static_cast<uint32_t>(found->operation);
    const uint64_t launched = launched_.load(std::memory_order_relaxed);
    found->operation = std::max<uint64_t>(lastOf(seen + 1, launched), 1);
  }
  return found;
}

}  // namespace tutti::executor::copy
