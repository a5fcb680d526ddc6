#include "src/communicator/cuda/gpu_side.h"

#include <unistd.h>

#include <algorithm>
#include <random>

#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/base/env.h"
#include "src/base/log.h"
#include "src/communicator/cuda/block_shares.h"
#include "src/communicator/cuda/cuda_sides.h"
#include "src/communicator/cuda/wires.h"
#include "src/device/cuda.h"
#include "src/device/cuda/guards.h"
#include "src/device/cuda/library_stream.h"
#include "src/device/cuda/virtual_memory.h"

namespace tutti::communicator {
namespace {

using device::OnDevice;
using device::OutsideCapture;
using transports::p2p::P2pEndpoint;
using transports::p2p::P2pHandles;
using transports::p2p::P2pLayout;

/// Of a rank's slots by the simple wire; those of LL and LL128 take as much again at most.
constexpr size_t kSlotsBytes = 16 << 20;
constexpr uint32_t kSlots = 4;
constexpr size_t kMostSlotBytes = 128 << 10, kLeastSlotBytes = 4 << 10;
/// Messages to other hosts that do not pass through this one's memory, where UCX can: fetching one
/// costs a round trip more, and what is shorter gains nothing. Not measured.
constexpr uint32_t kLeastDirectBytes = 8192;
constexpr uint64_t kProbeDeadlineNs = 10'000'000'000;

/// Two channels, as every plan has at most, for each of the slices that a large device works on.
int channelsOf(int device) {
  int processors = 0;
  TUTTI_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  int slices = 1;
  while (slices < 16 && 16 * slices <= processors) slices *= 2;
  return 2 * slices;
}

P2pLayout layoutFor(int device, int size) {
  const int channels = channelsOf(device);
  const size_t rings = static_cast<size_t>(std::max(size - 1, 1)) * static_cast<size_t>(channels);
  size_t slotBytes = kMostSlotBytes;
  while (slotBytes > kLeastSlotBytes && rings * kSlots * slotBytes > kSlotsBytes) slotBytes /= 2;
  return {.rings = {.channels = channels, .slotCount = kSlots, .slotBytes = slotBytes},
          .lowLatencyBytes = std::min<size_t>(slotBytes, 8192)};
}

/// Slots for copies alone: each message costs some calls, so that large ones are worth their
/// memory.
P2pLayout copyLayoutFor(int size) {
  constexpr int kChannels = 2;
  constexpr size_t kBytes = 64 << 20, kMost = 1 << 20, kLeast = 64 << 10;
  const size_t rings = static_cast<size_t>(std::max(size - 1, 1)) * kChannels;
  size_t slotBytes = kMost;
  while (slotBytes > kLeast && rings * kSlots * slotBytes > kBytes) slotBytes /= 2;
  return {.rings = {.channels = kChannels, .slotCount = kSlots, .slotBytes = kLeastSlotBytes},
          .lowLatencyBytes = kLeastSlotBytes,
          .copySlotBytes = slotBytes};
}

/// Of a call by copies, of one of so many ranks that this process has on a device. They may share
/// queues among each other, but not with those of another rank, that waits for them: several ranks
/// have no streams beside the callers'. Two queues are left to the program.
size_t streamsOf(uint32_t ranks) {
  const auto queues = static_cast<size_t>(base::env().gpuQueues);
  return ranks > 1 || queues <= 3 ? 1 : queues - 2;
}

/// No other side of any process has it, as far as chance goes.
uint64_t newNumber() {
  std::random_device random;
  return static_cast<uint64_t>(random()) << 32 | random();
}

/// This process. Those of other hosts may have the same id, but not the same number.
Process thisProcess() {
  static const uint64_t number = newNumber();
  return {getpid(), number};
}

Device checked(Device device) {
  device::requireCudaDevice(device.index);
  return device;
}

std::unique_ptr<P2pEndpoint> makeLocalEndpoint(const GpuSide::Options& options,
                                               const P2pLayout& layout) {
  const int device = options.device.index;
  P2pHandles handles = P2pHandles::Ipc;
  if (options.hasOtherProcesses) {
    if (!base::env().gpuIpc && device::VirtualMemory::isSupported(device))
      handles = P2pHandles::Descriptors;
    base::log(LogLevel::Info, "rank ", options.rank, " on ", toString(options.device),
              ": other processes get at its memory by ",
              handles == P2pHandles::Descriptors ? "descriptors" : "CUDA's IPC handles");
  }
  return std::make_unique<P2pEndpoint>(device, options.rank, options.size, layout, 0, handles);
}

}  // namespace

CudaSide::CudaSide(const Options& options)
    : options_(options),
      number_(newNumber()),
      endpoint_(makeLocalEndpoint(options, layoutFor(checked(options.device).index, options.size))),
      peers_(static_cast<size_t>(options.size)) {
  peers_[options.rank] = {thisProcess(), options.device.index};
  if (std::ranges::find(options.isRemote, true) != options.isRemote.end())
    remote_ = options.makeRemote(executor::kernel::remoteLayout(endpoint_->layout()));
  state_.byCopies = options.byCopies && !remote_;
  if (options.rank == 0) group_ = number_;
}

CudaSide::~CudaSide() {
  CudaSides::ofProcess().remove(*this);
  endProbe();
  try {
    const OnDevice on(device());
    const OutsideCapture outside;
    leave();
    if (engine_) engine_->giveBlocks();
    giveBlocks();
    CudaSides::ofProcess().free({.device = device(),
                                 .probeIsOver = std::move(probeIsOver_),
                                 .endpoint = std::move(endpoint_),
                                 .before = std::move(before_),
                                 .copyProbe = std::move(copyProbe_),
                                 .remote = std::move(remote_),
                                 .engine = std::move(engine_)});
  } catch (const std::exception& e) {
    base::log(LogLevel::Error, "rank ", rank(), " leaves ", toString(options_.device), ": ",
              e.what());
  }
  giveBlocks();
}

void CudaSide::giveBlocks() {
  if (std::exchange(share_, {}).count > 0) BlockShares::ofProcess().give(group_, device());
}

transports::EndpointAddress CudaSide::address(int peer) {
  transports::EndpointAddress own = isRemote(peer) ? remote_->address(peer) : endpoint_->address();
  own.blob = base::ByteWriter()
                 .put(thisProcess().id)
                 .put(thisProcess().number)
                 .put(static_cast<int32_t>(device()))
                 .put(number_)
                 .put(static_cast<uint8_t>(options_.reachesGpus))
                 .put(own.blob)
                 .take();
  return own;
}

void CudaSide::connect(int peer, const transports::EndpointAddress& address) {
  base::ByteReader in(address.blob);
  peers_[peer].process.id = in.get<int64_t>("process");
  peers_[peer].process.number = in.get<uint64_t>("number of its process");
  peers_[peer].device = in.get<int32_t>("device");
  const auto number = in.get<uint64_t>("number");
  if (peer == 0) group_ = number;
  const bool reachesGpus = in.get<uint8_t>("reach of its network") != 0;
  const base::Bytes endpoint = in.getBytes("endpoint");
  in.requireEnd();
  const OutsideCapture outside;
  if (isRemote(peer)) return connectRemote(peer, endpoint, reachesGpus);
  endpoint_->connect(peer, endpoint, address.descriptors);
  if (!endpoint_->isConnected(peer)) state_.add(peer, endpoint_->reason(peer));
  state_.byCopies |= endpoint_->takesTurns(peer);
}

// Both ends come to the same. The peer sends nothing before it has heard this rank's state.
void CudaSide::connectRemote(int peer, const base::Bytes& address, bool reachesGpus) {
  peers_[peer].isDirect = options_.reachesGpus && reachesGpus;
  remote_->connect(peer, {address, {}});
  peers_[peer].remote = remote_->name(peer);
  endpoint_->connectThroughHost(
      peer, peers_[peer].isDirect ? kLeastDirectBytes : transports::p2p::kNoMessage);
  executor::kernel::goDirect(*endpoint_, *remote_, peer);
}

void CudaSide::logWays() const {
  const auto remote = std::ranges::count(options_.isRemote, true);
  const auto direct = std::ranges::count(peers_, true, &Neighbour::isDirect);
  if (remote == 0) return;
  base::log(LogLevel::Info, "rank ", rank(), " on ", toString(options_.device), ": with ", direct,
            " of ", remote, " ranks on other hosts UCX sends messages of ", kLeastDirectBytes,
            " bytes and more from GPU to GPU; all others go through pinned memory");
}

std::string CudaSide::describe(int peer) const {
  const Neighbour& it = peers_[peer];
  std::string text = "on " + toString(Device{DeviceKind::Cuda, it.device});
  if (peer == rank()) return text;
  if (!isRemote(peer)) return text + (byCopies() ? " by p2p, with copies" : " by p2p");
  return text + " by " + it.remote +
         (it.isDirect ? ", from GPU to GPU" : ", through pinned memory");
}

bool CudaSide::canMap() const {
  if (byCopies()) return false;
  for (int peer = 0; peer < options_.size; ++peer)
    if (!isInThisProcess(peer)) return false;
  return true;
}

// In this process or another: their kernels wait for each other here.
uint32_t CudaSide::ranksHere() const {
  return static_cast<uint32_t>(std::ranges::count_if(peers_, [&](const Neighbour& peer) {
    return peer.process == thisProcess() && peer.device == device();
  }));
}

const GpuState& CudaSide::state() {
  if (share_.count > 0 || byCopies()) return state_;
  const OnDevice on(device());
  const OutsideCapture outside;
  const uint32_t wanted = options_.mostBlocks ? options_.mostBlocks : wantedBlocks(ranksHere());
  share_ = BlockShares::ofProcess().take(group_, device(), ranksHere(), wanted);
  state_.blocks = std::min(share_.count, wanted);  // a rank that came earlier may have wanted more
  if (share_.count == 0)
    state_.add(rank(),
               base::message("no blocks are left on ", toString(options_.device), ", which holds ",
                             BlockShares::ofProcess().residency().capacity(device()),
                             " at the same time: this communicator's other ranks there, or other "
                             "communicators, have "
                             "them"));
  fewestBlocks_ = std::min(fewestBlocks_, state_.blocks);
  return state_;
}

std::vector<base::FileDescriptor> CudaSide::descriptors() {
  if (state_.address.empty()) return {};
  return endpoint_->address().descriptors;
}

void CudaSide::hear(int peer, const ToldGpuState& told) {
  const GpuState& theirs = told.state;
  fewestBlocks_ = std::min(fewestBlocks_, theirs.blocks);
  state_.byCopies |= theirs.byCopies;
  if (!theirs.address.empty() && !endpoint_->isConnected(peer)) {
    const OutsideCapture outside;
    endpoint_->connect(peer, theirs.address, told.descriptors);
    if (!endpoint_->isConnected(peer)) state_.add(peer, endpoint_->reason(peer));
  }
  for (const auto& [other, fault] : theirs.faults)
    state_.add(peer, base::message("rank ", peer, other == peer ? ": " : " with rank ",
                                   other == peer ? "" : std::to_string(other) + ": ", fault));
}

// Memory that peers have opened is freed when they have closed it.
void CudaSide::rejoin() {
  const OutsideCapture outside;
  giveBlocks();
  if (remote_)
    return state_.add(rank(),
                      "ranks of several processes share a GPU, and others are on other hosts: "
                      "kernels are needed for these, and may not wait for each other there");
  for (int peer = 0; peer < options_.size; ++peer)
    if (peer != rank()) endpoint_->disconnect(peer, "it is joined for copies");
  before_ = std::move(endpoint_);
  endpoint_ = makeLocalEndpoint(options_, copyLayoutFor(options_.size));
  state_.address = endpoint_->address().blob;
}

void CudaSide::startProbe() {
  const OutsideCapture outside;
  if (byCopies())
    copyProbe_ = std::make_unique<executor::copy::CopyProbe>(*endpoint_, 1);
  else
    endpoint_->startProbe(1, kProbeDeadlineNs, probeIsOver_->data());
}

// A peer that fails meanwhile writes no pattern.
void CudaSide::endProbe() {
  std::atomic_ref(*probeIsOver_->data()).store(1, std::memory_order_relaxed);
}

void CudaSide::finishProbe() {
  const OutsideCapture outside;
  const auto found = copyProbe_ ? copyProbe_->finish() : endpoint_->finishProbe();
  for (size_t peer = 0; peer < found.size(); ++peer)
    if (!found[peer].empty()) state_.add(static_cast<int>(peer), found[peer]);
  // Not earlier: that waits for what runs on the GPU, which may wait for this rank.
  copyProbe_.reset();
  before_.reset();
}

// Also of kernels: ranks that call by streams of their own wait for each other there.
void CudaSide::warnOfFewQueues() const {
  const uint32_t ranks = ranksHere();
  if (ranks <= base::env().gpuQueues) return;
  base::log(LogLevel::Warning, "this process has ", ranks, " ranks of a communicator on ",
            toString(options_.device), ", whose streams share ", base::env().gpuQueues,
            " queues: calls on streams of their own may wait for each other for ever, unless "
            "CUDA_DEVICE_MAX_CONNECTIONS is ",
            ranks, " or more");
}

void CudaSide::makeReady() {
  const OutsideCapture outside;
  logWays();
  isAlone_ = ranksHere() == 1;
  if (rank() == 0) warnOfFewQueues();
  std::vector<int> devices;
  for (const Neighbour& peer : peers_) {
    devices.push_back(peer.device);
    if (peer.device != device() &&
        std::ranges::find(otherDevices_, peer.device) == otherDevices_.end())
      otherDevices_.push_back(peer.device);
  }
  const uint64_t deadlineNs = static_cast<uint64_t>(options_.timeoutMs) * 1'000'000;
  engine_ = byCopies()
                ? makeCopyEngine(*endpoint_, deadlineNs, streamsOf(ranksHere()))
                : makeKernelEngine(*endpoint_,
                                   {.blocks = fewestBlocks_,
                                    .reservesBlocks = !share_.shared,
                                    .deadlineNs = deadlineNs},
                                   canMap() && linesArriveWhole(devices), std::move(remote_));
  // So that copies that a thread waits for make no stream beside calls that run.
  device::sharedStream(device::StreamPurpose::Copies, options_.device.index);
  CudaSides::ofProcess().add(*this);
  ready_.store(engine_.get(), std::memory_order_seq_cst);
  if (aborted_.load(std::memory_order_seq_cst)) engine_->abort();
}

std::unique_ptr<GpuPlan> CudaSide::prepare(const plan::PlanSpec& spec,
                                           const plan::ProgramOf& programOf) {
  const OutsideCapture outside;
  return engine_->prepare(spec, programOf);
}

namespace {

/// That of a capture that has failed: nothing can be launched into it.
constexpr uint64_t kFailedCapture = ~uint64_t{0};

/// 0 where the stream is not being captured. The device is current, whose default stream it may be.
uint64_t captureOf(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  TUTTI_CUDA(cudaStreamGetCaptureInfo(stream, &status, &id));
  if (status == cudaStreamCaptureStatusNone) return 0;
  return status == cudaStreamCaptureStatusActive ? id : kFailedCapture;
}

}  // namespace

// To ask a stream for its id while it is captured ends the capture. Handles are used again, but of
// the streams of one capture each has its own; only that of the stream that each thread has by
// default is the same for all threads.
StreamIdentity CudaSide::identityOf(StreamRef stream) const {
  const OnDevice on(device());
  const cudaStream_t handle = stream.cuda();
  const uint64_t capture = captureOf(handle);
  if (isAlone_) return {reinterpret_cast<uintptr_t>(this), capture};  // it shares with nobody
  if (capture == 0 || handle == cudaStreamPerThread) return {streamId(handle), capture};
  return {reinterpret_cast<uintptr_t>(handle), capture};
}

bool CudaSide::isIdle() const {
  const OutsideCapture outside;
  return device::hasEnded(order_.last());
}

void CudaSide::awaitPeers() const { CudaSides::ofProcess().awaitQuiet(group_); }

void CudaSide::allowPeers(const void* data, size_t bytes) const {
  device::allowPeers(data, bytes, device(), otherDevices_);
}

void CudaSide::watch() {
  if (GpuEngine* const ready = ready_.load(std::memory_order_acquire)) ready->watch();
}

void CudaSide::leave() {
  if (!engine_ || hasLeft_.exchange(true, std::memory_order_acq_rel)) return;
  const OnDevice on(device());
  const OutsideCapture outside;
  engine_->leave();
  for (base::Backoff backoff(false); !hasDiscarded_ && !isIdle(); backoff.idle()) engine_->watch();
}

bool CudaSide::discard() {
  if (!hasDiscarded_ && engine_->discard()) hasDiscarded_ = true;
  return hasDiscarded_;
}

bool CudaSide::isBusy() {
  if (hasDiscarded_) return isRunning();
  return !isIdle() || (hasGraphs() && isRunning());
}

bool CudaSide::isRunning() {
  return engine_ && !hasLeft_.load(std::memory_order_acquire) && engine_->isRunning();
}

std::optional<uint64_t> CudaSide::underWay() const {
  if (hasLeft_.load(std::memory_order_acquire)) return std::nullopt;
  const GpuEngine* const ready = ready_.load(std::memory_order_acquire);
  return ready ? ready->underWay(launched()) : std::nullopt;
}

uint64_t CudaSide::collectives() const {
  const GpuEngine* const ready = ready_.load(std::memory_order_acquire);
  return ready ? ready->collectives() : 0;
}

int CudaSide::missedLeaver(const std::vector<std::optional<uint64_t>>& leftAfter) const {
  if (hasLeft_.load(std::memory_order_acquire)) return -1;
  const GpuEngine* const ready = ready_.load(std::memory_order_acquire);
  return ready ? ready->missedLeaver(leftAfter) : -1;
}

void CudaSide::abort() {
  aborted_.store(true, std::memory_order_seq_cst);
  endProbe();
  if (GpuEngine* const ready = ready_.load(std::memory_order_seq_cst)) ready->abort();
}

// That it has left is none.
std::optional<GpuFailure> CudaSide::failure() const {
  if (hasLeft_.load(std::memory_order_acquire)) return {};
  const GpuEngine* const ready = ready_.load(std::memory_order_acquire);
  return ready ? ready->failure(launched()) : std::nullopt;
}

std::unique_lock<std::mutex> CudaSide::turn() {
  return share_.shared ? share_.shared->turn() : std::unique_lock<std::mutex>();
}

void CudaSide::before(const GpuLaunch& launch) {
  const OnDevice on(device());  // whose default stream it may be
  const cudaStream_t stream = launch.stream.cuda();
  for (const StreamRef joined : launch.joined) {
    TUTTI_CUDA(cudaEventRecord(joined_.get(), joined.cuda()));
    TUTTI_CUDA(cudaStreamWaitEvent(stream, joined_.get()));
  }
  order_.before(stream, launch.capture);
  if (share_.shared) share_.shared->order().before(stream, launch.capture);
}

void CudaSide::after(const GpuLaunch& launch, uint64_t calls) {
  const OnDevice on(device());
  const cudaStream_t stream = launch.stream.cuda();
  if (launch.capture != 0) graphs_.add(stream);
  if (share_.shared) share_.shared->order().after(stream, launch.capture);
  // The last of it on this stream, so that who is idle by it has left nothing there.
  const cudaEvent_t event = order_.after(stream, launch.capture);
  for (const StreamRef joined : launch.joined)
    TUTTI_CUDA(cudaStreamWaitEvent(joined.cuda(), event));
  launched_.fetch_add(calls, std::memory_order_relaxed);
}

std::unique_ptr<GpuSide> makeGpuSide(const GpuSide::Options& options) {
  const OnDevice on(checked(options.device).index);
  const OutsideCapture outside;
  CudaSides::ofProcess().freeKept();
  return std::make_unique<CudaSide>(options);
}

namespace {

CudaSide& sideOf(const GpuLaunch& rank) { return static_cast<CudaSide&>(*rank.side); }

/// One of a launch's ranks, with a call of it.
struct DescribedPart {
  const GpuLaunch& rank;
  uint64_t calls;
};

std::vector<DescribedPart> partsOf(std::span<const GpuLaunch> calls) {
  std::vector<DescribedPart> parts;
  for (const GpuLaunch& call : calls) {
    const auto same = [&](const DescribedPart& part) { return part.rank.side == call.side; };
    if (const auto known = std::ranges::find_if(parts, same); known != parts.end())
      ++known->calls;
    else
      parts.push_back({call, 1});
  }
  return parts;
}

void after(const DescribedPart& part) { sideOf(part.rank).after(part.rank, part.calls); }

// What was enqueued is waited for, by every rank. CUDA has refused a call, and may refuse these.
void afterFailure(const DescribedPart& part) {
  try {
    after(part);
  } catch (const Error& error) {
    base::log(LogLevel::Error, "rank ", sideOf(part.rank).rank(),
              " cannot wait for what is left of a launch that failed: ", error.what());
  }
}

}  // namespace

GpuEngine& engineOf(const GpuLaunch& rank) { return sideOf(rank).engine(); }

bool mayFollow(std::span<const GpuLaunch> calls, const GpuLaunch& next) {
  return engineOf(next).mayFollow(calls, next);
}

void launchOnGpu(std::span<const GpuLaunch> calls) {
  const std::vector<DescribedPart> parts = partsOf(calls);
  const auto launching = CudaSides::ofProcess().launching();
  // Who takes turns is the only rank of its communicator on its device: no two are held.
  const auto turn = sideOf(calls.front()).turn();
  for (const auto& [rank, count] : parts) sideOf(rank).before(rank);
  size_t ended = 0;
  try {
    engineOf(calls.front()).launch(calls);
    for (; ended < parts.size(); ++ended) after(parts[ended]);
  } catch (const Error&) {
    for (; ended < parts.size(); ++ended) afterFailure(parts[ended]);
    throw;
  }
}

}  // namespace tutti::communicator
