// Frames of the transport `tcp`: what a peer sends behind the handshake, as the other end takes it.
// What is received lies in its slot or where it is wanted, and nothing else is written.
//
// First byte: how many bytes come at once; second: messages that this rank has sent, and whether it
// says where payloads go.

#include <sys/epoll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <vector>

#include "tests/fuzz/fuzz.h"
#include "transports/tcp/peer.h"

namespace tutti::fuzz {
namespace {

namespace tcp = transports::tcp;
constexpr transports::RingLayout kLayout{.channels = 2, .slotCount = 2, .slotBytes = 64};
constexpr size_t kGuard = 64;
constexpr std::byte kFill{0xa5};

class Victim {
 public:
  explicit Victim(uint8_t setting) : expects_(setting % 2 == 1) {
    int ends[2] = {-1, -1};
    TUTTI_SYSCALL(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends));
    other_ = base::FileDescriptor(ends[1]);
    used_.reserve(2);
    peer_.setAddress({.from = 1, .to = 0, .size = 2, .layout = kLayout});
    for (uint8_t i = 0; i < setting / 2 % 3; ++i) peer_.sendRing(0).publish(1, 1, 8);
    receive_ = &peer_.receiveRing(0);
    peer_.post();
    peer_.adopt(0, {base::FileDescriptor(ends[0]), {}, {1, 1}}, now_);
  }
  /// False once the peer was refused.
  bool take(const base::Bytes& part) {
    const ssize_t sent = ::send(other_.get(), part.data(), part.size(), MSG_NOSIGNAL);
    if (sent < static_cast<ssize_t>(part.size())) return false;
    if (expects_) receive_->expect(wanted_.data() + kGuard, 40, 0x01010101, 0x01010101);
    peer_.receive(*peer_.streams()[0], 1 << 16, now_);
    peer_.send();
    bool refused = false;
    takes({ErrorCode::Refused}, [&] {
      refused = true;
      peer_.throwFailure();
      refused = false;
    });
    while (!refused && receive_->ready()) {
      expect(receive_->slot()->bytes <= kLayout.slotBytes, "a message fits its slot");
      receive_->release();
    }
    for (size_t i = 0; i < kGuard; ++i)
      expect(wanted_[i] == kFill && wanted_[kGuard + 40 + i] == kFill, "nothing beside the place");
    return !refused && peer_.streams()[0]->connected();
  }

 private:
  const bool expects_;
  const std::chrono::steady_clock::time_point now_{};
  std::vector<std::byte> wanted_ = std::vector<std::byte>(2 * kGuard + 40, kFill);
  base::FileDescriptor other_;
  const base::FileDescriptor epoll_{::epoll_create1(EPOLL_CLOEXEC)};
  std::vector<tcp::TcpPeer*> used_;
  bool urgent_ = false;
  const tcp::TcpPeer::Place place_{.rank = 0,
                                   .size = 2,
                                   .layout = kLayout,
                                   .epoll = epoll_.get(),
                                   .device = "lo",
                                   .used = &used_,
                                   .urgent = &urgent_};
  tcp::TcpPeer peer_{place_, 1, 7};
  transports::ReceiveRing* receive_ = nullptr;
};

}  // namespace
}  // namespace tutti::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  fuzz::Input input(data, size);
  const size_t atOnce = 1 + size_t{input.byte()};
  fuzz::Victim victim(input.byte());
  while (!input.empty())
    if (!victim.take(input.some(atOnce))) break;
  return 0;
}
