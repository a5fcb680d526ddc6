#pragma once

// The streams of a rank's lanes, and the events by which they branch off the caller's, wait for
// each other and come back. All are there from the beginning: on a GPU making one may wait for
// what runs, and that for another rank.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
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

/// The same of a stream.
class OwnedStream {
 public:
  OwnedStream() { TUTTI_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~OwnedStream() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  OwnedStream(OwnedStream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  OwnedStream& operator=(OwnedStream&&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// What lanes are enqueued on.
struct LaneStream {
  cudaStream_t stream = nullptr;
  const OwnedEvent* reached = nullptr;  ///< for who waits for what the stream has; of several
  void holdBack(cudaStream_t other) const {
    reached->record(stream);
    reached->holdBack(other);
  }
};

/// Where there is one, it is the caller's stream itself. The device is current in all calls.
class LaneStreams {
 public:
  /// An operation has so many at most.
  explicit LaneStreams(size_t most)
      : most_(most), streams_(most > 1 ? most : 0), reached_(streams_.size()) {}

  size_t most() const { return most_; }
  /// `count` of them, which go on from where the caller's is.
  std::vector<LaneStream> fork(cudaStream_t caller, size_t count) const {
    if (count <= 1) return {{caller}};
    begin_.record(caller);
    std::vector<LaneStream> streams;
    for (size_t i = 0; i < count; ++i) {
      begin_.holdBack(streams_[i].get());
      streams.push_back({streams_[i].get(), &reached_[i]});
    }
    return streams;
  }
  /// The caller's goes on behind them all.
  void join(cudaStream_t caller, size_t count) const {
    for (size_t i = 0; i < count && count > 1; ++i)
      LaneStream{streams_[i].get(), &reached_[i]}.holdBack(caller);
  }

 private:
  const size_t most_;
  std::vector<OwnedStream> streams_;
  std::vector<OwnedEvent> reached_;
  OwnedEvent begin_;
};

}  // namespace tutti::executor::copy
