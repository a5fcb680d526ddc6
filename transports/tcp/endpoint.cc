#include "transports/tcp/endpoint.h"

#include <utility>

#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "transports/ring_layout.h"
#include "transports/tcp/endpoint_core.h"
#include "transports/tcp/hub.h"
#include "transports/tcp/probe.h"

namespace tutti::transports::tcp {
namespace {

// How long a rank that leaves waits while nothing gets through, and at most.
constexpr std::chrono::seconds kStuck{8}, kLongestDrain{60};

class TcpEndpoint final : public Endpoint {
 public:
  TcpEndpoint(std::shared_ptr<TcpHub> hub, int rank, int size, const RingLayout& layout,
              const TcpOptions& options)
      : hub_(std::move(hub)),
        core_(std::make_shared<EndpointCore>(*hub_, rank, size, layout, options)) {
    hub_->serve(core_);
  }

  ~TcpEndpoint() override {
    if (hub_->inForkedChild()) {
      base::abandon(std::move(core_));
      base::abandon(std::move(hub_));
      return;
    }
    core_->leave();
    hub_->linger(std::move(core_));
  }

  const char* name(int) const override { return "tcp"; }
  std::string ways(int peer) const override { return core_->ways(peer); }
  const RingLayout& layout() const override { return core_->layout(); }
  uint64_t memoryBytes() const override { return core_->memoryBytes(); }
  EndpointAddress address(int peer) override { return core_->address(peer); }
  void connect(int peer, EndpointAddress address) override { core_->connect(peer, address); }
  std::unique_ptr<ReachabilityProbe> probe(int peer, ReachabilityProbe::Scope) override {
    return probePlace(core_->probe(peer));
  }
  SendRing& sendRing(int peer, int channel) override { return core_->sendRing(peer, channel); }
  ReceiveRing& receiveRing(int peer, int channel) override {
    return core_->receiveRing(peer, channel);
  }
  bool goDirect(int, int, const DirectSlots&) override { return false; }
  bool progress() override { return core_->progress(); }
  void flush() override { core_->flush(); }

  void drain(const std::function<bool()>& hasFailed) override {
    base::Backoff backoff(false);
    const auto last = base::Deadline::after(kLongestDrain);
    auto stuck = base::Deadline::after(kStuck);
    core_->flush();
    while (!core_->settled() && !hasFailed() && !last.passed() && !stuck.passed()) {
      if (core_->progress()) {
        stuck = base::Deadline::after(kStuck);
        backoff.reset();
      } else {
        backoff.idle();
      }
    }
  }

  // The kernel has copies of what was sent, and nothing is read or written any more.
  bool cancelZeroCopy() override {
    core_->stop();
    return true;
  }

 private:
  std::shared_ptr<TcpHub> hub_;
  std::shared_ptr<EndpointCore> core_;
};

}  // namespace

std::unique_ptr<Endpoint> makeTcpEndpoint(std::shared_ptr<TcpHub> hub, int rank, int size,
                                          const RingLayout& layout, const TcpOptions& options) {
  TUTTI_REQUIRE(size >= 1 && rank >= 0 && rank < size, "rank ", rank, " of ", size);
  TUTTI_REQUIRE(options.streams >= 1 && options.streams <= kMostStreams, options.streams,
                " streams between two ranks: 1 to ", kMostStreams, " are possible");
  requireLayout(layout);
  return std::make_unique<TcpEndpoint>(std::move(hub), rank, size, layout, options);
}

}  // namespace tutti::transports::tcp
