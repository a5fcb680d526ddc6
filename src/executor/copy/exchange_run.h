#pragma once

// Sends and receives of one rank. Each peer and direction is a lane of its own, so that no pattern
// can make a circular wait; a transfer is cut into messages as large as slots, and an empty one is
// an empty message, so that both ends agree also about nothing.

#include <vector>

#include "src/executor/copy/enqueuing.h"
#include "src/executor/copy/lane.h"
#include "src/executor/exchange.h"

namespace tutti::executor::copy {

/// The transfers to or from one peer, in order.
struct CopyEdge {
  int peer = 0;
  bool sends = false;
  std::vector<Transfer> transfers;
};

/// All but those of `rank` with itself; those that send first.
std::vector<CopyEdge> edgesOf(const Exchange& exchange, int rank);

/// How many messages they take.
uint64_t messagesOf(const std::vector<CopyEdge>& edges, uint64_t slotBytes);

/// Message by message of all edges: those that are sent, then those that are received, of which
/// each has been sent in the same turn at the other end.
class ExchangeRun final : public Enqueuing {
 public:
  ExchangeRun(std::vector<CopyEdge> edges, std::vector<CopyLane>& lanes, uint64_t slotBytes);
  uint64_t place() const override;
  void enqueueNext() override;

 private:
  struct Progress {
    size_t transfer = 0;
    uint64_t piece = 0, number = 0;
  };
  bool isDone(size_t edge) const {
    return progress_[edge].transfer == edges_[edge].transfers.size();
  }
  void skip();

  const std::vector<CopyEdge> edges_;
  std::vector<CopyLane>& lanes_;
  const uint64_t slotBytes_;
  std::vector<Progress> progress_;
  uint64_t turn_ = 0;
  size_t next_ = 0;  // edge
};

}  // namespace tutti::executor::copy
