#include "src/executor/kernel/proxy.h"

#include <algorithm>
#include <chrono>

#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/device/cuda/guards.h"
#include "transports/ring_layout.h"

namespace tutti::executor::kernel {
namespace {

/// How long what was sent may stand still when nobody sends any more.
constexpr std::chrono::seconds kStuck{5};
/// How long a rank that has given up stays to tell so.
constexpr std::chrono::milliseconds kLastWords{200};

/// Of a notice, in place of a fingerprint.
constexpr uint32_t kGivenUp = 0x55504947;  // "GIPU"

}  // namespace

transports::RingLayout remoteLayout(const transports::p2p::P2pLayout& layout) {
  return {.channels = layout.rings.channels + 1,
          .slotCount = layout.rings.slotCount,
          .slotBytes = layout.rings.slotBytes};
}

Proxy::Proxy(const transports::p2p::P2pEndpoint& endpoint,
             std::unique_ptr<transports::Endpoint> remote, uint32_t* stopWord)
    : remote_(std::move(remote)),
      rank_(endpoint.rank()),
      device_(endpoint.device()),
      arrivals_(endpoint.device()),
      stopWord_(stopWord),
      atExit_([this](const base::Deadline&) { abandon(); }) {
  const auto wanted = remoteLayout(endpoint.layout());
  TUTTI_REQUIRE(remote_ != nullptr && remote_->layout() == wanted, "rank ", endpoint.rank(),
                " needs a transport to other hosts with ", transports::describe(wanted));
  for (int peer = 0; peer < endpoint.size(); ++peer)
    if (endpoint.isThroughHost(peer)) peers_.push_back(makePeer(endpoint, peer));
  thread_.start("tutti-proxy", [this] { serve(); });
}

void Proxy::finish() {
  stopping_.store(true, std::memory_order_release);
  thread_.finish();
}

void Proxy::abandon() {
  abandoned_.store(true, std::memory_order_release);
  finish();
}

Proxy::RemotePeer Proxy::makePeer(const transports::p2p::P2pEndpoint& endpoint, int rank) const {
  const int channels = endpoint.layout().rings.channels;
  RemotePeer peer{.rank = rank,
                  .sendNotice = &remote_->sendRing(rank, channels),
                  .receiveNotice = &remote_->receiveRing(rank, channels),
                  .poison = endpoint.hostPoison(rank)};
  for (int channel = 0; channel < channels; ++channel) {
    const auto link = endpoint.hostLink(rank, channel);
    peer.senders.emplace_back(link, endpoint.layout(), remote_->sendRing(rank, channel));
    peer.receivers.emplace_back(link, endpoint.layout(), remote_->receiveRing(rank, channel), rank,
                                arrivals_);
  }
  return peer;
}

// UCX and flushes want the device; a program that captures a stream meanwhile is not disturbed.
void Proxy::serve() {
  const device::OutsideCapture outside;
  cudaSetDevice(device_);  // where that fails every launch does
  base::Backoff backoff(false);
  while (!stopping_.load(std::memory_order_acquire)) {
    if (move())
      backoff.reset();
    else
      backoff.idle();
  }
  if (!abandoned_.load(std::memory_order_acquire)) settle();
}

// What the kernel has sent belongs to operations that have ended here, and others need it. Of one
// that has failed they need to know that it has.
void Proxy::settle() {
  base::Backoff backoff(false);
  for (auto stuck = base::Deadline::after(kStuck); !isSettled() && !hasStopped();) {
    if (move()) {
      stuck = base::Deadline::after(kStuck);
      backoff.reset();
    } else if (stuck.passed()) {
      warnOfWhatIsLeft();
      break;
    } else {
      backoff.idle();
    }
  }
  if (!hasStopped()) remote_->drain([this] { return hasStopped(); });
  if (hasStopped()) remote_->abandon();
  for (const auto end = base::Deadline::after(kLastWords); hasStopped() && !end.passed();)
    if (!move()) backoff.idle();
  while (!remote_->cancelZeroCopy()) backoff.idle();
}

void Proxy::warnOfWhatIsLeft() const {
  for (const RemotePeer& peer : peers_)
    if (!peer.isLost && !std::ranges::all_of(peer.senders, &RemoteSender::isSettled))
      base::log(LogLevel::Warning, "rank ", rank_, " ends, and what it sent to rank ", peer.rank,
                " has not left for ", kStuck.count(), " s: it will be missing there");
}

bool Proxy::hasStopped() const {
  return std::atomic_ref(*stopWord_).load(std::memory_order_acquire) != 0;
}

bool Proxy::isSettled() const {
  return std::ranges::all_of(peers_, [](const RemotePeer& peer) {
    return peer.isLost || peer.isRefused ||
           std::ranges::all_of(peer.senders, &RemoteSender::isSettled);
  });
}

bool Proxy::move() {
  bool moved = false;
  for (RemotePeer& peer : peers_) {
    if (peer.isLost) continue;
    try {
      moved |= move(peer);
    } catch (const Error& error) {
      peer.isLost = peer.isRefused;
      peer.isRefused = true;
      fail(error, StopReason::Lost, peer.rank);
    }
  }
  return progress() || moved;
}

bool Proxy::move(RemotePeer& peer) {
  bool moved = moveNotices(peer);
  if (peer.isRefused) return moved;
  for (RemoteSender& sender : peer.senders) moved |= sender.move();
  for (RemoteReceiver& receiver : peer.receivers) moved |= receiver.move();
  return moved;
}

// Their ring has room: no rank gives up twice.
bool Proxy::moveNotices(RemotePeer& peer) {
  bool moved = false;
  if (!peer.isTold && std::atomic_ref(*peer.poison).load(std::memory_order_acquire) != 0) {
    peer.sendNotice->publish(kGivenUp, 0, 0);
    moved = peer.isTold = true;
  }
  if (!peer.receiveNotice->ready()) return moved;
  if (peer.receiveNotice->slot()->callHash != kGivenUp)
    base::fail(ErrorCode::Refused, "rank ", peer.rank, " sent a notice that no rank sends");
  peer.receiveNotice->release();
  fail(Error(ErrorCode::PeerLost, base::message("rank ", peer.rank, " has given up")),
       StopReason::Poisoned, peer.rank);
  return true;
}

bool Proxy::progress() {
  try {
    return remote_->progress();
  } catch (const transports::ConnectionLost& lost) {
    for (RemotePeer& peer : peers_)
      if (peer.rank == lost.peer()) peer.isLost = true;
    fail(lost, StopReason::Lost, lost.peer());
  } catch (const Error& error) {
    fail(error, StopReason::Lost, -1);
  }
  return false;
}

// The first is the one that counts. It is there before the kernel can tell of it.
void Proxy::fail(const Error& error, StopReason reason, int peer) {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = RemoteFailure{error, peer};
  uint32_t none = 0;
  std::atomic_ref(*stopWord_)
      .compare_exchange_strong(none, stopWord(reason, peer), std::memory_order_acq_rel);
}

std::optional<RemoteFailure> Proxy::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace tutti::executor::kernel
