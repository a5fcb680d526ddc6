#include "transports/ucx/endpoint.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <vector>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "transports/ring_layout.h"
#include "transports/ucx/address.h"
#include "transports/ucx/peer.h"
#include "transports/ucx/worker.h"

namespace tutti::transports::ucx {
namespace {

// How long nothing may move of what was sent zero-copy and is on its way, or on its way to direct
// slots; and how long UCX has to let go of it when its connection was given up.
constexpr std::chrono::milliseconds kPatience{500}, kHope{5000};

class UcxEndpoint final : public Endpoint {
 public:
  UcxEndpoint(std::shared_ptr<Worker> worker, int rank, int size, const RingLayout& layout)
      : worker_(std::move(worker)),
        rank_(rank),
        size_(size),
        layout_(layout),
        peers_(static_cast<size_t>(size)) {
    used_.reserve(peers_.size());
  }

  ~UcxEndpoint() override {
    if (worker_->inForkedChild()) {
      for (auto& peer : peers_) static_cast<void>(peer.release());
      return;
    }
    const auto lock = worker_->lock();
    peers_.clear();
  }

  const char* name(int) const override { return "ucx"; }
  std::string ways(int peer) const override {
    requirePeer(peer);
    return peers_[static_cast<size_t>(peer)]->ways();
  }
  const RingLayout& layout() const override { return layout_; }
  uint64_t memoryBytes() const override {
    const auto lock = worker_->lock();
    uint64_t rings = 0;
    for (const auto& peer : peers_)
      if (peer) rings += peer->rings();
    return rings * slotsBytes(layout_);
  }

  EndpointAddress address(int peer) override {
    requirePeer(peer);
    const auto lock = worker_->lock();
    const UcxAddressBlob blob{rank_,
                              peer,
                              size_,
                              layout_,
                              at(peer).sink(),
                              worker_->address(),
                              worker_->devices(),
                              worker_->responder(),
                              worker_->sources()};
    return {blob.write(), {}};
  }

  void connect(int peer, EndpointAddress address) override {
    requirePeer(peer);
    const auto lock = worker_->lock();
    if (at(peer).addressed())
      base::fail(ErrorCode::InvalidUsage, "rank ", rank_, " is connected to rank ", peer);
    UcxAddressBlob blob = UcxAddressBlob::read(address.blob);
    check(peer, blob);
    at(peer).setAddress(std::move(blob));
  }

  std::unique_ptr<ReachabilityProbe> probe(int peer, ReachabilityProbe::Scope places) override {
    requirePeer(peer);
    const ProbeAddress responder = [&] {
      const auto lock = worker_->lock();
      return at(peer).responder();
    }();
    return responder.places.empty() ? nullptr : probeAddress(responder, places);
  }

  SendRing& sendRing(int peer, int channel) override {
    const auto lock = worker_->lock();
    return connected(peer, channel).sendRing(channel);
  }

  ReceiveRing& receiveRing(int peer, int channel) override {
    const auto lock = worker_->lock();
    return connected(peer, channel).receiveRing(channel);
  }

  bool goDirect(int peer, int channel, const DirectSlots& slots) override {
    requirePeer(peer);
    TUTTI_REQUIRE(slots.leastBytes > kInlineBytes && slots.strideBytes >= layout_.slotBytes,
                  "direct messages from ", slots.leastBytes, " bytes on, ", slots.strideBytes,
                  " bytes apart, over ", describe(layout_));
    const auto lock = worker_->lock();
    connected(peer, channel).goDirect(channel, slots);
    if (slots.enter) worker_->enterOnThread(slots.enter);
    return true;
  }

  // Credits travel with messages where they can: those that are left go when nothing else does.
  bool progress() override {
    const auto lock = worker_->lock();
    bool moved = post(false);
    moved |= worker_->progress();
    if (!moved) moved = post(true);
    for (size_t i = 0; i < used_.size(); ++i) used_[i]->throwFailure();
    return moved;
  }

