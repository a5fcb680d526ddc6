#include "src/executor/kernel/kernel_executor.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "src/base/check.h"
#include "src/executor/kernel/launch.h"

namespace tutti::executor::kernel {
namespace {

using device::OnDevice;

constexpr uint32_t kMostLanes = 4096;

constexpr std::chrono::milliseconds kDiscarding{200};
/// Within this time a lane that has just found no word has found the host's other one, or waits for
/// nothing and has ended, or the first lane has told that the call has begun.
constexpr std::chrono::milliseconds kHasBegun{20};

/// How large a message's share of one chunk can become, whatever the count.
uint64_t mostChunkBytes(const plan::PlanSpec& spec, size_t slotBytes) {
  return slotBytes / spec.messageChunks / plan::kChunkAlignment * plan::kChunkAlignment;
}

/// Bytes of scratch memory of a launch in so many slices, whatever the count.
uint64_t mostScratchBytes(const plan::PlanSpec& spec, size_t slotBytes, uint32_t slices) {
  if (spec.scratchBlocks == 0) return 0;
  TUTTI_REQUIRE(spec.messageChunks > 0, spec.describe(), " needs scratch memory without bound");
  return spec.scratchBlocks * spec.divisions * slices * mostChunkBytes(spec, slotBytes);
}

}  // namespace

uint32_t KernelPlan::blocks(uint32_t slices) const {
  return ceilDivide(lanes_ * slices, ceilDivide(lanes_ * slices, mostBlocks_));
}

size_t slotBytesOfSlices(const plan::PlanSpec& spec, size_t slotBytes, uint32_t slices) {
  if (spec.messageChunks == 0 || slices == 1) return slotBytes;
  return slices * spec.messageChunks * mostChunkBytes(spec, slotBytes);
}

KernelExecutor::KernelExecutor(transports::p2p::P2pEndpoint& endpoint, Residency& residency,
                               const KernelOptions& options,
                               std::unique_ptr<transports::Endpoint> remote)
    : endpoint_(endpoint),
      residency_(residency),
      options_(options),
      progress_(endpoint.device(), kMostLanes * sizeof(uint64_t)),
      memory_(endpoint.device(), options.arenaBytes),
      arena_(
          memory_.data(), options.arenaBytes,
          base::message("the arena of rank ", endpoint.rank(), " on device ", endpoint.device())),
      setup_(endpoint.device()),
      tables_(options.tableBytes, base::message("rank ", endpoint.rank())) {
  TUTTI_REQUIRE(options.threadsPerLane % 32 == 0 && options.threadsPerLane >= 32 &&
                    options.threadsPerLane <= kMostThreadsPerBlock,
                options.threadsPerLane, " threads for a lane: a multiple of 32 up to ",
                kMostThreadsPerBlock, " is possible");
  endpoint.requireTogether();
  for (int peer = 0; peer < endpoint.size() && !proxy_; ++peer)
    if (endpoint.isThroughHost(peer))
      proxy_ = std::make_unique<Proxy>(endpoint, std::move(remote), stopWord_.data());
  if (!options.reservesBlocks) return;
  residency.reserve(endpoint.device(), options.blocks, base::message("rank ", endpoint.rank()));
  hasBlocks_ = true;
}

// The proxy waits for a moment only when the kernel has given up.
KernelExecutor::~KernelExecutor() {
  if (failure()) abort();
  proxy_.reset();
  giveBlocks();
}

void KernelExecutor::giveBlocks() {
  if (std::exchange(hasBlocks_, false)) residency_.release(endpoint_.device(), options_.blocks);
}

uint32_t KernelExecutor::mostLanes(uint32_t blocks) {
  return std::min(kMostLanes, kMostLanesPerBlock * blocks);
}

uint32_t KernelExecutor::mostPorts() {
  uint32_t ports = 1;
  while (kMostLanesPerBlock * sharedBytesPerLane(ports + 1) <= kMostSharedBytes) ++ports;
  return ports;
}

std::unique_ptr<PreparedPlan> KernelExecutor::prepare(const plan::PlanSpec& spec,
                                                      const plan::ProgramOf& programOf) {
  return prepareProgram(spec, programOf(endpoint_.rank()));
}

std::unique_ptr<KernelPlan> KernelExecutor::prepareProgram(const plan::PlanSpec& spec,
                                                           const plan::Program& program) {
  auto plan = std::make_unique<KernelPlan>();
  plan->spec_ = spec;
  auto image = encode(spec, program, endpoint_.rank());
  const auto& header = *reinterpret_cast<const ProgramHeader*>(image.data());
  plan->lanes_ = header.lanes;
  plan->mostPorts_ = header.mostPorts;
  plan->mostBlocks_ = options_.blocks;
  plan->isOneShot_ = isOneShot(spec, program, endpoint_.rank());
  for (int peer = 0; peer < endpoint_.size(); ++peer)
    if (endpoint_.isThroughHost(peer) || endpoint_.isByHost(peer)) plan->isOneShot_ = false;
  const uint32_t mostLanes = KernelExecutor::mostLanes(options_.blocks);
  TUTTI_REQUIRE(plan->lanes_ <= mostLanes, spec.describe(), " has ", plan->lanes_, " lanes, and ",
                options_.blocks, " blocks hold ", kMostLanesPerBlock, " each");
  for (int peer = 0; peer < endpoint_.size() && spec.mapped.any(); ++peer)
    TUTTI_REQUIRE(endpoint_.sharesProcess(peer), spec.describe(), " maps buffers of rank ", peer,
                  ", which is another process, or on a GPU that this one does not reach");
  const auto slots = static_cast<int>(endpoint_.layout().rings.slotCount);
  TUTTI_REQUIRE(spec.minSlots <= slots, "a plan for channels of ", spec.minSlots,
                " slots on channels of ", slots);
  const int channels = endpoint_.layout().rings.channels;
  TUTTI_REQUIRE(spec.channels >= 1 && spec.channels <= channels, spec.describe(), " on ", channels,
                channels == 1 ? " channel" : " channels");
  for (const plan::Lane& lane : program.lanes)
    TUTTI_REQUIRE(lane.channel < spec.channels, "a lane on channel ", lane.channel, " of ",
                  spec.channels);
  plan->mostSlices_ =
      std::min(static_cast<uint32_t>(channels / spec.channels), mostLanes / plan->lanes_);
  const uint64_t scratch =
      mostScratchBytes(spec, endpoint_.layout().rings.slotBytes, plan->mostSlices_);
  if (scratch > scratchBytes_) {
    scratch_ = arena_.take(scratch, spec.describe());
    scratchBytes_ = scratch;
  }
  plan->scratch_ = scratch_;
  plan->image_ = imageOf(std::move(image));
  return plan;
}

std::shared_ptr<const ProgramImage> KernelExecutor::imageOf(std::vector<unsigned char> bytes) {
  std::erase_if(images_, [](const auto& image) { return image.expired(); });
  for (const auto& known : images_)
    if (auto image = known.lock(); image && image->bytes == bytes) return image;
  auto image = std::make_shared<ProgramImage>();
  image->there = arena_.take(bytes.size(), "a program");
  image->bytes = std::move(bytes);
  const device::OutsideCapture outside;
  OnDevice on(endpoint_.device());
  TUTTI_CUDA(cudaMemcpyAsync(image->there.get(), image->bytes.data(), image->bytes.size(),
                             cudaMemcpyHostToDevice, setup_.get()));
  setup_.wait();
  images_.push_back(image);
  return image;
}

Wire KernelExecutor::wireOf(const GpuLaunch& launch) const {
  const plan::PlanSpec& spec = launch.plan->spec();
  return wireFor(launch.call->bufferBytes(spec), spec.mapped.any(), options_.keepsLines);
}

void KernelExecutor::launch(std::span<const GpuLaunch> launches) {
  const auto of = [](const GpuLaunch& launch) {
    return static_cast<KernelExecutor*>(launch.executor);
  };
  std::vector<KernelLaunch> calls;
  std::vector<KernelExchange> exchanges;
  for (const GpuLaunch& each : launches) {
    if (each.call)
      calls.push_back({.executor = of(each),
                       .plan = static_cast<const KernelPlan*>(each.plan),
                       .call = each.call,
                       .isCaptured = each.isCaptured,
                       .wire = of(each)->wireOf(each),
                       .slices = each.slices});
    else
      exchanges.push_back({of(each), each.exchange, each.isCaptured});
  }
  TUTTI_ASSERT(calls.empty() || exchanges.empty(), "collectives and exchanges share no launch");
  const cudaStream_t stream = launches.front().stream.cuda();
  if (calls.empty())
    launchExchanges(exchanges, stream);
  else
    launchCalls(calls, stream);
}

bool KernelExecutor::mayFollow(std::span<const GpuLaunch> launches, const GpuLaunch& next) const {
  if (!next.call || launches.size() >= kMostMergedCalls) return false;
  return std::ranges::all_of(launches, [&](const GpuLaunch& before) {
    return before.call && before.stream.cuda() == next.stream.cuda() &&
           before.stream.device() == next.stream.device() &&
           sizeOf(before.call->facts.type) == sizeOf(next.call->facts.type) &&
           wireOf(before) == wireOf(next);
  });
}

void KernelExecutor::leave() {
  hasLeft_.store(true, std::memory_order_release);
  if (proxy_) proxy_->finish();
  abort();
}

uint64_t KernelExecutor::completed() const {
  return std::atomic_ref(counts_.data()->completed).load(std::memory_order_acquire);
}

uint32_t KernelExecutor::collectives() const {
  return std::atomic_ref(counts_.data()->collectives).load(std::memory_order_relaxed);
}

std::optional<uint64_t> KernelExecutor::collectivesEnded() const { return collectives(); }

// What ends between the two loads has ended.
KernelExecutor::UnderWay KernelExecutor::whatIsUnderWay() const {
  if (hasLeft_.load(std::memory_order_acquire)) return UnderWay::Nothing;
  const uint64_t begun = std::atomic_ref(counts_.data()->begun).load(std::memory_order_acquire);
  if (begun / 2 <= completed() || report() != nullptr) return UnderWay::Nothing;
  return begun % 2 != 0 ? UnderWay::Collective : UnderWay::Exchange;
}

std::optional<uint64_t> KernelExecutor::underWay() const {
  const uint64_t ended = completed();
  if (whatIsUnderWay() != UnderWay::Collective) return std::nullopt;
  return ended;
}

bool KernelExecutor::isRunning() {
  if (hasLeft_.load(std::memory_order_acquire)) return false;
  const uint64_t begun = std::atomic_ref(counts_.data()->begun).load(std::memory_order_acquire);
  return begun / 2 > completed() &&
         std::atomic_ref(counts_.data()->failed).load(std::memory_order_acquire) == 0;
}

// A collective under way has the number after those that have ended.
int KernelExecutor::missedLeaver(const std::vector<std::optional<uint64_t>>& leftAfter) const {
  if (whatIsUnderWay() != UnderWay::Collective) return -1;
  const uint32_t ended = collectives();
  for (size_t peer = 0; peer < leftAfter.size(); ++peer)
    if (leftAfter[peer] &&
        static_cast<int32_t>(ended - static_cast<uint32_t>(*leftAfter[peer])) >= 0)
      return static_cast<int>(peer);
  return -1;
}

void KernelExecutor::abort() {
  uint32_t none = 0;
  std::atomic_ref(*stopWord_.data())
      .compare_exchange_strong(none, stopWord(StopReason::Aborted, -1), std::memory_order_acq_rel);
}

// By a word in the device's memory, which is at hand where a call begins.
bool KernelExecutor::discard() {
  const device::OutsideCapture outside;
  const OnDevice on(endpoint_.device());
  TUTTI_CUDA(cudaMemcpyAsync(&endpoint_.words()->discarded, stopWord_.data(), sizeof(uint32_t),
                             cudaMemcpyHostToDevice, setup_.get()));
  if (!setup_.wait(kDiscarding)) return false;
  std::this_thread::sleep_for(kHasBegun);
  return true;
}

const Report* KernelExecutor::report() const {
  Report& report = *report_.data();
  const bool isWritten = std::atomic_ref(report.written).load(std::memory_order_acquire) != 0;
  return isWritten ? &report : nullptr;
}

// What the proxy has found concerns no operation, unless a launch says which.
std::optional<ExecutorFailure> KernelExecutor::failure() const {
  if (hasLeft_.load(std::memory_order_acquire)) return {};
  const Report* const written = report();
  const auto remote = proxy_ ? proxy_->failure() : std::nullopt;
  if (written == nullptr && !remote) return {};
  if (written == nullptr) {
    ExecutorFailure failure(remote->error);
    failure.peer = remote->peer;
    return failure;
  }
  ExecutorFailure failure(
      errorOf(endpoint_.rank(), *written, remote ? std::optional(remote->error) : std::nullopt));
  failure.peer = written->peer;
  failure.operation = completed() + 1;
  failure.bytesArrived = written->bytesArrived;
  failure.callHashes = callHashesOf(written->callHash);
  return failure;
}

}  // namespace tutti::executor::kernel
