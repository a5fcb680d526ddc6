#include "src/bootstrap/socket_control_plane.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <optional>

#include "src/base/backoff.h"
#include "src/base/log.h"
#include "src/base/process.h"
#include "src/base/service_thread.h"
#include "src/bootstrap/dispatcher.h"
#include "src/bootstrap/host_facts.h"
#include "src/bootstrap/link_watch.h"
#include "src/bootstrap/peer_link.h"
#include "src/bootstrap/wire/setup_connection.h"

namespace tutti::bootstrap {
namespace {

using Time = std::chrono::steady_clock;
/// After a connection's end this long for its process to end too, so that the right one is named:
/// the kernel closes a dying process's sockets a little before it reports its death.
constexpr std::chrono::milliseconds kEndGrace{100}, kNoGrace{0};
constexpr std::chrono::milliseconds kFarewell{500};
constexpr std::chrono::seconds kLookAtLinks{2};
constexpr size_t kReadAtOnce = size_t{256} << 10;
constexpr size_t kDrainBytes = size_t{64} << 20;

constexpr uint64_t kWakeTag = ~uint64_t{0};
uint64_t socketTag(int rank) { return static_cast<uint64_t>(rank) * 2; }
uint64_t processTag(int rank) { return static_cast<uint64_t>(rank) * 2 + 1; }

/// All of one control plane; shared with its monitor thread.
class Monitor : public std::enable_shared_from_this<Monitor> {
 public:
  /// `peers` are for the watch over the links to other hosts, which the first rank of a host keeps.
  Monitor(int rank, const std::vector<PeerInfo>& peers, std::vector<PeerSocket> sockets);
  void start() {
    thread_.start("tutti-monitor", [self = shared_from_this()] { self->run(); });
  }
  void finish();
  Dispatcher& dispatcher() { return dispatcher_; }
  void send(int to, ControlMessage message);
  void leave();
  void awaitSent(const base::Deadline& deadline);
  bool runs(int rank) const {
    return rank != rank_ && peers_[static_cast<size_t>(rank)]->link.processRuns();
  }

 private:
  struct Peer {
    explicit Peer(PeerSocket socket) : link(std::move(socket)) {}
    PeerLink link;
    std::atomic<bool> gone{false};     // what is sent to it is dropped
    std::atomic<bool> flooded{false};  // its queue is full: it does not read
    // Only the monitor's thread touches these.
    bool closed = false;
    bool watchesRoom = false;  // waits for room in the socket
    std::optional<Time::time_point> ended;
  };
  Peer& peer(int rank) { return *peers_[static_cast<size_t>(rank)]; }
  int size() const { return static_cast<int>(peers_.size()); }

  void wake();
  void run();
  void step();
  void handle(const epoll_event& event);
  void receive(int rank, size_t limitBytes);
  void take(int rank, Frame frame);
  void onEnd(int rank);
  void onProcessEnd(int rank);
  void loseEnded(std::chrono::milliseconds grace);
  void flush(int rank);
  void flushAll();
  void tick();
  void lookAtLinks();
  void lose(int rank, const std::string& how);
  void close(int rank);
  void watch(int fd, uint32_t events, uint64_t tag, int operation);
  void lastWords();

