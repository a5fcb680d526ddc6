#pragma once

// The streams of a rank's lanes, and the events by which they branch off the caller's and come
// back.

#include <cuda_runtime_api.h>

#include <utility>
#include <vector>

#include "src/device/cuda/check.h"

namespace tutti::executor::copy {

/// Of the device that is current when it is made.
class OwnedEvent {
 public:
  OwnedEvent() { TUTTI_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~OwnedEvent() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  OwnedEvent(OwnedEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  OwnedEvent& operator=(OwnedEvent&&) = delete;
  void record(cudaStream_t stream) const { TUTTI_CUDA(cudaEventRecord(event_, stream)); }
  void holdBack(cudaStream_t stream) const { TUTTI_CUDA(cudaStreamWaitEvent(stream, event_, 0)); }

 private:
  cudaEvent_t event_ = nullptr;
};

/// One lane runs in the caller's stream itself. The device is current in all calls.
class LaneStreams {
 public:
  LaneStreams() = default;
  ~LaneStreams() {
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  }
  LaneStreams(const LaneStreams&) = delete;
  LaneStreams& operator=(const LaneStreams&) = delete;

  /// At set-up: so many there are from now on.
  void require(size_t lanes) {
    while (lanes > 1 && streams_.size() < lanes) {
      cudaStream_t stream = nullptr;
      TUTTI_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      streams_.push_back(stream);
      ends_.emplace_back();
    }
  }
  /// Streams that go on from where the caller's is.
  std::vector<cudaStream_t> fork(cudaStream_t caller, size_t lanes) const {
    if (lanes <= 1) return {caller};
    begin_.record(caller);
    for (size_t i = 0; i < lanes; ++i) begin_.holdBack(streams_[i]);
    return {streams_.begin(), streams_.begin() + static_cast<std::ptrdiff_t>(lanes)};
  }
  /// The caller's goes on behind them all.
  void join(cudaStream_t caller, size_t lanes) const {
    for (size_t i = 0; i < lanes && lanes > 1; ++i) {
      ends_[i].record(streams_[i]);
      ends_[i].holdBack(caller);
    }
  }

 private:
  std::vector<cudaStream_t> streams_;
  std::vector<OwnedEvent> ends_;
  OwnedEvent begin_;
};

}  // namespace tutti::executor::copy
