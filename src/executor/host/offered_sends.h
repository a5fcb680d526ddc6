#pragma once

// Messages with which an operation offers memory of the user's. The operation is not done before
// the receivers of all of them have read that memory.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "transports/connection.h"

namespace tutti::executor {

class OfferedSends {
 public:
  /// The last message of the ring.
  void add(int peer, const transports::SendRing& ring) {
    offers_.push_back({&ring, ring.sent(), peer});
  }
  /// Forgets those that were taken; true when that is all.
  bool completed() {
    std::erase_if(offers_, [](const Offered& each) { return each.ring->taken(each.message); });
    return offers_.empty();
  }
  /// A rank that has not taken one; not when completed().
  int peer() const { return offers_.front().peer; }
  bool has(int peer) const {
    return std::ranges::find(offers_, peer, &Offered::peer) != offers_.end();
  }
  /// Of an operation that failed.
  void forget() { offers_.clear(); }

 private:
  struct Offered {
    const transports::SendRing* ring;
    uint32_t message;
    int peer;
  };
  std::vector<Offered> offers_;
};

}  // namespace tutti::executor
