#pragma once

// The reads that an operation makes of other ranks' memory, and what it does when one fails: the
// peer has died or its operation has failed, and the news is on its way, for which the operation
// waits. If none comes, the memory cannot be read for another reason.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/clock.h"
#include "transports/connection.h"

namespace tutti::executor {

class AttachedReads {
 public:
  /// Of one read of each operand. Of one that is not folded as long as may be: a read takes time of
  /// its own. Of several in a fold all stay in a core's own cache, and a read still takes most of
  /// its time for its bytes. Holds whole elements.
  static constexpr uint64_t pieceBytes(uint64_t operands, bool areFolded) {
    constexpr uint64_t kMost = 64 << 20, kTogether = 256 << 10, kLeast = 32 << 10, kAlignment = 64;
    if (!areFolded) return kMost;
    return std::max(kLeast, kTogether / operands / kAlignment * kAlignment);
  }

  /// Starts over.
  void begin(transports::Endpoint* endpoint) {
    endpoint_ = endpoint;
    waitsUntil_.reset();
    waitingFor_ = -1;
  }
  /// False: to be tried again at another poll. Throws System, naming the peer and the memory, when
  /// it has failed for seconds.
  bool read(int peer, uint64_t address, std::byte* to, uint64_t bytes);
  /// The peer whose memory could not be read last; -1 after a read that was done.
  int waitingFor() const { return waitingFor_; }
  /// Room for so many bytes of what is read before it is folded. It keeps the largest.
  std::byte* room(uint64_t bytes) {
    if (room_.size() < bytes) room_.resize(bytes);
    return room_.data();
  }

 private:
  transports::Endpoint* endpoint_ = nullptr;
  std::vector<std::byte> room_;
  std::optional<base::Deadline> waitsUntil_;
  int waitingFor_ = -1;
};

}  // namespace tutti::executor
