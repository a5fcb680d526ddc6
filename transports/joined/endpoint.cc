#include "transports/joined/endpoint.h"

#include "src/base/check.h"
#include "transports/ring_layout.h"

namespace tutti::transports::joined {
namespace {

class JoinedEndpoint final : public Endpoint {
 public:
  JoinedEndpoint(std::unique_ptr<Endpoint> local, std::vector<int> localNumbers,
                 std::unique_ptr<Endpoint> remote)
      : local_(std::move(local)),
        localNumbers_(std::move(localNumbers)),
        remote_(std::move(remote)) {
    TUTTI_REQUIRE(local_->layout() == remote_->layout(), "two transports with ",
                  transports::describe(local_->layout()), " and with ",
                  transports::describe(remote_->layout()), " cannot be joined");
  }

  const char* name(int peer) const override {
    const Way way = to(peer);
    return way.endpoint.name(way.number);
  }
  bool isMemory(int peer) const override {
    const Way way = to(peer);
    return way.endpoint.isMemory(way.number);
  }
  std::string ways(int peer) const override {
    const Way way = to(peer);
    return way.endpoint.ways(way.number);
  }
  const RingLayout& layout() const override { return local_->layout(); }
  uint64_t memoryBytes() const override { return local_->memoryBytes() + remote_->memoryBytes(); }

  EndpointAddress address(int peer) override {
    requirePeer(peer);
    const Way way = to(peer);
    return way.endpoint.address(way.number);
  }
  void connect(int peer, EndpointAddress address) override {
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
    const bool localMoved = local_->progress();
    return remote_->progress() || localMoved;
  }
  void flush() override {
    local_->flush();
    remote_->flush();
  }
  void drain(const std::function<bool()>& hasFailed) override {
    local_->drain(hasFailed);
    remote_->drain(hasFailed);
  }
  void abandon() override { remote_->abandon(); }
  bool readsMemory(int peer) const override {
    const Way way = to(peer);
    return way.endpoint.readsMemory(way.number);
  }
  int readMemory(int peer, uint64_t address, std::byte* data, size_t bytes) override {
    const Way way = to(peer);
    return way.endpoint.readMemory(way.number, address, data, bytes);
  }
  bool isReadableByPeers(const std::byte* data, size_t bytes) const override {
    return local_->isReadableByPeers(data, bytes);
  }
  bool memoryCounts(int peer) const override {
    const Way way = to(peer);
    return way.endpoint.memoryCounts(way.number);
  }
  bool cancelZeroCopy() override {
    const bool localHas = local_->cancelZeroCopy();
    return remote_->cancelZeroCopy() && localHas;
  }

 private:
  struct Way {
    Endpoint& endpoint;
    int number;
  };
  bool exists(int peer) const {
    return peer >= 0 && static_cast<size_t>(peer) < localNumbers_.size();
  }
  void requirePeer(int peer) const {
    TUTTI_REQUIRE(exists(peer), "there is no peer ", peer, " among ", localNumbers_.size());
  }
  Way to(int peer) const {
    TUTTI_ASSERT(exists(peer), "no ring for peer ", peer, " of ", localNumbers_.size());
    const int local = localNumbers_[static_cast<size_t>(peer)];
    return local == kRemote ? Way{*remote_, peer} : Way{*local_, local};
  }

  const std::unique_ptr<Endpoint> local_;
  const std::vector<int> localNumbers_;
  const std::unique_ptr<Endpoint> remote_;
};

}  // namespace

std::unique_ptr<Endpoint> makeJoinedEndpoint(std::unique_ptr<Endpoint> local,
                                             std::vector<int> localNumbers,
                                             std::unique_ptr<Endpoint> remote) {
  return std::make_unique<JoinedEndpoint>(std::move(local), std::move(localNumbers),
                                          std::move(remote));
}

}  // namespace tutti::transports::joined
