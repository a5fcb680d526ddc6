#pragma once

// Performs an Exchange of one rank. Edges are independent of each other, so no pattern can make a
// circular wait: whatever one rank sends, its peer takes as soon as it receives, in any order of
// peers. A transfer is cut into messages as large as slots; an empty one is an empty message, so
// that both ends agree also about nothing, and about its type.
//
// On one host a long transfer is one message instead, an offer, where the receiver has mapped the
// memory or can read it: it says where that lies, and is shorter than any of its parts would be.
// The receiver copies the memory and gives the slot back; then it is the sender's again.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "src/executor/exchange.h"
#include "src/executor/host/attached_reads.h"
#include "src/executor/host/host_operation.h"
#include "src/executor/host/offered_sends.h"
#include "src/executor/host/operation.h"
#include "src/executor/host/zero_copy_sends.h"
#include "transports/connection.h"

namespace tutti::executor {

/// One at a time; a communicator keeps one for all its exchanges.
class ExchangeOperation final : public Operation {
 public:
  /// Starts over. Not while one is in progress. Its transfers to itself must match.
  void begin(const HostRank& at, Exchange exchange);
  /// Throws Mismatch when a peer sends another type or number of elements, or something else.
  Poll poll() override;
  int waitingFor() const override { return waitingFor_; }
  uint64_t bytesReceived() const override { return bytesReceived_; }
  /// Something is left to do with `peer`.
  bool needs(int peer) const;

 private:
  /// The transfers to or from one peer.
  struct Edge {
    int peer = 0;
    std::vector<Transfer> transfers;
    size_t next = 0;
    uint64_t offset = 0;                      // of the next transfer, bytes that are done
    uint64_t idlePolls = 0;                   // since the last message
    std::optional<WindowPlace> offered = {};  // where the transfer that is being read lies
    std::shared_ptr<std::byte> mapped = {};   // the same here, if it is in a window
    bool finished() const { return next == transfers.size(); }
    void advance(uint64_t bytes);
  };

  /// Sorted by distance in `direction`, so that not all ranks begin with the same peer.
  void addEdges(std::vector<Transfer> transfers, int direction, std::vector<Edge>& edges,
                Edge& self) const;
  bool moveToSelf();
  void noteIdle(Edge& edge);
  bool send(Edge& edge);
  /// Where the next transfer is to be read, if at all.
  std::optional<WindowPlace> placeToOffer(const Edge& edge) const;
  void offer(Edge& edge, const WindowPlace& place, transports::SendRing& ring);
  bool readOffered(Edge& edge, uint64_t bytes);
  bool takeOffered(Edge& edge, transports::ReceiveRing& ring);
  bool receive(Edge& edge);
  void expect(const Edge& edge, transports::ReceiveRing& ring) const;
  /// Of the message that has arrived: what is left of its transfer, or as much as a slot holds. Not
  /// the header's word, which the peer could change behind the check.
  uint64_t checkedBytes(const Edge& edge, const transports::SlotHeader& header) const;
  [[noreturn]] void failByHeader(const Edge& edge, const transports::SlotHeader& header) const;

  HostRank at_;
  std::vector<Edge> sends_, receives_;
  Edge toSelf_, fromSelf_;
  ZeroCopySends zeroCopySends_;
  OfferedSends offeredSends_;
  AttachedReads reads_;
  int waitingFor_ = -1;       // the one with whom nothing has moved for longest
  uint64_t longestIdle_ = 0;  // polls, in this poll
  uint64_t bytesReceived_ = 0;
};

}  // namespace tutti::executor
