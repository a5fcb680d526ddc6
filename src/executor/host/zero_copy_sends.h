#pragma once

// Messages that an operation sends from user memory, where the transport can. The operation is not
// done before all of that memory was returned.

#include <cstdint>
#include <vector>

#include "transports/connection.h"

namespace tutti::executor {

class ZeroCopySends {
 public:
  /// Below that, transports copy at once what they are given.
  static constexpr uint64_t kLeastBytes = 2048;

  void publishZeroCopy(int peer, transports::SendRing& ring, const std::byte* data,
                       uint32_t callHash, uint32_t operation, uint32_t bytes) {
    ring.publishZeroCopy(data, callHash, operation, bytes);
    for (Unfinished& each : unfinished_)
      if (each.ring == &ring) {
        each.message = ring.sent();
        return;
      }
    unfinished_.push_back({&ring, ring.sent(), peer});
  }

  /// Forgets what was returned; true when that is all.
  bool completed() {
    std::erase_if(unfinished_,
                  [](const Unfinished& each) { return each.ring->completed(each.message); });
    return unfinished_.empty();
  }
  /// A rank that something is on its way to; not when returned().
  int peer() const { return unfinished_.front().peer; }
  /// Of an operation that failed.
  void forget() { unfinished_.clear(); }

 private:
  /// The last message of a ring; those before it are returned before.
  struct Unfinished {
    transports::SendRing* ring;
    uint32_t message;
    int peer;
  };
  std::vector<Unfinished> unfinished_;
};

}  // namespace tutti::executor