  const int rank_;
  std::vector<std::unique_ptr<Peer>> peers_;  // the own one is null
  base::FileDescriptor epoll_, wake_;
  Dispatcher dispatcher_;
  std::atomic<bool> stopping_{false}, left_{false};
  Time::time_point nextTick_ = Time::now() + kTick;
  const std::string self_;
  std::optional<LinkWatch> links_;
  Time::time_point nextLook_ = Time::now() + kLookAtLinks;
  base::ServiceThread thread_;
};

/// None where a lower rank shares this one's host, or there are no others.
std::optional<LinkWatch> watchOfHost(int rank, const std::vector<PeerInfo>& peers,
                                     const std::vector<PeerSocket>& sockets) {
  std::map<std::string, std::string> hosts;
  for (size_t other = 0; other < peers.size(); ++other) {
    if (other == static_cast<size_t>(rank)) continue;
    const std::string ip = peerIp(sockets[other].socket.get());
    if (ip.empty() && other < static_cast<size_t>(rank)) return std::nullopt;
    if (!ip.empty()) hosts.emplace(ip, peers[other].host);
  }
  if (hosts.empty()) return std::nullopt;
  return LinkWatch(std::move(hosts));
}

Monitor::Monitor(int rank, const std::vector<PeerInfo>& peers, std::vector<PeerSocket> sockets)
    : rank_(rank),
      epoll_(TUTTI_SYSCALL(::epoll_create1(EPOLL_CLOEXEC))),
      wake_(TUTTI_SYSCALL(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))),
      dispatcher_({.wake = [this] { wake(); },
                   .overflow =
                       [this](int from, const std::string& how) {
                         if (from != rank_) lose(from, how);
                       }}),
      self_(base::message("rank ", rank, " (", peers[static_cast<size_t>(rank)].describe(), ")")),
      links_(watchOfHost(rank, peers, sockets)) {
  watch(wake_.get(), EPOLLIN, kWakeTag, EPOLL_CTL_ADD);
  for (size_t i = 0; i < sockets.size(); ++i) {
    const int other = static_cast<int>(i);
    peers_.push_back(other == rank ? nullptr : std::make_unique<Peer>(std::move(sockets[i])));
    if (other == rank) continue;
    const PeerLink& link = peers_.back()->link;
    watch(link.socket(), EPOLLIN, socketTag(other), EPOLL_CTL_ADD);
    if (link.process() >= 0) watch(link.process(), EPOLLIN, processTag(other), EPOLL_CTL_ADD);
  }
}

void Monitor::watch(int fd, uint32_t events, uint64_t tag, int operation) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  TUTTI_SYSCALL(::epoll_ctl(epoll_.get(), operation, fd, &event));
}

void Monitor::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

void Monitor::finish() {
  dispatcher_.close();
  stopping_.store(true);
  wake();
  thread_.finish();
}

void Monitor::send(int to, ControlMessage message) {
  if (left_.load()) return;
  if (to == rank_) return dispatcher_.postMessage(rank_, std::move(message));
  Peer& receiver = peer(to);
  if (receiver.gone.load()) return;
  if (!receiver.link.queue(FrameKind::Message, std::move(message))) receiver.flooded.store(true);
  wake();
}

void Monitor::leave() {
  if (left_.exchange(true)) return;
  for (auto& other : peers_)
    if (other && !other->gone.load()) other->link.queue(FrameKind::Leave, {});
  wake();
}

void Monitor::awaitSent(const base::Deadline& deadline) {
  const auto waits = [](const std::unique_ptr<Peer>& other) {
    return other && !other->gone.load() && other->link.sendsWaiting();
  };
  base::Backoff backoff(false);
  while (std::ranges::any_of(peers_, waits) && !deadline.passed()) backoff.idle();
}

void Monitor::run() {
  while (!stopping_.load()) {
    try {
      step();
    } catch (const std::exception& error) {
      base::log(LogLevel::Error, "the control plane of rank ", rank_, ": ", error.what());
    }
  }
  lastWords();
}

void Monitor::step() {
  std::array<epoll_event, 64> events;
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(nextTick_ - Time::now()).count();
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 static_cast<int>(std::clamp<long>(left + 1, 0, 1000)));
  for (int i = 0; i < count; ++i) handle(events[static_cast<size_t>(i)]);
  dispatcher_.deliver();
  if (Time::now() >= nextTick_) tick();
}

