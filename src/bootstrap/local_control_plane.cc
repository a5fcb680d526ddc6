#include "src/bootstrap/local_control_plane.h"

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "src/base/clock.h"
#include "src/base/process.h"
#include "src/base/service_thread.h"
#include "src/bootstrap/dispatcher.h"
#include "src/bootstrap/host_facts.h"

namespace tutti::bootstrap {
namespace {

class Hub : public std::enable_shared_from_this<Hub> {
 public:
  explicit Hub(int size) : info_(describeThisProcess()), attached_(size) {
    nodes_.reserve(static_cast<size_t>(size));
    for (int rank = 0; rank < size; ++rank) nodes_.push_back(std::make_unique<Node>(*this, rank));
  }

  void start() {
    thread_.start("tutti-monitor", [self = shared_from_this()] { self->run(); });
  }
  void finish() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    ready_.notify_all();
    thread_.finish();
  }

  int size() const { return static_cast<int>(nodes_.size()); }
  const PeerInfo& info() const { return info_; }
  Dispatcher& dispatcher(int rank) { return nodes_[static_cast<size_t>(rank)]->dispatcher; }

  void send(int from, int to, ControlMessage message) {
    Node& sender = *nodes_[static_cast<size_t>(from)];
    std::lock_guard lock(sender.sending);  // so that nothing follows the news of its end
    if (!sender.gone) dispatcher(to).postMessage(from, std::move(message));
  }
  void lose(int rank, const std::string& how) {
    end(rank, [&](Dispatcher& other) { other.postLost(rank, how); });
  }
  void leave(int rank) {
    end(rank, [&](Dispatcher& other) { other.postLeft(rank); });
  }
  /// The last control plane that detaches ends the monitor thread.
  void detach(int rank) {
    dispatcher(rank).close();
    if (attached_.fetch_sub(1) == 1) finish();
  }

 private:
  struct Node {
    Node(Hub& hub, int rank)
        : dispatcher(
              {.wake = [&hub, rank] { hub.wake(rank); },
               .overflow = [&hub](int peer, const std::string& how) { hub.lose(peer, how); }}) {}
    Dispatcher dispatcher;
    std::mutex sending;
    bool gone = false;    // under `sending`
    bool queued = false;  // under Hub::mutex_: in queue_
  };

  template <class Tell>
  void end(int rank, const Tell& tell) {
    Node& node = *nodes_[static_cast<size_t>(rank)];
    std::lock_guard lock(node.sending);
    if (std::exchange(node.gone, true)) return;
    for (int other = 0; other < size(); ++other)
      if (other != rank) tell(dispatcher(other));
  }

  void wake(int rank) {
    {
      std::lock_guard lock(mutex_);
      if (std::exchange(nodes_[static_cast<size_t>(rank)]->queued, true)) return;
      queue_.push_back(rank);
    }
    ready_.notify_one();
  }

  void run() {
    auto nextTick = std::chrono::steady_clock::now() + kTick;
    for (;;) {
      std::vector<int> ranks;
      {
        std::unique_lock lock(mutex_);
        ready_.wait_until(lock, nextTick, [&] { return stopping_ || !queue_.empty(); });
        if (stopping_) return;
        ranks.swap(queue_);
        for (int rank : ranks) nodes_[static_cast<size_t>(rank)]->queued = false;
      }
      for (int rank : ranks) dispatcher(rank).deliver();
      if (std::chrono::steady_clock::now() < nextTick) continue;
      for (auto& node : nodes_) node->dispatcher.tick();
      nextTick = std::chrono::steady_clock::now() + kTick;
    }
  }

  const PeerInfo info_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::atomic<int> attached_;  // control planes that are alive
  std::mutex mutex_;
  std::condition_variable ready_;
  bool stopping_ = false;
  std::vector<int> queue_;
  base::ServiceThread thread_;
};

class LocalControlPlane final : public ControlPlane {
 public:
  LocalControlPlane(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}
  ~LocalControlPlane() override {
    if (guard_.inForkedChild()) {
      base::abandon(std::move(hub_));
      return;
    }
    hub_->lose(rank_, "closed its communicator without leaving");  // nothing after leave()
    hub_->detach(rank_);
  }
  LocalControlPlane(const LocalControlPlane&) = delete;
  LocalControlPlane& operator=(const LocalControlPlane&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return hub_->size(); }
  const PeerInfo& peer(int rank) const override {
    requireMembership(rank, size());
    return hub_->info();
  }
  void send(int to, ControlMessage message) override {
    guard_.requireOwner("send");
    requireMembership(to, size());
    requireLimits(message);
    hub_->send(rank_, to, std::move(message));
  }
  void listen(uint64_t channel, ControlListener* listener) override {
    guard_.requireOwner("listen");
    hub_->dispatcher(rank_).listen(channel, listener);
  }
  void ignore(uint64_t channel) override {
    guard_.requireOwner("ignore");
    hub_->dispatcher(rank_).ignore(channel);
  }
  bool runs(int) const override { return false; }  // a thread has no process of its own
  void leave() override {
    guard_.requireOwner("leave");
    hub_->leave(rank_);
  }
  void awaitSent(const base::Deadline&) override {}  // it is there at once
  void kill(const std::string& how) {
    hub_->lose(rank_, how);
    hub_->dispatcher(rank_).close();
  }

 private:
  std::shared_ptr<Hub> hub_;
  const int rank_;
  const base::ProcessGuard guard_;
};

}  // namespace

std::vector<std::shared_ptr<ControlPlane>> makeLocalControlPlanes(int size) {
  requireWorldSize(size);
  auto hub = std::make_shared<Hub>(size);
  std::vector<std::shared_ptr<ControlPlane>> planes;
  planes.reserve(static_cast<size_t>(size));
  hub->start();
  for (int rank = 0; rank < size; ++rank)
    planes.push_back(std::make_shared<LocalControlPlane>(hub, rank));
  return planes;
}

void killLocalRank(ControlPlane& plane, const std::string& how) {
  auto* local = dynamic_cast<LocalControlPlane*>(&plane);
  TUTTI_REQUIRE(local, "rank ", plane.rank(), " is not a local rank");
  local->kill(how);
}

}  // namespace tutti::bootstrap
