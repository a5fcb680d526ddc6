#include "src/communicator/peers.h"

#include <chrono>

#include "src/base/check.h"

namespace tutti::communicator {

Peers::Peers(const Membership& who, Messages& messages, FailureState& failure)
    : who_(who), messages_(messages), failure_(failure), peers_(static_cast<size_t>(who.size())) {
  messages.handleRaw(message::MessageType::Hello,
                     [this](int peer, bootstrap::ControlMessage hello) {
                       const Lock lock = failure_.lock();
                       if (own(peer).hello) base::fail(ErrorCode::Refused, "a second hello");
                       own(peer).hello = std::move(hello);
                     });
  messages.handle<message::ReadyMessage>([this](int peer, message::ReadyMessage told, const auto&) {
    const Lock lock = failure_.lock();
    own(peer).readsMemory |= told.readsMemory;
    ++own(peer).ready;
  });
  messages.handle<message::GpuMessage>(
      [this](int peer, message::GpuMessage told, auto descriptors) {
        const Lock lock = failure_.lock();
        own(peer).gpu.push_back({std::move(told.state), std::move(descriptors)});
      });
  messages.handle<message::GoodbyeMessage>(
      [this](int peer, message::GoodbyeMessage told, const auto&) {
        const Lock lock = failure_.lock();
        own(peer).left = true;
        own(peer).leftGpuAfter = told.onGpu;
        noteStopped(peer, told.collectives, lock);
      });
}

bool Peers::lose(int peer) {
  const Lock lock = failure_.lock();
  if (own(peer).isGone()) return false;
  own(peer).lost = true;
  return true;
}

std::optional<Peers::Answer> Peers::noteAnswer(int peer, const Answer& answer) {
  const Lock lock = failure_.lock();
  return std::exchange(own(peer).answer, answer);
}

void Peers::noteStopped(int peer, uint64_t after, const Lock&) {
  own(peer).stoppedAfter = after;
  someoneStopped_.store(true, std::memory_order_release);
}

bool Peers::hasLeft(int peer) const {
  const Lock lock = failure_.lock();
  return at(peer, lock).left;
}

Error Peers::absence(int peer, const std::string& rest) const {
  const bool left = hasLeft(peer);
  return Error(left ? ErrorCode::PeerLost : ErrorCode::Aborted,
               base::message(who_.name(peer), left ? " left" : " shrinks the communicator", rest));
}

std::optional<message::StatusMessage> Peers::status(int peer) const {
  const Lock lock = failure_.lock();
  const std::optional<Answer>& answer = at(peer, lock).answer;
  return answer ? std::optional(answer->status) : std::nullopt;
}

std::optional<Peers::Stopped> Peers::stoppedBefore(uint64_t sequence) const {
  const Lock lock = failure_.lock();
  for (int peer = 0; peer < who_.size(); ++peer)
    if (const Peer& p = at(peer, lock); p.stoppedAfter && *p.stoppedAfter < sequence)
      return Stopped{peer, *p.stoppedAfter};
  return std::nullopt;
}

int Peers::stoppedAmong(const std::function<bool(int)>& ranks) const {
  const Lock lock = failure_.lock();
  for (int peer = 0; peer < who_.size(); ++peer)
    if (at(peer, lock).stoppedAfter && ranks(peer)) return peer;
  return -1;
}

void Peers::awaitAll(const char* what, base::Deadline deadline,
                     const std::function<bool(const Peer&)>& arrived) const {
  Lock lock = failure_.lock();
  const auto missing = [&] {
    for (int peer = 0; peer < who_.size(); ++peer)
      if (peer != who_.rank() && !arrived(at(peer, lock))) return peer;
    return -1;
  };
  const auto leaver = [&] {  // will not arrive any more
    for (int peer = 0; peer < who_.size(); ++peer)
      if (at(peer, lock).left && !arrived(at(peer, lock))) return peer;
    return -1;
  };
  const bool done = failure_.wait(lock, std::chrono::milliseconds(deadline.remainingMs()), [&] {
    return failure_.reason(lock) || missing() < 0 || leaver() >= 0;
  });
  if (failure_.reason(lock)) failure_.throwFailure(lock);
  if (leaver() >= 0)
    base::fail(ErrorCode::PeerLost, who_.name(leaver()), " left during set-up, before its ", what,
               " came to ", who_.self());
  if (!done)
    base::fail(ErrorCode::Timeout, who_.self(), ": set-up timed out while waiting for the ", what,
               " of ", who_.name(missing()));
}

void Peers::awaitReadiness(int times, base::Deadline deadline, bool readsMemory) {
  messages_.sendAll(message::ReadyMessage{readsMemory});
  awaitAll("readiness", deadline, [times](const Peer& p) { return p.ready >= times; });
}

bool Peers::readsMemory(int peer) const {
  const Lock lock = failure_.lock();
  return at(peer, lock).readsMemory;
}

// A rank that is gone cannot be connected to; the news of it may come a moment later.
void Peers::cannotConnect(int peer, const Error& why) const {
  Lock lock = failure_.lock();
  const Peer& p = at(peer, lock);
  failure_.wait(lock, kDeathIsKnown, [&] { return failure_.reason(lock) || p.left; });
  if (failure_.reason(lock)) failure_.throwFailure(lock);
  if (p.left)
    base::fail(ErrorCode::PeerLost, who_.name(peer), " left during set-up, before ", who_.self(),
               " had connected to it");
  base::fail(why.code(), who_.self(), " cannot connect to ", who_.name(peer), ": ", why.what());
}

bootstrap::ControlMessage Peers::takeHello(int peer) {
  const Lock lock = failure_.lock();
  return std::move(*own(peer).hello);
}

// A quick peer's next state may come meanwhile.
ToldGpuState Peers::takeGpuState(int peer, size_t round) {
  const Lock lock = failure_.lock();
  return std::move(own(peer).gpu[round]);
}

}  // namespace tutti::communicator
