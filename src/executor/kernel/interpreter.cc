#include "src/executor/kernel/interpreter.h"

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

uint32_t DevicePlan::blocks(uint32_t slices) const {
  return ceilDivide(lanes_ * slices, ceilDivide(lanes_ * slices, mostBlocks_));
}

size_t slotBytesOfSlices(const plan::PlanSpec& spec, size_t slotBytes, uint32_t slices) {
  if (spec.messageChunks == 0 || slices == 1) return slotBytes;
  return slices * spec.messageChunks * mostChunkBytes(spec, slotBytes);
}

Interpreter::Interpreter(transports::p2p::P2pEndpoint& endpoint, Residency& residency,
                         const InterpreterOptions& options,
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
Interpreter::~Interpreter() {
  if (failure()) abort();
  proxy_.reset();
  giveBlocks();
}

void Interpreter::giveBlocks() {
  if (std::exchange(hasBlocks_, false)) residency_.release(endpoint_.device(), options_.blocks);
}

std::unique_ptr<DevicePlan> Interpreter::prepare(const plan::PlanSpec& spec,
                                                 const plan::Program& program) {
  auto plan = std::make_unique<DevicePlan>();
  plan->spec_ = spec;
  auto image = encode(spec, program, endpoint_.rank());
  const auto& header = *reinterpret_cast<const ProgramHeader*>(image.data());
  plan->lanes_ = header.lanes;
  plan->mostPorts_ = header.mostPorts;
  plan->mostBlocks_ = options_.blocks;
  plan->isOneShot_ = isOneShot(spec, program, endpoint_.rank());
  for (int peer = 0; peer < endpoint_.size(); ++peer)
    if (endpoint_.isThroughHost(peer)) plan->isOneShot_ = false;
  const uint32_t mostLanes = std::min(kMostLanes, kMostLanesPerBlock * options_.blocks);
  TUTTI_REQUIRE(plan->lanes_ <= mostLanes, spec.describe(), " has ", plan->lanes_, " lanes, and ",
                options_.blocks, " blocks hold ", kMostLanesPerBlock, " each");
  for (int peer = 0; peer < endpoint_.size() && spec.mapped.any(); ++peer)
    TUTTI_REQUIRE(endpoint_.sharesProcess(peer), spec.describe(), " maps buffers of rank ", peer,
                  ", which is another process");
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

std::shared_ptr<const ProgramImage> Interpreter::imageOf(std::vector<unsigned char> bytes) {
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

void Interpreter::finishSending() {
  if (proxy_) proxy_->finish();
}

uint64_t Interpreter::completed() const {
  return std::atomic_ref(counts_.data()->completed).load(std::memory_order_acquire);
}

uint32_t Interpreter::collectives() const {
  return std::atomic_ref(counts_.data()->collectives).load(std::memory_order_relaxed);
}

// What ends between the two loads has ended.
Interpreter::UnderWay Interpreter::underWay() const {
  const uint64_t begun = std::atomic_ref(counts_.data()->begun).load(std::memory_order_acquire);
  if (begun / 2 <= completed() || report() != nullptr) return UnderWay::Nothing;
  return begun % 2 != 0 ? UnderWay::Collective : UnderWay::Exchange;
}

bool Interpreter::isRunning() const {
  const uint64_t begun = std::atomic_ref(counts_.data()->begun).load(std::memory_order_acquire);
  return begun / 2 > completed() &&
         std::atomic_ref(counts_.data()->failed).load(std::memory_order_acquire) == 0;
}

void Interpreter::abort() {
  uint32_t none = 0;
  std::atomic_ref(*stopWord_.data())
      .compare_exchange_strong(none, stopWord(StopReason::Aborted, -1), std::memory_order_acq_rel);
}

// By a word in the device's memory, which is at hand where a call begins.
bool Interpreter::discard() {
  const device::OutsideCapture outside;
  const OnDevice on(endpoint_.device());
  TUTTI_CUDA(cudaMemcpyAsync(&endpoint_.words()->discarded, stopWord_.data(), sizeof(uint32_t),
                             cudaMemcpyHostToDevice, setup_.get()));
  if (!setup_.wait(kDiscarding)) return false;
  std::this_thread::sleep_for(kHasBegun);
  return true;
}

const Report* Interpreter::report() const {
  Report& report = *report_.data();
  const bool isWritten = std::atomic_ref(report.written).load(std::memory_order_acquire) != 0;
  return isWritten ? &report : nullptr;
}

std::optional<Error> Interpreter::failure() const {
  const Report* const written = report();
  const auto remote = remoteFailure();
  if (written != nullptr)
    return errorOf(endpoint_.rank(), *written,
                   remote ? std::optional(remote->error) : std::nullopt);
  if (!remote) return {};
  return Error(remote->error.code(),
               base::message("rank ", endpoint_.rank(), ": ", remote->error.what()));
}

std::optional<RemoteFailure> Interpreter::remoteFailure() const {
  return proxy_ ? proxy_->failure() : std::nullopt;
}

}  // namespace tutti::executor::kernel
