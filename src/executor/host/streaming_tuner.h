#pragma once

// Whether a rank's stores to user memory go past its caches. It is nobody else's business, and the
// better way depends on size and on how far apart the cores happen to be, which virtual machines
// change without notice (docs/decisions/0001-interfaces.md: up to five times either way). So it is
// measured while running: each operation's stores are timed, the better way is kept, and the other
// is tried again now and then, and at once when times jump.

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/plan/plan.h"

namespace tutti::executor {

class StreamingTuner {
 public:
  /// Smaller buffers are always stored through the caches.
  static constexpr uint64_t kLeastBytes = 16384;

  /// How the next operation on `bytes` of user memory is to store. By the protocol, as a mapped
  /// plan stores to other ranks' memory too, and an attached one has others read what it has
  /// stored.
  bool choose(uint64_t bytes, plan::Protocol protocol);
  /// What the operation of the last choose() took for its stores, or nothing when it made none.
  void report(uint64_t nanoseconds);

 private:
  static constexpr size_t kProtocols = 3;

  struct Arm {
    double nanoseconds = 0;  // moving average
    uint32_t samples = 0;
  };
  struct Bucket {
    Arm arms[2];  // through the caches, past them
    uint32_t operations = 0;
    bool doubtful = false;  // the last time was far from the average
  };
  std::array<Bucket, kProtocols * 64> buckets_;
  Bucket* bucket_ = nullptr;
  int arm_ = 0;
};

}  // namespace tutti::executor
