#include "transports/tcp/probe.h"

#include <cstring>
#include <optional>

#include "src/base/check.h"
#include "src/wire/handshake_connection.h"

namespace tutti::transports::tcp {
namespace {

class TcpProbe final : public ReachabilityProbe {
 public:
  explicit TcpProbe(const Dial& dial) : place_(dial.place) {
    wire::Connecting made = wire::startConnecting(dial.place);
    if (made.error != 0)
      fail(made.error);
    else
      connection_.emplace(
          std::move(made.socket),
          wire::Handshake::connecting(dial.credentials, wire::HandshakePurpose::Data, dial.claim,
                                      dial.peer));
  }

  Finding look() override {
    if (!connection_ || finding_ == Finding::Peer || finding_ == Finding::Elsewhere ||
        finding_ == Finding::Unreachable)
      return finding_;
    wire::PollSet set;
    connection_->watch(set);
    set.wait(0);
    try {
      connection_->advance(set);
    } catch (const Error& error) {
      why_ = error.what();
      return finding_ = Finding::Elsewhere;
    }
    if (connection_->authenticated()) return finding_ = Finding::Peer;
    if (connection_->ended()) {
      fail(connection_->error());
      return finding_;
    }
    // What is to be said goes only when there is a connection.
    if (finding_ == Finding::Silence && connection_->flushed()) finding_ = Finding::Host;
    return finding_;
  }

  bool heard() const override { return finding_ == Finding::Host || finding_ == Finding::Peer; }

  std::string describe() const override {
    return base::message(place_.describe(), why_.empty() ? "" : " (" + why_ + ")");
  }

 private:
  // Nobody there, or somebody who does not want this rank: an address of another host.
  void fail(int error) {
    why_ = error == 0 ? "it closed the connection" : std::strerror(error);
    const bool isCut = error == ENETUNREACH || error == EHOSTUNREACH;
    const bool isSilent = error == ETIMEDOUT;
    finding_ = isCut ? Finding::Unreachable : isSilent ? Finding::Silence : Finding::Elsewhere;
    connection_.reset();
  }

  const wire::Address place_;
  std::optional<wire::HandshakeConnection> connection_;
  Finding finding_ = Finding::Silence;
  std::string why_;
};

}  // namespace

std::unique_ptr<ReachabilityProbe> probePlace(const Dial& dial) {
  return std::make_unique<TcpProbe>(dial);
}

}  // namespace tutti::transports::tcp
