// Events of CUDA, without times, which would slow them down.

#include <cuda_runtime_api.h>

#include <atomic>

#include "src/base/check.h"
#include "src/base/process.h"
#include "src/device/cuda.h"
#include "src/device/cuda/check.h"
#include "src/device/cuda/guards.h"

namespace tutti::device {
namespace {

class CudaEvent final : public AnyEvent {
 public:
  explicit CudaEvent(int device) : device_(device) {
    const OnDevice here(device_);
    TUTTI_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  }
  ~CudaEvent() override {
    if (!guard_.inForkedChild()) cudaEventDestroy(event_);
  }
  void record(StreamRef stream) override {
    guard_.requireOwner("Event::record");
    requireCuda("Event::record", stream);
    TUTTI_REQUIRE(stream.device().index == device_, "Event::record: the event is of ", name(),
                  ", and the stream of ", toString(stream.device()));
    const OnDevice here(device_);
    const bool willBeCaptured = isCapturing(stream.cuda());
    TUTTI_CUDA(cudaEventRecord(event_, stream.cuda()));
    isCaptured_ = willBeCaptured;
  }
  void wait(StreamRef stream) override {
    if (!stream) return synchronize();
    guard_.requireOwner("Event::wait");
    requireCuda("Event::wait", stream);
    const OnDevice here(stream.device().index);
    TUTTI_CUDA(cudaStreamWaitEvent(stream.cuda(), event_, cudaEventWaitDefault));
  }
  void synchronize() override {
    guard_.requireOwner("Event::synchronize");
    requireNoCapture("Event::synchronize");
    const OnDevice here(device_);
    const OutsideCapture relaxed;
    TUTTI_CUDA(cudaEventSynchronize(event_));
  }
  bool query() const override {
    guard_.requireOwner("Event::query");
    requireNoCapture("Event::query");
    const OnDevice here(device_);
    const OutsideCapture relaxed;
    return hasEnded(event_);
  }

 private:
  /// CUDA would end the capture, in every mode; it has nothing to say afterwards either.
  void requireNoCapture(const char* call) const {
    if (isCaptured_)
      base::fail(ErrorCode::InvalidUsage, call, ": the event of ", name(),
                 " was recorded in a stream that was captured into a graph: nothing reaches it");
  }
  std::string name() const { return toString(Device{DeviceKind::Cuda, device_}); }
  void requireCuda(const char* call, StreamRef stream) const {
    TUTTI_REQUIRE(stream.isCuda(), call, ": the event is of ", name(), ", and the stream ",
                  stream ? "of the host" : "is none");
  }

  const int device_;
  const base::ProcessGuard guard_;
  cudaEvent_t event_ = nullptr;
  std::atomic<bool> isCaptured_{false};  // by the newest record
};

}  // namespace

void recordCudaEvent(CUevent_st* event, StreamRef stream) {
  const OnDevice here(stream.device().index);
  // Streams outside of the graph may wait for it.
  TUTTI_CUDA(cudaEventRecordWithFlags(
      event, stream.cuda(),
      isCapturing(stream.cuda()) ? cudaEventRecordExternal : cudaEventRecordDefault));
}

std::unique_ptr<AnyEvent> makeCudaEvent(int device) { return std::make_unique<CudaEvent>(device); }

}  // namespace tutti::device
