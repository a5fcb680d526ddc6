#include "transports/tcp/endpoint_core.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <utility>

#include "src/base/check.h"
#include "transports/ring_layout.h"

namespace tutti::transports::tcp {
namespace {

// So many streams are read one by one, which takes less time than to ask which have something.
constexpr size_t kFewStreams = 2;
// Of one stream at a time, so that others are served too.
constexpr size_t kReadAtOnce = size_t{1} << 20;

// A rank that has found nothing so often may wait for somebody who waits for its credits, and be it
// for less than half a ring of them.
constexpr uint32_t kLongIdle = 256;

}  // namespace

EndpointCore::EndpointCore(TcpHub& hub, int rank, int size, const RingLayout& layout,
                           const TcpOptions& options)
    : hub_(hub),
      epoll_(TUTTI_SYSCALL(::epoll_create1(EPOLL_CLOEXEC))),
      place_{.rank = rank,
             .size = size,
             .layout = layout,
             .options = options,
             .epoll = epoll_.get(),
             .device = hub.device(),
             .used = &used_,
             .urgent = &urgent_},
      peers_(static_cast<size_t>(size)) {
  used_.reserve(peers_.size());
}

// ---- set-up

void EndpointCore::requirePeer(int peer) const {
  TUTTI_REQUIRE(peer >= 0 && peer < place_.size && peer != place_.rank, "rank ", place_.rank,
                " of ", place_.size, " has no peer ", peer);
}

TcpPeer& EndpointCore::at(int peer) {
  auto& place = peers_[static_cast<size_t>(peer)];
  if (!place)
    place = std::make_unique<TcpPeer>(place_, peer, hub_.openDoor(shared_from_this(), peer));
  return *place;
}

TcpPeer& EndpointCore::connected(int peer, int channel) {
  TUTTI_ASSERT(peer >= 0 && peer < place_.size && peers_[static_cast<size_t>(peer)] &&
                   at(peer).addressed() && channel >= 0 && channel < place_.layout.channels,
               "rank ", place_.rank, " has no ring for peer ", peer, " and channel ", channel,
               "; is it connected?");
  return at(peer);
}

uint64_t EndpointCore::memoryBytes() {
  const std::lock_guard lock(mutex_);
  uint64_t rings = 0;
  for (const auto& peer : peers_)
    if (peer) rings += peer->rings();
  return rings * slotsBytes(place_.layout);
}

std::string EndpointCore::ways(int peer) {
  requirePeer(peer);
  const std::lock_guard lock(mutex_);
  return at(peer).ways();
}

EndpointAddress EndpointCore::address(int peer) {
  requirePeer(peer);
  const std::lock_guard lock(mutex_);
  const TcpAddressBlob blob{.from = place_.rank,
                            .to = peer,
                            .size = place_.size,
                            .layout = place_.layout,
                            .door = at(peer).door(),
                            .half = at(peer).half(),
                            .keyCheck = keyCheckOf(at(peer).half(), place_.options.preSharedKey),
                            .streams = place_.options.streams,
                            .encrypts = place_.options.encrypts,
                            .hasAes = wire::hasAes(),
                            .place = hub_.place(),
                            .device = place_.device};
  return {blob.write(), {}};
}

void EndpointCore::connect(int peer, const EndpointAddress& address) {
  requirePeer(peer);
  const std::lock_guard lock(mutex_);
  if (at(peer).addressed())
    base::fail(ErrorCode::InvalidUsage, "rank ", place_.rank, " is connected to rank ", peer);
  TcpAddressBlob blob = TcpAddressBlob::read(address.blob);
  if (!address.descriptors.empty())
    base::fail(ErrorCode::Refused, "rank ", peer, " sent descriptors with its TCP address");
  check(peer, blob);
  blob.place = wire::seenFrom(blob.place, hub_.place());
  at(peer).setAddress(std::move(blob));
}

void EndpointCore::check(int peer, const TcpAddressBlob& blob) const {
  if (blob.from != peer || blob.to != place_.rank || blob.size != place_.size)
    base::fail(ErrorCode::Refused, "an address from rank ", blob.from, " for rank ", blob.to,
               " of ", blob.size, " came as that of rank ", peer, " for rank ", place_.rank, " of ",
               place_.size);
  requireSameLayout(peer, blob.layout, place_.rank, place_.layout);
  const TcpOptions& own = place_.options;
  if (blob.encrypts != own.encrypts)
    base::fail(ErrorCode::Refused, "ranks disagree about encryption (TUTTI_ENCRYPTION): rank ",
               peer, blob.encrypts ? " encrypts" : " does not encrypt", ", rank ", place_.rank,
               own.encrypts ? " does" : " does not");
  if (blob.keyCheck != keyCheckOf(blob.half, own.preSharedKey))
    base::fail(ErrorCode::Refused, "rank ", peer, " and rank ", place_.rank,
               " have different pre-shared keys (CommunicatorOptions::preSharedKey)");
  if (blob.streams != own.streams)
    base::fail(ErrorCode::Refused, "ranks disagree about streams (TUTTI_TCP_STREAMS): rank ", peer,
               " has ", blob.streams, ", rank ", place_.rank, " has ", own.streams);
}

Dial EndpointCore::probe(int peer) {
  requirePeer(peer);
  const std::lock_guard lock(mutex_);
  TUTTI_ASSERT(at(peer).addressed(), "rank ", peer, " is not connected");
  return {.peer = peer,
          .place = at(peer).place(),
          .credentials = at(peer).expected().credentials,
          .claim = at(peer).claim(kProbeStream, 0)};
}

SendRing& EndpointCore::sendRing(int peer, int channel) {
  const std::lock_guard lock(mutex_);
  SendRing& ring = connected(peer, channel).sendRing(channel);
  wakeIfUrgent();
  return ring;
}

ReceiveRing& EndpointCore::receiveRing(int peer, int channel) {
  const std::lock_guard lock(mutex_);
  ReceiveRing& ring = connected(peer, channel).receiveRing(channel);
  wakeIfUrgent();
  return ring;
}

void EndpointCore::wakeIfUrgent() {
  if (std::exchange(urgent_, false)) hub_.wake();
}

// ---- moving

// Credits travel with messages where they can; what is left goes when nothing else does.
bool EndpointCore::progress() {
  const std::lock_guard lock(mutex_);
  calls_.fetch_add(1, std::memory_order_relaxed);
  bool moved = false;
  for (size_t i = 0; i < used_.size(); ++i) moved |= used_[i]->post();
  moved |= receive();
  idle_ = moved ? 0 : idle_ + 1;
  if (!moved) moved = tell(idle_ % kLongIdle == 0);
  wakeIfUrgent();
  for (size_t i = 0; i < used_.size(); ++i) used_[i]->throwFailure();
  return moved;
}

bool EndpointCore::receive() {
  const auto now = std::chrono::steady_clock::now();
  bool moved = false;
  size_t streams = 0;
  for (const TcpPeer* peer : used_) streams += peer->streams().size();
  if (streams <= kFewStreams) {
    for (TcpPeer* peer : used_)
      for (const auto& stream : peer->streams()) moved |= peer->receive(*stream, kReadAtOnce, now);
    return moved;
  }
  std::array<epoll_event, 32> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    auto* const stream = static_cast<TcpStream*>(events[static_cast<size_t>(i)].data.ptr);
    if (events[static_cast<size_t>(i)].events & ~uint32_t{EPOLLOUT})
      moved |= stream->user().receive(*stream, kReadAtOnce, now);
  }
  return moved;
}

