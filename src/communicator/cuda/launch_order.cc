#include "src/communicator/cuda/launch_order.h"

#include <algorithm>
#include <atomic>

#include "src/device/cuda/check.h"

namespace tutti::communicator {
namespace {

/// Of numbers of threads; CUDA counts its streams from 1.
constexpr uint64_t kOfThreads = uint64_t{1} << 63;

}  // namespace

OrderEvent::OrderEvent() { TUTTI_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
OrderEvent::~OrderEvent() { cudaEventDestroy(event_); }

uint64_t streamId(cudaStream_t stream) {
  static std::atomic<uint64_t> threads{0};
  static thread_local const uint64_t ofThisThread = ++threads | kOfThreads;
  if (stream == cudaStreamPerThread) return ofThisThread;
  unsigned long long id = 0;
  TUTTI_CUDA(cudaStreamGetId(stream, &id));
  return id;
}

LaunchOrder::Captured* LaunchOrder::lastOf(uint64_t capture) {
  const auto found = std::ranges::find(captured_, capture, &Captured::capture);
  return found == captured_.end() ? nullptr : &*found;
}

// What a replay is to wait for is what was launched, or replayed, when it begins, and not when it
// was captured.
void LaunchOrder::before(cudaStream_t stream, uint64_t capture) {
  if (capture == 0) {
    if (lastStream_ && *lastStream_ != streamId(stream))
      TUTTI_CUDA(cudaStreamWaitEvent(stream, last_.get()));
    if (wasCaptured_) TUTTI_CUDA(cudaStreamWaitEvent(stream, replayed_.get()));
    return;
  }
  if (const Captured* const last = lastOf(capture)) {
    if (last->stream != stream) TUTTI_CUDA(cudaStreamWaitEvent(stream, last->event.get()));
    return;
  }
  for (const OrderEvent* outside : {&last_, &replayed_})
    TUTTI_CUDA(cudaStreamWaitEvent(stream, outside->get(), cudaEventWaitExternal));
}

cudaEvent_t LaunchOrder::after(cudaStream_t stream, uint64_t capture) {
  if (capture == 0) {
    lastStream_ = streamId(stream);
    TUTTI_CUDA(cudaEventRecord(last_.get(), stream));
    return last_.get();
  }
  wasCaptured_ = true;
  Captured* last = lastOf(capture);
  if (!last) {
    last = &*std::ranges::min_element(captured_, {}, &Captured::used);
    last->capture = capture;
    last->record = {};
  }
  last->used = ++used_;
  last->stream = stream;
  TUTTI_CUDA(cudaEventRecord(last->event.get(), stream));
  last->record.move(stream, replayed_.get());
  return last->event.get();
}

}  // namespace tutti::communicator