  // The worker's own thread sees to the rest.
  void flush() override {
    const auto lock = worker_->lock();
    post(true);
  }

  void drain(const std::function<bool()>& hasFailed) override {
    const auto sent = [&] {
      post(true);
      return std::ranges::all_of(used_, [](const UcxPeer* peer) { return peer->sent(); });
    };
    if (!worker_->awaitWhileMoving(sent, hasFailed)) return;
    const auto left = std::make_shared<size_t>(0);
    {
      const auto lock = worker_->lock();
      for (UcxPeer* peer : used_) peer->flush(left);
    }
    worker_->awaitWhileMoving([&] { return *left == 0; }, hasFailed);
  }

  void abandon() override {
    const auto lock = worker_->lock();
    worker_->abandon();
  }

  // As long as something is taken there is no haste; what is not taken would be read for ever.
  bool cancelZeroCopy() override {
    const auto lock = worker_->lock();
    for (UcxPeer* peer : used_) peer->stop();
    worker_->progress();
    size_t left = 0;
    for (const UcxPeer* peer : used_) left += peer->zeroCopyUnderWay();
    if (left == 0) return true;
    if (left != cancelled_) {
      cancelled_ = left;
      patience_ = base::Deadline::after(kPatience);
      hope_ = base::Deadline::after(kHope);
    } else if (hope_->passed()) {
      base::log(LogLevel::Error, "rank ", rank_, ": UCX still uses the memory of ", left,
                " messages of an operation that has failed");
      return true;
    } else if (patience_->passed() && worker_->awaitRoom()) {
      for (UcxPeer* peer : used_)
        if (peer->zeroCopyUnderWay() > 0) peer->disconnect();
    }
    return false;
  }

 private:
  bool post(bool idle) {
    bool any = false;
    for (size_t i = 0; i < used_.size(); ++i) any |= used_[i]->post(idle);
    return any;
  }

  void requirePeer(int peer) const {
    TUTTI_REQUIRE(peer >= 0 && peer < size_ && peer != rank_, "rank ", rank_, " of ", size_,
                  " has no peer ", peer);
  }

  UcxPeer& at(int peer) {
    auto& place = peers_[static_cast<size_t>(peer)];
    if (!place) place = std::make_unique<UcxPeer>(*worker_, rank_, peer, layout_, used_);
    return *place;
  }

  UcxPeer& connected(int peer, int channel) {
    TUTTI_ASSERT(peer >= 0 && peer < size_ && peers_[static_cast<size_t>(peer)] &&
                     at(peer).addressed() && channel >= 0 && channel < layout_.channels,
                 "rank ", rank_, " has no ring for peer ", peer, " and channel ", channel,
                 "; is it connected?");
    return at(peer);
  }

  void check(int peer, const UcxAddressBlob& blob) const {
    if (blob.from != peer || blob.to != rank_ || blob.size != size_)
      base::fail(ErrorCode::Refused, "an address from rank ", blob.from, " for rank ", blob.to,
                 " of ", blob.size, " came as that of rank ", peer, " for rank ", rank_, " of ",
                 size_);
    requireSameLayout(peer, blob.layout, rank_, layout_);
  }

  const std::shared_ptr<Worker> worker_;
  const int rank_, size_;
  const RingLayout layout_;
  std::vector<std::unique_ptr<UcxPeer>> peers_;  // by rank; made when its address is made or known
  std::vector<UcxPeer*> used_;                   // those with which something is exchanged
  size_t cancelled_ = 0;  // messages that were being read at the last cancelZeroCopy
  std::optional<base::Deadline> patience_, hope_;
};

}  // namespace

std::unique_ptr<Endpoint> makeUcxEndpoint(std::shared_ptr<Worker> worker, int rank, int size,
                                          const RingLayout& layout) {
  TUTTI_REQUIRE(size >= 1 && rank >= 0 && rank < size, "rank ", rank, " of ", size);
  requireLayout(layout);
  return std::make_unique<UcxEndpoint>(std::move(worker), rank, size, layout);
}

}  // namespace tutti::transports::ucx