void Monitor::handle(const epoll_event& event) {
  if (event.data.u64 == kWakeTag) {
    uint64_t ignored = 0;
    [[maybe_unused]] const ssize_t count = ::read(wake_.get(), &ignored, sizeof ignored);
    return flushAll();
  }
  const int rank = static_cast<int>(event.data.u64 / 2);
  if (peer(rank).closed) return;  // by an earlier event of the same turn
  try {
    if (event.data.u64 == processTag(rank)) return onProcessEnd(rank);
    if (event.events & EPOLLOUT) flush(rank);
    if (!peer(rank).closed && (event.events & ~uint32_t{EPOLLOUT})) receive(rank, kReadAtOnce);
  } catch (const std::exception& error) {
    lose(rank, error.what());
  }
}

void Monitor::receive(int rank, size_t limitBytes) {
  const PeerLink::Flow flow =
      peer(rank).link.read(limitBytes, [&](Frame frame) { take(rank, std::move(frame)); });
  if (flow == PeerLink::Flow::Ended) onEnd(rank);
}

void Monitor::take(int rank, Frame frame) {
  Peer& from = peer(rank);
  if (from.gone.load()) return;  // after it left
  if (frame.kind == FrameKind::Message)
    return dispatcher_.postMessage(rank, std::move(frame.message));
  from.gone.store(true);
  dispatcher_.postLeft(rank);
}

void Monitor::onEnd(int rank) {
  Peer& other = peer(rank);
  if (other.closed) return;
  if (other.gone.load()) return close(rank);
  if (other.link.process() < 0) {
    loseEnded(kNoGrace);
    return lose(rank, other.link.reason());
  }
  if (other.ended) return;
  other.ended = Time::now();  // tick() or the process's end says the rest
  watch(other.link.socket(), 0, socketTag(rank), EPOLL_CTL_DEL);
  if (other.link.processEnded()) loseEnded(kNoGrace);
}

// Those that ended so long ago, in the order in which they did: whoever ended later may have done
// so because of the others.
void Monitor::loseEnded(std::chrono::milliseconds grace) {
  std::vector<int> ended;
  for (int rank = 0; rank < size(); ++rank)
    if (peers_[static_cast<size_t>(rank)] && peer(rank).ended &&
        Time::now() - *peer(rank).ended >= grace)
      ended.push_back(rank);
  std::ranges::stable_sort(ended, {}, [&](int rank) { return *peer(rank).ended; });
  for (const int rank : ended)
    lose(rank, peer(rank).link.processEnded() ? "its process ended"
                                              : "closed its connection without leaving");
}

void Monitor::onProcessEnd(int rank) {
  receive(rank, kDrainBytes);
  Peer& other = peer(rank);
  if (other.closed) return;
  if (other.gone.load()) return close(rank);
  if (!other.ended) other.ended = Time::now();
  loseEnded(kNoGrace);
}

void Monitor::flushAll() {
  for (int rank = 0; rank < size(); ++rank)
    if (peers_[static_cast<size_t>(rank)] && !peer(rank).closed) flush(rank);
}

void Monitor::flush(int rank) {
  Peer& to = peer(rank);
  if (to.ended) return;
  // Not reading: the end is seen by the reading side, after what the peer sent before.
  [[maybe_unused]] const PeerLink::Flow flow = to.link.flush();
  if (to.flooded.load())
    return lose(rank, base::message("does not read: ", kMaxQueuedBytes, " bytes wait for it"));
  const bool waiting = flow == PeerLink::Flow::Open && to.link.sendsWaiting();
  if (waiting == to.watchesRoom) return;
  to.watchesRoom = waiting;
  watch(to.link.socket(), waiting ? EPOLLIN | EPOLLOUT : EPOLLIN, socketTag(rank), EPOLL_CTL_MOD);
}

void Monitor::tick() {
  flushAll();
  loseEnded(kEndGrace);
  dispatcher_.deliver();
  dispatcher_.tick();
  if (links_ && Time::now() >= nextLook_) lookAtLinks();
  nextTick_ = Time::now() + kTick;
}

void Monitor::lookAtLinks() {
  for (const std::string& line : links_->look(tcpConnections()))
    base::log(LogLevel::Warning, self_, ": ", line);
  nextLook_ = Time::now() + kLookAtLinks;
}