bool EndpointCore::tell(bool all) {
  bool moved = false;
  for (size_t i = 0; i < used_.size(); ++i) moved |= used_[i]->tell(all);
  return moved;
}

void EndpointCore::flush() {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < used_.size(); ++i) used_[i]->post();
  tell(false);
  wakeIfUrgent();
}

bool EndpointCore::settled() {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(used_, [](const TcpPeer* peer) { return peer->settled(); });
}

void EndpointCore::leave() {
  const std::lock_guard lock(mutex_);
  for (TcpPeer* peer : used_) peer->leave();
}

void EndpointCore::stop() {
  const std::lock_guard lock(mutex_);
  for (TcpPeer* peer : used_) peer->stop();
}

// ---- what the hub asks for

bool EndpointCore::isAttended() {
  const uint64_t calls = calls_.load(std::memory_order_relaxed);
  return std::exchange(seenCalls_, calls) != calls;
}

void EndpointCore::attend() {
  const std::lock_guard lock(mutex_);
  receive();
  for (size_t i = 0; i < used_.size(); ++i) used_[i]->send();
  tell(false);
}

std::vector<Dial> EndpointCore::patrol(std::chrono::steady_clock::time_point now,
                                       bool looksForSilence) {
  const std::lock_guard lock(mutex_);
  std::vector<Dial> dials;
  for (TcpPeer* peer : used_) {
    if (looksForSilence) peer->lookForSilence(now);
    peer->listDials(dials, now);
  }
  tell(true);
  urgent_ = false;
  return dials;
}

wire::Expected EndpointCore::expected(int peer) {
  const std::lock_guard lock(mutex_);
  return at(peer).expected();
}

void EndpointCore::adopt(int peer, uint32_t stream, Proven proven) {
  const std::lock_guard lock(mutex_);
  at(peer).adopt(stream, std::move(proven), std::chrono::steady_clock::now());
}

void EndpointCore::dialReached(int peer, uint32_t stream) {
  const std::lock_guard lock(mutex_);
  at(peer).dialReached(stream);
}

void EndpointCore::cannotDial(int peer, const Error& why) {
  const std::lock_guard lock(mutex_);
  at(peer).cannotDial(why);
}

void EndpointCore::dialFailed(int peer, uint32_t stream, const std::string& why, bool isSilent) {
  const std::lock_guard lock(mutex_);
  at(peer).dialFailed(stream, why, isSilent, std::chrono::steady_clock::now());
}

}  // namespace tutti::transports::tcp
