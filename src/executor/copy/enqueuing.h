#pragma once

// An operation of one rank while it is being enqueued, piece by piece. All pieces of an operation,
// over all ranks, have a place in one order, and what a piece waits for is before it. So it does
// not matter how many queues a device has for a rank's streams, nor whether ranks share a stream:
// whoever enqueues in this order never puts something behind a wait that needs it.

#include <cstdint>

namespace tutti::executor::copy {

class Enqueuing {
 public:
  static constexpr uint64_t kEnd = UINT64_MAX;

  virtual ~Enqueuing() = default;
  /// Of the next piece; kEnd: there are no more.
  virtual uint64_t place() const = 0;
  virtual void enqueueNext() = 0;
};

}  // namespace tutti::executor::copy
