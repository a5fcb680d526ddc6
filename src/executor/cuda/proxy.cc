#include "src/executor/cuda/proxy.h"

#include <algorithm>
#include <chrono>

#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/device/cuda/guards.h"
#include "transports/ring_layout.h"

namespace tutti::executor::cuda {
namespace {

/// How long what was sent may stand still when nobody sends any more.
constexpr std::chrono::seconds kStuck{5};
/// How long a rank that has given up stays to tell so.
constexpr std::chrono::milliseconds kLastWords{200};

/// Of a notice, in place of a fingerprint.
constexpr uint32_t kGivenUp = 0x55504947;  // "GIPU"

}  // namespace

transports::RingLayout farLayout(const transports::p2p::Layout& layout) {
  return {.channels = layout.rings.channels + 1,
          .slotCount = layout.rings.slotCount,
          .slotBytes = layout.rings.slotBytes};
}

Proxy::Proxy(const transports::p2p::Endpoint& endpoint, std::unique_ptr<transports::Endpoint> far,
             uint32_t* stopWord)
    : far_(std::move(far)),
      rank_(endpoint.rank()),
      device_(endpoint.device()),
      arrivals_(endpoint.device()),
      stopWord_(stopWord),
      atExit_([this] { abandon(); }) {
  const auto wanted = farLayout(endpoint.layout());
  TUTTI_REQUIRE(far_ != nullptr && far_->layout() == wanted, "rank ", endpoint.rank(),
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

Proxy::FarPeer Proxy::makePeer(const transports::p2p::Endpoint& endpoint, int rank) const {
  const int channels = endpoint.layout().rings.channels;
  FarPeer peer{.rank = rank,
               .sendNotice = &far_->sendRing(rank, channels),
               .receiveNotice = &far_->receiveRing(rank, channels),
               .poison = endpoint.hostPoison(rank)};
  for (int channel = 0; channel < channels; ++channel) {
    const auto link = endpoint.hostLink(rank, channel);
    peer.senders.emplace_back(link, endpoint.layout(), far_->sendRing(rank, channel));
    peer.receivers.emplace_back(link, endpoint.layout(), far_->receiveRing(rank, channel), rank,
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
  if (!hasStopped()) far_->drain([this] { return hasStopped(); });
  if (hasStopped()) far_->abandon();
  for (const auto end = base::Deadline::after(kLastWords); hasStopped() && !end.passed();)
    if (!move()) backoff.idle();
  while (!far_->cancelZeroCopy()) backoff.idle();
}

void Proxy::warnOfWhatIsLeft() const {
  for (const FarPeer& peer : peers_)
    if (!peer.isLost && !std::ranges::all_of(peer.senders, &FarSender::isSettled))
      base::log(LogLevel::Warning, "rank ", rank_, " ends, and what it sent to rank ", peer.rank,
                " has not left for ", kStuck.count(), " s: it will be missing there");
}

bool Proxy::hasStopped() const {
  return std::atomic_ref(*stopWord_).load(std::memory_order_acquire) != 0;
}

bool Proxy::isSettled() const {
  return std::ranges::all_of(peers_, [](const FarPeer& peer) {
    return peer.isLost || peer.isRefused ||
           std::ranges::all_of(peer.senders, &FarSender::isSettled);
  });
}

bool Proxy::move() {
  bool moved = false;
  for (FarPeer& peer : peers_) {
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

bool Proxy::move(FarPeer& peer) {
  bool moved = moveNotices(peer);
  if (peer.isRefused) return moved;
  for (FarSender& sender : peer.senders) moved |= sender.move();
  for (FarReceiver& receiver : peer.receivers) moved |= receiver.move();
  return moved;
}

// Their ring has room: no rank gives up twice.
bool Proxy::moveNotices(FarPeer& peer) {
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
    return far_->progress();
  } catch (const transports::ConnectionLost& lost) {
    for (FarPeer& peer : peers_)
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
  failure_ = FarFailure{error, peer};
  uint32_t none = 0;
  std::atomic_ref(*stopWord_)
      .compare_exchange_strong(none, stopWord(reason, peer), std::memory_order_acq_rel);
}

std::optional<FarFailure> Proxy::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace tutti::executor::cuda
