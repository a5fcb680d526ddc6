#pragma once

// Whether ranks ask each other, before a collective, if all buffers of the call are mapped. Where
// they are, the call needs no staging; where they are not, asking has cost time for nothing.

#include <cstdint>

namespace tutti::plan {

/// Of calls alike: each of them asks, until `kPatience` of them in a row have found ordinary
/// memory; then each `kEvery`th does, until one finds mapped buffers again. Answers are the same on
/// all ranks, so that they agree on which calls ask, as long as each counts every such call, in
/// order.
class MappedBufferPolicy {
 public:
  static constexpr uint32_t kPatience = 8, kEvery = 64;

  /// Whether the next call asks.
  bool willAsk() const { return unmapped_ < kPatience || (passed_ + 1) % kEvery == 0; }
  /// The same, and counts the call. One that asks has to tell what it found.
  bool next() {
    const bool asks = willAsk();
    if (unmapped_ >= kPatience) ++passed_;
    return asks;
  }
  void found(bool mapped) {
    if (mapped)
      unmapped_ = passed_ = 0;
    else if (unmapped_ < kPatience)
      ++unmapped_;
  }

 private:
  uint32_t unmapped_ = 0;  // how many in a row have found ordinary memory
  uint32_t passed_ = 0;    // how many have come since
};

}  // namespace tutti::plan
