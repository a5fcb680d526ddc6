// Sends and receives of a StreamExecutor. Each peer and direction is a lane of its own, so that no
// pattern can make a circular wait; a transfer is cut into messages as large as slots, and an empty
// one is an empty message, so that both ends agree also about nothing.

#include <algorithm>

#include "src/base/check.h"
#include "src/device/cuda/guards.h"
#include "src/executor/copy/stream_executor.h"

namespace tutti::executor::copy {
namespace {

/// As fingerprints of collectives do not have it.
uint64_t keyOf(const Transfer& transfer) { return uint64_t{kExchangeBit} << 32 | transfer.bytes; }

uint64_t messagesOf(const Transfer& transfer, uint64_t slotBytes) {
  return std::max<uint64_t>(1, (transfer.bytes + slotBytes - 1) / slotBytes);
}

}  // namespace

void StreamExecutor::exchange(const Exchange& exchange, cudaStream_t stream) {
  requireSelfMatches(exchange);
  requireDisjoint(exchange);
  const auto edges = edgesOf(exchange);
  uint64_t messages = exchange.sends.size();
  for (const Edge& edge : edges)
    for (const Transfer& transfer : edge.transfers)
      messages += messagesOf(transfer, endpoint_.layout().copySlotBytes);
  requireRoom(4 * messages, base::message(messages, " messages of an exchange"));
  TUTTI_REQUIRE(edges.size() <= kMostLanes, edges.size(),
                " peers to send to and to receive from: ", kMostLanes, " are possible");
  requireLanes(edges.size());
  if (const auto failed = failure()) throw *failed;
  copyToSelf(exchange, stream);
  enqueue(edges.size(), 0, stream, [&](std::vector<Lane>& lanes) { runEdges(edges, lanes); });
}

std::vector<StreamExecutor::Edge> StreamExecutor::edgesOf(const Exchange& exchange) const {
  std::vector<Edge> edges;
  for (const bool sends : {true, false})
    for (const Transfer& transfer : sends ? exchange.sends : exchange.receives) {
      TUTTI_ASSERT(transfer.peer >= 0 && transfer.peer < endpoint_.size(), "a transfer of rank ",
                   endpoint_.rank(), " with rank ", transfer.peer);
      if (transfer.peer == endpoint_.rank()) continue;
      auto edge = std::ranges::find_if(
          edges, [&](const Edge& e) { return e.peer == transfer.peer && e.sends == sends; });
      if (edge == edges.end()) edge = edges.insert(edge, {transfer.peer, sends, {}});
      edge->transfers.push_back(transfer);
    }
  return edges;
}

// In order: requireSelfMatches() has compared them.
void StreamExecutor::copyToSelf(const Exchange& exchange, cudaStream_t stream) const {
  const device::OnDevice on(endpoint_.device());
  StreamQueue queue(stream, ground_.waitFlags);
  auto to = exchange.receives.begin();
  for (const Transfer& from : exchange.sends) {
    if (from.peer != endpoint_.rank()) continue;
    to = std::find_if(to, exchange.receives.end(),
                      [&](const Transfer& t) { return t.peer == endpoint_.rank(); });
    queue.copy(to->data, from.data, from.bytes);
    ++to;
  }
}

// Message by message of all edges: a stream takes so many calls and no more, and then whoever calls
// waits, who must not have kept back what the peers need before it goes on.
void StreamExecutor::runEdges(const std::vector<Edge>& edges, std::vector<Lane>& lanes) const {
  const uint64_t slotBytes = endpoint_.layout().copySlotBytes;
  struct Place {
    size_t transfer = 0;
    uint64_t piece = 0, number = 0;
  };
  std::vector<Place> places(edges.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t i = 0; i < edges.size(); ++i) {
      Place& at = places[i];
      if (at.transfer == edges[i].transfers.size()) continue;
      moved = true;
      const Transfer& transfer = edges[i].transfers[at.transfer];
      const uint64_t offset = at.piece * slotBytes;
      lanes[i].setKey(keyOf(transfer));
      runMessage(edges[i].sends, lanes[i], transfer.data + offset,
                 {0, edges[i].peer, at.number++, std::min(slotBytes, transfer.bytes - offset)});
      if (++at.piece < messagesOf(transfer, slotBytes)) continue;
      at.piece = 0;
      ++at.transfer;
    }
  }
  for (Lane& lane : lanes) lane.end();
}

void StreamExecutor::runMessage(bool sends, Lane& lane, std::byte* data, const Message& message) {
  if (sends) {
    lane.awaitSlot(message);
    lane.queue().copy(lane.slot(message), data, message.bytes);
    lane.tell(message);
  } else {
    lane.awaitMessage(message);
    lane.queue().copy(data, lane.received(message), message.bytes);
    lane.giveBack(message);
  }
}

}  // namespace tutti::executor::copy
