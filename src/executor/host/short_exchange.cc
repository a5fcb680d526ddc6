#include "src/executor/host/short_exchange.h"

#include <algorithm>
#include <cstring>

#include "src/base/transfer_key.h"

namespace tutti::executor {

bool ShortExchange::isShort() const {
  if (!at_.endpoint || sends_.size() + receives_.size() > kMostTransfers) return false;
  const uint64_t most = std::min<uint64_t>(kMostBytes, at_.endpoint->layout().slotBytes);
  const auto fits = [&](const Transfer& t) {
    return t.peer != at_.rank && t.bytes <= most && at_.endpoint->isMemory(t.peer);
  };
  return std::ranges::all_of(sends_, fits) && std::ranges::all_of(receives_, fits) && areDisjoint();
}

bool ShortExchange::areDisjoint() const {
  const auto touch = [](const Transfer& a, const Transfer& b) {
    return a.bytes > 0 && b.bytes > 0 && a.data < b.data + b.bytes && b.data < a.data + a.bytes;
  };
  for (size_t i = 0; i < receives_.size(); ++i) {
    const Transfer& mine = receives_[i];
    const auto its = [&](const Transfer& other) { return touch(mine, other); };
    if (std::ranges::any_of(sends_, its) || std::ranges::any_of(receives_.subspan(i + 1), its))
      return false;
  }
  return true;
}

bool ShortExchange::run(Patience& patience) {
  while (true) {
    bool moved = false;
    while (sendsDone_ < sends_.size() && send(sends_[sendsDone_])) {
      ++sendsDone_;
      moved = true;
    }
    while (receivesDone_ < receives_.size() && receive(receives_[receivesDone_])) {
      ++receivesDone_;
      moved = true;
    }
    const bool isDone = sendsDone_ == sends_.size() && receivesDone_ == receives_.size();
    if (moved) patience.found();
    if (isDone) return true;
    if (!moved && !patience.wait()) return false;
  }
}

Exchange ShortExchange::rest() const {
  const auto sends = sends_.subspan(sendsDone_), receives = receives_.subspan(receivesDone_);
  return {{sends.begin(), sends.end()}, {receives.begin(), receives.end()}};
}

bool ShortExchange::send(const Transfer& transfer) const {
  transports::SendRing& ring = at_.endpoint->sendRing(transfer.peer, 0);
  if (!ring.ready()) return false;
  const uint64_t key = transfer.key();
  if (transfer.bytes > 0) std::memcpy(ring.payload(transfer.bytes), transfer.data, transfer.bytes);
  ring.publish(base::upperHalf(key), base::lowerHalf(key), static_cast<uint32_t>(transfer.bytes));
  return true;
}

bool ShortExchange::receive(const Transfer& transfer) const {
  transports::ReceiveRing& ring = at_.endpoint->receiveRing(transfer.peer, 0);
  if (!ring.ready()) return false;
  const transports::SlotHeader& header = *ring.slot();
  if (base::transferKey(header.callHash, header.operation) != transfer.key() ||
      header.bytes != transfer.bytes)
    return false;
  if (transfer.bytes > 0) std::memcpy(transfer.data, ring.payload(), transfer.bytes);
  ring.release();
  return true;
}

}  // namespace tutti::executor
