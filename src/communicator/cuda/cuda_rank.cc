#include "src/communicator/cuda/cuda_rank.h"

#include <algorithm>
#include <utility>

#include "src/base/backoff.h"
#include "src/base/log.h"
#include "src/device/cuda.h"
#include "src/device/cuda/guards.h"

namespace tutti::communicator {

using device::OnDevice;
using device::OutsideCapture;

CudaRank::CudaRank(const Options& options) : options_(options) {}

void CudaRank::own(BlockShare share, CudaMemory memory) {
  share_ = std::move(share);
  memory_ = std::move(memory);
  CudaRanks::ofProcess().add(*this);
}

CudaRank::~CudaRank() {
  if (!memory_.executor) return;
  CudaRanks::ofProcess().remove(*this);
  try {
    const OnDevice on(device());
    const OutsideCapture outside;
    leave();
    executor().giveBlocks();
    giveBlocks();
    CudaRanks::ofProcess().free(std::move(memory_));
  } catch (const std::exception& e) {
    base::log(LogLevel::Error, "rank ", rank(), " leaves ", toString(options_.device), ": ",
              e.what());
  }
  giveBlocks();
}

void CudaRank::giveBlocks() {
  if (std::exchange(share_, {}).count > 0) BlockShares::ofProcess().give(facts().group, device());
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
StreamIdentity CudaRank::identityOf(StreamRef stream) const {
  const OnDevice on(device());
  const cudaStream_t handle = stream.cuda();
  const uint64_t capture = captureOf(handle);
  if (options_.isAlone)
    return {reinterpret_cast<uintptr_t>(this), capture};  // it shares with nobody
  if (capture == 0 || handle == cudaStreamPerThread) return {streamId(handle), capture};
  return {reinterpret_cast<uintptr_t>(handle), capture};
}

bool CudaRank::isIdle() const {
  const OutsideCapture outside;
  return device::hasEnded(order_.last());
}

void CudaRank::awaitPeers() const { CudaRanks::ofProcess().awaitQuiet(facts().group); }

void CudaRank::allowPeers(const void* data, size_t bytes) const {
  device::allowPeers(data, bytes, device(), options_.otherDevices);
}

void CudaRank::abort() {
  aborted_.store(true, std::memory_order_release);
  executor().abort();
}

bool CudaRank::hasLostCalls() const {
  return hasDiscarded_ || !isIdle() || memory_.executor->failure();
}

bool CudaRank::discard() {
  if (!hasDiscarded_ && executor().discard()) hasDiscarded_ = true;
  return hasDiscarded_;
}

void CudaRank::leave() {
  if (hasLeft_.exchange(true, std::memory_order_acq_rel)) return;
  const OnDevice on(device());
  const OutsideCapture outside;
  executor().leave();
  for (base::Backoff backoff(false); !hasDiscarded_ && !isIdle(); backoff.idle())
    executor().watch();
}

bool CudaRank::isBusy() {
  if (hasDiscarded_) return executor().isRunning();
  return !isIdle() || (hasGraphs() && executor().isRunning());
}

std::unique_lock<std::mutex> CudaRank::turn() {
  return share_.shared ? share_.shared->turn() : std::unique_lock<std::mutex>();
}

void CudaRank::before(const RankLaunch& launch) {
  const OnDevice on(device());  // whose default stream it may be
  const cudaStream_t stream = launch.operation.stream.cuda();
  for (const StreamRef joined : launch.joined) {
    TUTTI_CUDA(cudaEventRecord(joined_.get(), joined.cuda()));
    TUTTI_CUDA(cudaStreamWaitEvent(stream, joined_.get()));
  }
  order_.before(stream, launch.capture);
  if (share_.shared) share_.shared->order().before(stream, launch.capture);
}

void CudaRank::after(const RankLaunch& launch, uint64_t calls) {
  const OnDevice on(device());
  const cudaStream_t stream = launch.operation.stream.cuda();
  if (launch.capture != 0) graphs_.add(stream);
  if (share_.shared) share_.shared->order().after(stream, launch.capture);
  // The last of it on this stream, so that who is idle by it has left nothing there.
  const cudaEvent_t event = order_.after(stream, launch.capture);
  for (const StreamRef joined : launch.joined)
    TUTTI_CUDA(cudaStreamWaitEvent(joined.cuda(), event));
  launched_.fetch_add(calls, std::memory_order_relaxed);
}

namespace {

/// One of a launch's ranks, with a call of it.
struct DescribedPart {
  const RankLaunch& launch;
  uint64_t calls;
  CudaRank& rank() const { return static_cast<CudaRank&>(*launch.rank); }
};

std::vector<DescribedPart> partsOf(std::span<const RankLaunch> launches) {
  std::vector<DescribedPart> parts;
  for (const RankLaunch& launch : launches) {
    const auto same = [&](const DescribedPart& part) { return part.launch.rank == launch.rank; };
    if (const auto known = std::ranges::find_if(parts, same); known != parts.end())
      ++known->calls;
    else
      parts.push_back({launch, 1});
  }
  return parts;
}

void after(const DescribedPart& part) { part.rank().after(part.launch, part.calls); }

// What was enqueued is waited for, by every rank. CUDA has refused a call, and may refuse these.
void afterFailure(const DescribedPart& part) {
  try {
    after(part);
  } catch (const Error& error) {
    base::log(LogLevel::Error, "rank ", part.rank().rank(),
              " cannot wait for what is left of a launch that failed: ", error.what());
  }
}

}  // namespace

void launchOnGpu(std::span<const RankLaunch> launches) {
  const std::vector<DescribedPart> parts = partsOf(launches);
  std::vector<executor::GpuLaunch> operations;
  for (const RankLaunch& launch : launches) operations.push_back(launch.operation);
  const auto launching = CudaRanks::ofProcess().launching();
  // Who takes turns is the only rank of its communicator on its device: no two are held.
  const auto turn = parts.front().rank().turn();
  for (const DescribedPart& part : parts) part.rank().before(part.launch);
  size_t ended = 0;
  try {
    parts.front().rank().executor().launch(operations);
    for (; ended < parts.size(); ++ended) after(parts[ended]);
  } catch (const Error&) {
    for (; ended < parts.size(); ++ended) afterFailure(parts[ended]);
    throw;
  }
}

}  // namespace tutti::communicator
