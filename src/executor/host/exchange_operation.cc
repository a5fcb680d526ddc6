#include "src/executor/host/exchange_operation.h"

#include <algorithm>
#include <cstring>

#include "src/base/check.h"
#include "src/base/transfer_key.h"

namespace tutti::executor {

using transports::SlotHeader;

namespace {

// Of a transfer to itself, at once.
constexpr uint64_t kPieceBytes = 1 << 20;

uint64_t keyOf(const Transfer& transfer) {
  return base::transferKey(transfer.type, transfer.bytes);
}
uint64_t keyOf(const SlotHeader& header) {
  return base::transferKey(header.callHash, header.operation);
}

std::vector<Transfer> ofPeer(const std::vector<Transfer>& transfers, int peer) {
  std::vector<Transfer> its;
  std::ranges::copy_if(transfers, std::back_inserter(its),
                       [&](const Transfer& t) { return t.peer == peer; });
  return its;
}

}  // namespace

void requireSelfMatches(const Exchange& exchange) {
  const auto sends = ofPeer(exchange.sends, exchange.rank);
  const auto receives = ofPeer(exchange.receives, exchange.rank);
  if (sends.size() != receives.size())
    base::fail(ErrorCode::InvalidUsage, "rank ", exchange.rank, " has ", sends.size(),
               " sends to itself and ", receives.size(),
               " receives from itself in one group; they match in order");
  for (size_t i = 0; i < sends.size(); ++i)
    if (keyOf(sends[i]) != keyOf(receives[i]))
      base::fail(ErrorCode::InvalidUsage, "rank ", exchange.rank, " sends ",
                 base::describeTransfer(keyOf(sends[i])), " to itself and receives ",
                 base::describeTransfer(keyOf(receives[i])));
}

void requireDisjoint(const Exchange& exchange) {
  struct Range {
    const std::byte *begin, *end;
    bool receives;
    int peer;
  };
  std::vector<Range> ranges;
  for (const auto* transfers : {&exchange.sends, &exchange.receives})
    for (const Transfer& t : *transfers)
      if (t.bytes > 0)
        ranges.push_back({t.data, t.data + t.bytes, transfers == &exchange.receives, t.peer});
  std::ranges::sort(ranges, {}, &Range::begin);
  // The ranges so far that reach furthest, of all and of those received into.
  const Range* furthest = nullptr;
  const Range* furthestReceived = nullptr;
  const auto further = [](const Range* a, const Range& b) { return !a || a->end < b.end; };
  for (const Range& range : ranges) {
    const Range* other = range.receives ? furthest : furthestReceived;
    if (other && other->end > range.begin)
      base::fail(ErrorCode::InvalidArgument, "rank ", exchange.rank,
                 " has overlapping buffers: ", other->receives ? "received from" : "sent to",
                 " rank ", other->peer, " and ", range.receives ? "received from" : "sent to",
                 " rank ", range.peer);
    if (further(furthest, range)) furthest = &range;
    if (range.receives && further(furthestReceived, range)) furthestReceived = &range;
  }
}

void ExchangeOperation::Edge::advance(uint64_t bytes) {
  offset += bytes;
  if (offset < transfers[next].bytes) return;
  offset = 0;
  ++next;
}

void ExchangeOperation::begin(Exchange exchange) {
  exchange_ = std::move(exchange);
  waitingFor_ = -1;
  bytesReceived_ = 0;
  sends_.clear();
  receives_.clear();
  toSelf_ = {};
  fromSelf_ = {};
  zeroCopySends_.forget();
  addEdges(std::move(exchange_.sends), 1, sends_, toSelf_);
  addEdges(std::move(exchange_.receives), -1, receives_, fromSelf_);
}

void ExchangeOperation::addEdges(std::vector<Transfer> transfers, int direction,
                                 std::vector<Edge>& edges, Edge& self) const {
  const auto distance = [&](const Transfer& t) {
    return (direction * (t.peer - exchange_.rank) + exchange_.size) % exchange_.size;
  };
  std::ranges::stable_sort(transfers, {}, distance);
  for (const Transfer& t : transfers) {
    if (t.peer == exchange_.rank) {
      self.transfers.push_back(t);
      continue;
    }
    if (edges.empty() || edges.back().peer != t.peer) edges.push_back({.peer = t.peer});
    edges.back().transfers.push_back(t);
  }
}

Poll ExchangeOperation::poll() {
  bool moved = moveToSelf();
  longestIdle_ = 0;
  for (Edge& edge : sends_) moved |= send(edge);
  for (Edge& edge : receives_) moved |= receive(edge);
  const auto finished = [](const Edge& edge) { return edge.finished(); };
  if (std::ranges::all_of(sends_, finished) && std::ranges::all_of(receives_, finished) &&
      fromSelf_.finished()) {
    if (exchange_.endpoint) exchange_.endpoint->flush();
    if (zeroCopySends_.completed()) return Poll::Done;
    waitingFor_ = zeroCopySends_.peer();
  }
  return moved ? Poll::Moved : Poll::Idle;
}

bool ExchangeOperation::needs(int peer) const {
  const auto needed = [&](const Edge& edge) { return edge.peer == peer && !edge.finished(); };
  return std::ranges::any_of(sends_, needed) || std::ranges::any_of(receives_, needed);
}

bool ExchangeOperation::moveToSelf() {
  if (toSelf_.finished()) return false;
  const Transfer& from = toSelf_.transfers[toSelf_.next];
  const uint64_t bytes = std::min(kPieceBytes, from.bytes - toSelf_.offset);
  if (bytes > 0)
    std::memcpy(fromSelf_.transfers[fromSelf_.next].data + fromSelf_.offset,
                from.data + toSelf_.offset, bytes);
  toSelf_.advance(bytes);
  fromSelf_.advance(bytes);
  return true;
}

void ExchangeOperation::noteIdle(Edge& edge) {
  if (++edge.idlePolls < longestIdle_) return;
  longestIdle_ = edge.idlePolls;
  waitingFor_ = edge.peer;
}

bool ExchangeOperation::send(Edge& edge) {
  if (edge.finished()) return false;
  transports::SendRing& ring = exchange_.endpoint->sendRing(edge.peer, 0);
  if (!ring.ready()) {
    noteIdle(edge);
    return false;
  }
  edge.idlePolls = 0;
  const Transfer& t = edge.transfers[edge.next];
  const uint64_t key = keyOf(t);
  const uint64_t bytes =
      std::min<uint64_t>(t.bytes - edge.offset, exchange_.endpoint->layout().slotBytes);
  if (ring.canZeroCopy() && bytes >= ZeroCopySends::kLeastBytes) {
    zeroCopySends_.publishZeroCopy(edge.peer, ring, t.data + edge.offset, base::upperHalf(key),
                                   base::lowerHalf(key), static_cast<uint32_t>(bytes));
  } else {
    if (bytes > 0) std::memcpy(ring.payload(bytes), t.data + edge.offset, bytes);
    ring.publish(base::upperHalf(key), base::lowerHalf(key), static_cast<uint32_t>(bytes));
  }
  edge.advance(bytes);
  return true;
}

bool ExchangeOperation::receive(Edge& edge) {
  if (edge.finished()) return false;
  transports::ReceiveRing& ring = exchange_.endpoint->receiveRing(edge.peer, 0);
  if (!ring.ready()) {
    noteIdle(edge);
    return false;
  }
  edge.idlePolls = 0;
  const SlotHeader& header = *ring.slot();
  checkHeader(edge, header);
  const Transfer& t = edge.transfers[edge.next];
  const uint64_t bytes = header.bytes;
  if (bytes > 0) std::memcpy(t.data + edge.offset, ring.payload(), bytes);
  ring.release();
  bytesReceived_ += bytes;
  edge.advance(bytes);
  return true;
}

void ExchangeOperation::failByHeader(const Edge& edge, const SlotHeader& header) const {
  const bool isExchange = (header.callHash & base::kExchangeBit) != 0;
  const std::string does =
      isExchange ? "sends " + base::describeTransfer(keyOf(header))
                 : base::message("is in a collective instead, its operation ", header.operation);
  base::fail(ErrorCode::Mismatch, "ranks disagree: rank ", exchange_.rank, " receives ",
             base::describeTransfer(keyOf(edge.transfers[edge.next])), " from rank ", edge.peer,
             ", which ", does);
}

void ExchangeOperation::checkHeader(const Edge& edge, const SlotHeader& header) const {
  const Transfer& t = edge.transfers[edge.next];
  if (keyOf(header) != keyOf(t)) failByHeader(edge, header);
  const uint64_t part =
      std::min<uint64_t>(t.bytes - edge.offset, exchange_.endpoint->layout().slotBytes);
  TUTTI_ASSERT(header.bytes == part, "rank ", edge.peer, " sent a message of ", header.bytes,
               " bytes where ", part, " are next");
}

}  // namespace tutti::executor