void Monitor::lose(int rank, const std::string& how) {
  Peer& other = peer(rank);
  if (other.closed) return;
  close(rank);
  if (!other.gone.exchange(true)) dispatcher_.postLost(rank, how);
}

void Monitor::close(int rank) {
  Peer& other = peer(rank);
  other.closed = true;
  // By name, because a copy in a forked child would keep them in the set.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, other.link.socket(), nullptr);
  if (other.link.process() >= 0)
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, other.link.process(), nullptr);
  other.ended.reset();
  other.link.close();
}

/// Sends what is queued, the news of leaving above all, for a moment at most.
void Monitor::lastWords() {
  const auto end = Time::now() + kFarewell;
  for (;;) {
    wire::PollSet room;
    bool waiting = false;
    for (auto& other : peers_) {
      if (!other || other->closed) continue;
      if (other->link.flush() == PeerLink::Flow::Ended || !other->link.sendsWaiting()) continue;
      room.add(other->link.socket(), POLLOUT);
      waiting = true;
    }
    if (!waiting || Time::now() >= end) break;
    room.wait(20);
  }
  for (int rank = 0; rank < size(); ++rank)
    if (peers_[static_cast<size_t>(rank)] && !peer(rank).closed) close(rank);
}

class SocketControlPlane final : public ControlPlane {
 public:
  SocketControlPlane(int rank, std::vector<PeerInfo> peers, std::vector<PeerSocket> sockets)
      : rank_(rank),
        peers_(std::move(peers)),
        monitor_(std::make_shared<Monitor>(rank, peers_, std::move(sockets))) {
    monitor_->start();
  }
  ~SocketControlPlane() override {
    if (guard_.inForkedChild()) {
      base::abandon(std::move(monitor_));
      return;
    }
    monitor_->finish();
  }
  SocketControlPlane(const SocketControlPlane&) = delete;
  SocketControlPlane& operator=(const SocketControlPlane&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  const PeerInfo& peer(int rank) const override {
    requireMembership(rank, size());
    return peers_[static_cast<size_t>(rank)];
  }
  void send(int to, ControlMessage message) override {
    guard_.requireOwner("send");
    requireMembership(to, size());
    requireLimits(message);
    monitor_->send(to, std::move(message));
  }
  void listen(uint64_t channel, ControlListener* listener) override {
    guard_.requireOwner("listen");
    monitor_->dispatcher().listen(channel, listener);
  }
  void ignore(uint64_t channel) override {
    guard_.requireOwner("ignore");
    monitor_->dispatcher().ignore(channel);
  }
  bool runs(int rank) const override {
    requireMembership(rank, size());
    return monitor_->runs(rank);
  }
  void leave() override {
    guard_.requireOwner("leave");
    monitor_->leave();
  }
  void awaitSent(const base::Deadline& deadline) override {
    guard_.requireOwner("awaitSent");
    monitor_->awaitSent(deadline);
  }

 private:
  const int rank_;
  const std::vector<PeerInfo> peers_;
  std::shared_ptr<Monitor> monitor_;
  const base::ProcessGuard guard_;
};

}  // namespace

PeerSocket sealedSocket(base::FileDescriptor socket, const wire::Key& session, int rank, int peer) {
  const auto keyFrom = [&](int from) {
    return wire::directionKey(session, base::message("control plane, from rank ", from));
  };
  return {.socket = std::move(socket), .sending = keyFrom(rank), .receiving = keyFrom(peer)};
}

std::shared_ptr<ControlPlane> makeSocketControlPlane(int rank, std::vector<PeerInfo> peers,
                                                     std::vector<PeerSocket> sockets) {
  TUTTI_ASSERT(peers.size() == sockets.size(), peers.size(), " ", sockets.size());
  return std::make_shared<SocketControlPlane>(rank, std::move(peers), std::move(sockets));
}

size_t socketControlPlaneDescriptors(int size) {
  return 2 * static_cast<size_t>(size - 1) + 2;  // sockets and pidfds, epoll, eventfd
}

}  // namespace tutti::bootstrap
