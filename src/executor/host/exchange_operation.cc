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

// An offer is its place.
static_assert(sizeof(WindowPlace) < transports::kLineBytes);  // the least of slots

// Shorter transfers are moved faster by slots.
constexpr uint64_t kLeastMapped = 64 << 10, kLeastRead = 256 << 10;

uint64_t keyOf(const SlotHeader& header) {
  return base::transferKey(header.callHash, header.operation);
}

}  // namespace

void ExchangeOperation::Edge::advance(uint64_t bytes) {
  offset += bytes;
  if (offset < transfers[next].bytes) return;
  offset = 0;
  ++next;
}

void ExchangeOperation::begin(const HostRank& at, Exchange exchange) {
  at_ = at;
  waitingFor_ = -1;
  bytesReceived_ = 0;
  sends_.clear();
  receives_.clear();
  toSelf_ = {};
  fromSelf_ = {};
  zeroCopySends_.forget();
  offeredSends_.forget();
  reads_.begin(at_.endpoint);
  addEdges(std::move(exchange.sends), 1, sends_, toSelf_);
  addEdges(std::move(exchange.receives), -1, receives_, fromSelf_);
}

void ExchangeOperation::addEdges(std::vector<Transfer> transfers, int direction,
                                 std::vector<Edge>& edges, Edge& self) const {
  const auto distance = [&](const Transfer& t) {
    return (direction * (t.peer - at_.rank) + at_.size) % at_.size;
  };
  std::ranges::stable_sort(transfers, {}, distance);
  for (const Transfer& t : transfers) {
    if (t.peer == at_.rank) {
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
    if (at_.endpoint) at_.endpoint->flush();
    const bool areBack = zeroCopySends_.completed();
    if (offeredSends_.completed() && areBack) return Poll::Done;
    waitingFor_ = areBack ? offeredSends_.peer() : zeroCopySends_.peer();
  }
  return moved ? Poll::Moved : Poll::Idle;
}

bool ExchangeOperation::needs(int peer) const {
  const auto needed = [&](const Edge& edge) { return edge.peer == peer && !edge.finished(); };
  return std::ranges::any_of(sends_, needed) || std::ranges::any_of(receives_, needed) ||
         offeredSends_.has(peer);
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
  transports::SendRing& ring = at_.endpoint->sendRing(edge.peer, 0);
  if (!ring.ready()) {
    noteIdle(edge);
    return false;
  }
  edge.idlePolls = 0;
  if (const auto place = placeToOffer(edge)) {
    offer(edge, *place, ring);
    return true;
  }
  const Transfer& t = edge.transfers[edge.next];
  const uint64_t key = t.key();
  const uint64_t bytes =
      std::min<uint64_t>(t.bytes - edge.offset, at_.endpoint->layout().slotBytes);
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

// From its beginning, or not at all.
std::optional<WindowPlace> ExchangeOperation::placeToOffer(const Edge& edge) const {
  const Transfer& t = edge.transfers[edge.next];
  if (edge.offset > 0 || t.bytes < kLeastMapped || !at_.endpoint->isMemory(edge.peer)) return {};
  const WindowPlace place = at_.windows ? at_.windows->locate(t.data, t.bytes) : WindowPlace();
  if (place.window != WindowPlace::kNone) return place;
  if (!at_.attached || t.bytes < kLeastRead || !at_.endpoint->isReadableByPeers(t.data, t.bytes))
    return {};
  return WindowPlace{WindowPlace::kMemory, reinterpret_cast<uintptr_t>(t.data)};
}

void ExchangeOperation::offer(Edge& edge, const WindowPlace& place, transports::SendRing& ring) {
  const Transfer& t = edge.transfers[edge.next];
  std::memcpy(ring.payload(sizeof place), &place, sizeof place);
  ring.publish(base::upperHalf(t.key()), base::lowerHalf(t.key()), sizeof place);
  offeredSends_.add(edge.peer, ring);
  edge.advance(t.bytes);
}

// Where it fails, the news of the peer's failure is on its way.
bool ExchangeOperation::readOffered(Edge& edge, uint64_t bytes) {
  const Transfer& t = edge.transfers[edge.next];
  std::byte* const to = t.data + edge.offset;
  const WindowPlace& place = *edge.offered;
  if (place.window == WindowPlace::kMemory)
    return reads_.read(edge.peer, place.offset + edge.offset, to, bytes);
  if (!edge.mapped && at_.windows) edge.mapped = at_.windows->resolve(edge.peer, place, t.bytes);
  if (!edge.mapped) return false;
  std::memcpy(to, edge.mapped.get() + edge.offset, bytes);
  return at_.endpoint->memoryCounts(edge.peer);
}

/// A piece of it.
bool ExchangeOperation::takeOffered(Edge& edge, transports::ReceiveRing& ring) {
  const Transfer& t = edge.transfers[edge.next];
  const bool isRead = edge.offered->window == WindowPlace::kMemory;
  const uint64_t most = isRead ? AttachedReads::pieceBytes(1, false) : kPieceBytes;
  const uint64_t bytes = std::min(most, t.bytes - edge.offset);
  if (!readOffered(edge, bytes)) {
    noteIdle(edge);
    return false;
  }
  bytesReceived_ += bytes;
  edge.advance(bytes);
  if (edge.offset > 0) return true;
  edge.offered.reset();
  edge.mapped.reset();
  ring.release();
  return true;
}

bool ExchangeOperation::receive(Edge& edge) {
  if (edge.finished()) return false;
  transports::ReceiveRing& ring = at_.endpoint->receiveRing(edge.peer, 0);
  if (!ring.ready()) {
    if (ring.canPlace()) expect(edge, ring);
    noteIdle(edge);
    return false;
  }
  if (edge.offered) return takeOffered(edge, ring);
  edge.idlePolls = 0;
  const uint64_t bytes = checkedBytes(edge, *ring.slot());
  const Transfer& t = edge.transfers[edge.next];
  if (bytes == sizeof(WindowPlace) && t.bytes > bytes && edge.offset == 0) {
    edge.offered.emplace();
    std::memcpy(&*edge.offered, ring.payload(), sizeof(WindowPlace));
    return takeOffered(edge, ring);
  }
  const std::byte* const payload = ring.payload();
  if (bytes > 0 && payload != t.data + edge.offset)
    std::memcpy(t.data + edge.offset, payload, bytes);
  ring.release();
  bytesReceived_ += bytes;
  edge.advance(bytes);
  return true;
}

/// The parts of the transfer that come next may go to where they belong.
void ExchangeOperation::expect(const Edge& edge, transports::ReceiveRing& ring) const {
  const Transfer& t = edge.transfers[edge.next];
  const transports::RingLayout& layout = at_.endpoint->layout();
  const uint64_t key = t.key();
  uint64_t offset = edge.offset;
  for (uint32_t i = 0; i < layout.slotCount && offset < t.bytes; ++i) {
    const uint64_t part = std::min<uint64_t>(t.bytes - offset, layout.slotBytes);
    ring.expect(t.data + offset, static_cast<uint32_t>(part), base::upperHalf(key),
                base::lowerHalf(key), i);
    offset += part;
  }
}

void ExchangeOperation::failByHeader(const Edge& edge, const SlotHeader& header) const {
  const bool isExchange = (header.callHash & base::kExchangeBit) != 0;
  const std::string does =
      isExchange ? "sends " + base::describeTransfer(keyOf(header))
                 : base::message("is in a collective instead, its operation ", header.operation);
  base::fail(ErrorCode::Mismatch, "ranks disagree: rank ", at_.rank, " receives ",
             base::describeTransfer(edge.transfers[edge.next].key()), " from rank ", edge.peer,
             ", which ", does);
}

uint64_t ExchangeOperation::checkedBytes(const Edge& edge, const SlotHeader& header) const {
  const Transfer& t = edge.transfers[edge.next];
  if (keyOf(header) != t.key()) failByHeader(edge, header);
  const uint64_t part = std::min<uint64_t>(t.bytes - edge.offset, at_.endpoint->layout().slotBytes);
  const bool mayBeOffer =
      t.bytes >= kLeastMapped && edge.offset == 0 && at_.endpoint->isMemory(edge.peer);
  if (mayBeOffer && header.bytes == sizeof(WindowPlace)) return sizeof(WindowPlace);
  TUTTI_ASSERT(header.bytes == part, "rank ", edge.peer, " sent a message of ", header.bytes,
               " bytes where ", part, " are next");
  return part;
}

}  // namespace tutti::executor
