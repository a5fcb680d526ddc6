#pragma once

// Messages that an operation sends from user memory, where the transport can. The operation is not
// done before all of that memory was returned.

#include <cstdint>
#include <vector>

#include "transports/connection.h"

namespace tutti::executor {

class Lending {
 public:
  /// Below that, transports copy at once what they are given.
  static constexpr uint64_t kLeastBytes = 2048;

  void lend(int peer, transports::SendRing& ring, const std::byte* data, uint32_t callHash,
            uint32_t operation, uint32_t bytes) {
    ring.lend(data, callHash, operation, bytes);
    for (Loan& loan : loans_)
      if (loan.ring == &ring) {
        loan.message = ring.sent();
        return;
      }
    loans_.push_back({&ring, ring.sent(), peer});
  }

  /// Forgets what was returned; true when that is all.
  bool returned() {
    std::erase_if(loans_, [](const Loan& loan) { return loan.ring->returned(loan.message); });
    return loans_.empty();
  }
  /// A rank that something is on its way to; not when returned().
  int peer() const { return loans_.front().peer; }
  /// Of an operation that failed.
  void forget() { loans_.clear(); }

 private:
  /// The last message of a ring; those before it are returned before.
  struct Loan {
    transports::SendRing* ring;
    uint32_t message;
    int peer;
  };
  std::vector<Loan> loans_;
};

}  // namespace tutti::executor
