#include "transports/joined/endpoint.h"

#include "src/base/check.h"
#include "transports/ring_layout.h"

namespace tutti::transports::joined {
namespace {

class JoinedEndpoint final : public Endpoint {
 public:
  JoinedEndpoint(std::unique_ptr<Endpoint> near, std::vector<int> nearNumbers,
                 std::unique_ptr<Endpoint> far)
      : near_(std::move(near)), nearNumbers_(std::move(nearNumbers)), far_(std::move(far)) {
    TUTTI_REQUIRE(near_->layout() == far_->layout(), "two transports with ",
                  transports::describe(near_->layout()), " and with ",
                  transports::describe(far_->layout()), " cannot be joined");
  }

  const char* name(int peer) const override {
    const Way way = to(peer);
    return way.endpoint.name(way.number);
  }
  std::string ways(int peer) const override {
    const Way way = to(peer);
    return way.endpoint.ways(way.number);
  }
  const RingLayout& layout() const override { return near_->layout(); }

  Address address(int peer) override {
    requirePeer(peer);
    const Way way = to(peer);
    return way.endpoint.address(way.number);
  }
  void connect(int peer, Address address) override {
    requirePeer(peer);
    const Way way = to(peer);
    way.endpoint.connect(way.number, std::move(address));
  }
  std::unique_ptr<ReachabilityProbe> probe(int peer, ReachabilityProbe::Scope places) override {
    const Way way = to(peer);
    return way.endpoint.probe(way.number, places);
  }
  SendRing& sendRing(int peer, int channel) override {
    const Way way = to(peer);
    return way.endpoint.sendRing(way.number, channel);
  }
  ReceiveRing& receiveRing(int peer, int channel) override {
    const Way way = to(peer);
    return way.endpoint.receiveRing(way.number, channel);
  }
  bool goDirect(int peer, int channel, const DirectSlots& slots) override {
    const Way way = to(peer);
    return way.endpoint.goDirect(way.number, channel, slots);
  }
  bool progress() override {
    const bool nearMoved = near_->progress();
    return far_->progress() || nearMoved;
  }
  void flush() override {
    near_->flush();
    far_->flush();
  }
  void drain(const std::function<bool()>& hasFailed) override {
    near_->drain(hasFailed);
    far_->drain(hasFailed);
  }
  void abandon() override { far_->abandon(); }
  bool cancelZeroCopy() override {
    const bool nearHas = near_->cancelZeroCopy();
    return far_->cancelZeroCopy() && nearHas;
  }

 private:
  struct Way {
    Endpoint& endpoint;
    int number;
  };
  bool exists(int peer) const {
    return peer >= 0 && static_cast<size_t>(peer) < nearNumbers_.size();
  }
  void requirePeer(int peer) const {
    TUTTI_REQUIRE(exists(peer), "there is no peer ", peer, " among ", nearNumbers_.size());
  }
  Way to(int peer) const {
    TUTTI_ASSERT(exists(peer), "no ring for peer ", peer, " of ", nearNumbers_.size());
    const int near = nearNumbers_[static_cast<size_t>(peer)];
    return near == kFar ? Way{*far_, peer} : Way{*near_, near};
  }

  const std::unique_ptr<Endpoint> near_;
  const std::vector<int> nearNumbers_;
  const std::unique_ptr<Endpoint> far_;
};

}  // namespace

std::unique_ptr<Endpoint> makeJoinedEndpoint(std::unique_ptr<Endpoint> near,
                                             std::vector<int> nearNumbers,
                                             std::unique_ptr<Endpoint> far) {
  return std::make_unique<JoinedEndpoint>(std::move(near), std::move(nearNumbers), std::move(far));
}

}  // namespace tutti::transports::joined
