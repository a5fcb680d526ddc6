#pragma once

// Launches that have to run one after the other, on whatever streams they are and in whatever
// graphs: those of one rank, and those of communicators that share their blocks.

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <optional>

#include "src/device/cuda/graph.h"

namespace tutti::communicator {

/// An event without times.
class OrderEvent {
 public:
  OrderEvent();  ///< of the current device
  ~OrderEvent();
  OrderEvent(const OrderEvent&) = delete;
  OrderEvent& operator=(const OrderEvent&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Of a stream that is not captured, which has it to itself for the life of the program. The device
/// is current, whose default stream it may be. Of the stream that each thread has by default all
/// threads have the same handle, and none gets a number that another thread has had.
uint64_t streamId(cudaStream_t stream);

/// Of one device. What is launched comes behind all that was before, and so does each replay of
/// what was captured. Within a capture launches come in the order in which they were captured. Not
/// by two threads at the same time; the device is current.
class LaunchOrder {
 public:
  LaunchOrder() = default;  ///< of the current device
  /// To be called before a launch, and after() behind it. `capture`: as of a StreamIdentity.
  void before(cudaStream_t stream, uint64_t capture);
  /// An event for other streams, of the same capture, that are to wait for the launch.
  cudaEvent_t after(cudaStream_t stream, uint64_t capture);
  /// The last launch, not counting what was captured.
  cudaEvent_t last() const { return last_.get(); }

 private:
  /// The last launch of a capture. Nobody tells when one has ended: of so many that which nothing
  /// was captured into for the longest time gives way to another.
  struct Captured {
    uint64_t capture = 0;
    uint64_t used = 0;  // when it was last
    cudaStream_t stream = nullptr;
    OrderEvent event;
    device::RecordNode record;
  };
  static constexpr size_t kCaptures = 8;
  Captured* lastOf(uint64_t capture);

  OrderEvent last_, replayed_;
  std::optional<uint64_t> lastStream_;  // its id
  std::array<Captured, kCaptures> captured_;
  uint64_t used_ = 0;
  bool wasCaptured_ = false;
};

}  // namespace tutti::communicator
