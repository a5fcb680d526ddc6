#include "tests/support/sim/endpoint.h"

#include <mutex>
#include <unordered_map>

#include "src/base/check.h"
#include "transports/ring_layout.h"

namespace tutti::transports::sim {
namespace {

constexpr uint32_t kMagic = 0x6d697374;  // "tsim"

class SimEndpoint final : public Endpoint {
 public:
  SimEndpoint(std::shared_ptr<SimNetwork> network, int rank, uint32_t firstNumber)
      : network_(std::move(network)),
        rank_(rank),
        firstNumber_(firstNumber),
        connected_(static_cast<size_t>(network_->size())) {}

  const char* name(int) const override { return "sim"; }
  const RingLayout& layout() const override { return network_->layout(); }

  EndpointAddress address(int peer) override {
    requirePeer(peer);
    const RingLayout& l = layout();
    base::ByteWriter out;
    for (const uint64_t field :
         {uint64_t{kMagic}, network_->number(), static_cast<uint64_t>(rank_),
          static_cast<uint64_t>(peer), static_cast<uint64_t>(l.channels),
          static_cast<uint64_t>(l.slotCount), static_cast<uint64_t>(l.slotBytes)})
      out.put(field);
    return {out.take(), {}};
  }

  void connect(int peer, EndpointAddress address) override {
    requirePeer(peer);
    if (connected_[static_cast<size_t>(peer)])
      base::fail(ErrorCode::InvalidUsage, "rank ", rank_, " is connected to rank ", peer);
    check(peer, address.blob);
    connected_[static_cast<size_t>(peer)] = true;
  }

  SendRing& sendRing(int peer, int channel) override {
    std::lock_guard lock(mutex_);
    auto& ring = sendRings_[key(peer, channel)];
    if (!ring)
      ring = std::make_unique<SendRing>(network_->link(rank_, peer, channel).sender.memory(),
                                        firstNumber_);
    return *ring;
  }

  ReceiveRing& receiveRing(int peer, int channel) override {
    std::lock_guard lock(mutex_);
    auto& ring = receiveRings_[key(peer, channel)];
    if (!ring)
      ring = std::make_unique<ReceiveRing>(network_->link(peer, rank_, channel).receiver.memory(),
                                           firstNumber_);
    return *ring;
  }

  bool goDirect(int peer, int channel, const DirectSlots& slots) override {
    requirePeer(peer);
    network_->goDirect(peer, rank_, channel, slots);
    return true;
  }
  bool progress() override { return network_->progress(rank_); }
  // The network looks into all rings itself, and whoever waits for a message moves it.
  void flush() override {}
  void drain(const std::function<bool()>&) override {}
  bool cancelZeroCopy() override {
    network_->cancelZeroCopy(rank_);
    return true;
  }

 private:
  void requirePeer(int peer) const {
    TUTTI_REQUIRE(peer >= 0 && peer < network_->size() && peer != rank_, "rank ", rank_, " of ",
                  network_->size(), " has no peer ", peer);
  }

  void check(int peer, const base::Bytes& blob) const {
    base::ByteReader in(blob);
    if (const auto magic = in.get<uint64_t>("magic"); magic != kMagic)
      base::fail(ErrorCode::Refused, "not a simulated address: magic ", magic);
    const auto number = in.get<uint64_t>("network");
    const auto from = in.get<int64_t>("from");
    const auto to = in.get<int64_t>("to");
    const auto channels = in.get<uint64_t>("channels");
    const auto slotCount = in.get<uint64_t>("slotCount");
    const auto slotBytes = in.get<uint64_t>("slotBytes");
    if (from != peer || to != rank_ || !in.atEnd())
      base::fail(ErrorCode::Refused, "an address from rank ", from, " for rank ", to,
                 " came as that of rank ", peer, " for rank ", rank_);
    const RingLayout& l = layout();
    if (channels != static_cast<uint64_t>(l.channels) || slotCount != l.slotCount ||
        slotBytes != l.slotBytes)
      base::fail(ErrorCode::Refused, "ranks disagree about their rings: rank ", peer, " has ",
                 slotCount, " slots of ", slotBytes, " bytes in ", channels, " channels, rank ",
                 rank_, " has ", describe(layout()));
    if (number != network_->number())
      base::fail(ErrorCode::Refused, "rank ", peer, " is in the simulated network ", number,
                 ", rank ", rank_, " in ", network_->number());
  }

  uint64_t key(int peer, int channel) const {
    TUTTI_ASSERT(peer >= 0 && peer < network_->size() && connected_[static_cast<size_t>(peer)] &&
                     channel >= 0 && channel < layout().channels,
                 "rank ", rank_, " has no ring for peer ", peer, " and channel ", channel,
                 "; is it connected?");
    return static_cast<uint64_t>(peer) << 32 | static_cast<uint64_t>(channel);
  }

  const std::shared_ptr<SimNetwork> network_;
  const int rank_;
  const uint32_t firstNumber_;
  std::vector<bool> connected_;
  std::mutex mutex_;  // guards the maps; different rings may belong to different threads
  std::unordered_map<uint64_t, std::unique_ptr<SendRing>> sendRings_;
  std::unordered_map<uint64_t, std::unique_ptr<ReceiveRing>> receiveRings_;
};

}  // namespace

std::unique_ptr<Endpoint> makeSimEndpoint(std::shared_ptr<SimNetwork> network, int rank) {
  TUTTI_REQUIRE(rank >= 0 && rank < network->size(), "rank ", rank, " of ", network->size());
  const uint32_t first = network->options().firstNumber;
  return std::make_unique<SimEndpoint>(std::move(network), rank, first);
}

}  // namespace tutti::transports::sim
