#pragma once

// A few small sends and receives with ranks of this host, a message each. As with ShortProgram
// nothing is built for them, and what has not come in a moment is left to ExchangeOperation.

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/executor/exchange.h"
#include "src/executor/host/host_operation.h"
#include "src/executor/host/patience.h"

namespace tutti::executor {

class ShortExchange {
 public:
  /// Of one transfer, and in both directions together.
  static constexpr uint64_t kMostBytes = 64 << 10;
  static constexpr size_t kMostTransfers = 8;

  /// Both outlive it. They have been checked one by one.
  ShortExchange(const HostRank& at, std::span<const Transfer> sends,
                std::span<const Transfer> receives)
      : at_(at), sends_(sends), receives_(receives) {}

  /// False where they are many, large, of this rank itself, not in memory of the host, or touch
  /// each other's memory.
  bool isShort() const;
  /// False when its patience has ended, or a message is another than it expects.
  bool run(Patience& patience);
  /// What is left then.
  Exchange rest() const;

 private:
  bool send(const Transfer& transfer) const;
  bool receive(const Transfer& transfer) const;
  bool areDisjoint() const;

  const HostRank& at_;
  const std::span<const Transfer> sends_, receives_;
  size_t sendsDone_ = 0, receivesDone_ = 0;
};

}  // namespace tutti::executor
