#include "src/executor/copy/exchange_run.h"

#include <algorithm>

namespace tutti::executor::copy {
namespace {

uint64_t messagesOf(const Transfer& transfer, uint64_t slotBytes) {
  return std::max<uint64_t>(1, (transfer.bytes + slotBytes - 1) / slotBytes);
}

void send(CopyLane& lane, const std::byte* data, const CopyMessage& message) {
  lane.awaitSlot(message);
  lane.copy(lane.slot(message), data, message.bytes);
  lane.tell(message);
}

void receive(CopyLane& lane, std::byte* data, const CopyMessage& message) {
  lane.awaitMessage(message);
  lane.copy(data, lane.received(message), message.bytes);
  lane.giveBack(message);
}

}  // namespace

std::vector<CopyEdge> edgesOf(const Exchange& exchange, int rank) {
  std::vector<CopyEdge> edges;
  for (const bool sends : {true, false})
    for (const Transfer& transfer : sends ? exchange.sends : exchange.receives) {
      if (transfer.peer == rank) continue;
      auto edge = std::ranges::find_if(
          edges, [&](const CopyEdge& e) { return e.peer == transfer.peer && e.sends == sends; });
      if (edge == edges.end()) edge = edges.insert(edge, {transfer.peer, sends, {}});
      edge->transfers.push_back(transfer);
    }
  return edges;
}

uint64_t messagesOf(const std::vector<CopyEdge>& edges, uint64_t slotBytes) {
  uint64_t messages = 0;
  for (const CopyEdge& edge : edges)
    for (const Transfer& transfer : edge.transfers) messages += messagesOf(transfer, slotBytes);
  return messages;
}

ExchangeRun::ExchangeRun(std::vector<CopyEdge> edges, std::vector<CopyLane>& lanes,
                         uint64_t slotBytes)
    : edges_(std::move(edges)), lanes_(lanes), slotBytes_(slotBytes), progress_(edges_.size()) {}

uint64_t ExchangeRun::place() const {
  return next_ == edges_.size() ? kEnd : 2 * turn_ + (edges_[next_].sends ? 0 : 1);
}

void ExchangeRun::enqueueNext() {
  const CopyEdge& edge = edges_[next_];
  CopyLane& lane = lanes_[next_];
  Progress& at = progress_[next_];
  const Transfer& transfer = edge.transfers[at.transfer];
  const uint64_t offset = at.piece * slotBytes_;
  const CopyMessage message{0, edge.peer, at.number++,
                            std::min(slotBytes_, transfer.bytes - offset)};
  lane.setKey(transfer.key());
  if (edge.sends)
    send(lane, transfer.data + offset, message);
  else
    receive(lane, transfer.data + offset, message);
  if (++at.piece == messagesOf(transfer, slotBytes_)) {
    at.piece = 0;
    ++at.transfer;
  }
  ++next_;
  skip();
}

// To the next edge that has a message left, in this turn or the next.
void ExchangeRun::skip() {
  const size_t count = edges_.size();
  const auto isLeft = [&](size_t from) {
    for (next_ = from; next_ < count && isDone(next_);) ++next_;
    return next_ < count;
  };
  if (isLeft(next_)) return;
  ++turn_;
  isLeft(0);
}

}  // namespace tutti::executor::copy
