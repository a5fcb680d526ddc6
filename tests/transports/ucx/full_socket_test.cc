// Endpoints over UCX whose peer takes nothing any more, until the socket to it is full.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <optional>

#include <tutti/error.h>
#include "src/base/clock.h"
#include "src/base/tcp_sockets.h"
#include "tests/support/leftovers.h"
#include "tests/support/outcome.h"
#include "tests/transports/ucx/endpoints.h"
#include "transports/ucx/worker.h"
#include "transports/ucx/worker_sockets.h"

namespace tutti::tests {
namespace {

// What the kernel does by chance: what was sent before has filled a socket to the brim, so that it
// does not take UCX's word that the connection closes. Who tries for too long is told that it
// broke.
std::atomic<bool> takesNoLastWord{false}, triedForLong{false};
std::atomic<int> lastWords{0};
constexpr size_t kLastWordBytes = 9;

}  // namespace
}  // namespace tutti::tests

extern "C" ssize_t send(int socket, const void* data, size_t bytes, int flags) {
  using namespace tutti;
  static thread_local std::optional<base::Deadline> patience;
  tests::lastWords += bytes == tests::kLastWordBytes;
  if (!tests::takesNoLastWord || bytes != tests::kLastWordBytes ||
      !transports::ucx::isFull(socket)) {
    patience.reset();
    return ::sendto(socket, data, bytes, flags, nullptr, 0);
  }
  if (!patience) patience = base::Deadline::after(std::chrono::seconds(2));
  tests::triedForLong = tests::triedForLong || patience->passed();
  errno = patience->passed() ? EPIPE : EAGAIN;
  return -1;
}

namespace tutti::tests {
namespace {

using transports::ReceiveRing;
using transports::SendRing;

/// Rank 0 sends to rank 1, which takes nothing any more, until its socket is full, though UCX has
/// returned all of it. Both use one socket.
class UcxFull : public testing::Test {
 protected:
  /// `rendezvous`: from how many bytes on messages are fetched.
  void fill(const char* rendezvous) {
    workers_ = makeWorkers(2, {.devices = "lo", .tls = "tcp,self", .rendezvous = rendezvous});
    all_ = makeEndpoints(workers_, {.channels = 1, .slotCount = kSlots, .slotBytes = kLarge});
    connectAll(all_);
    ring();
    settleAll(all_);
    ReceiveRing& other = all_[1]->receiveRing(0, 0);
    publishZeroCopy(kSmall);
    ASSERT_TRUE(progressUntil(all_, [&] { return other.ready() && ring().completed(1); }));
    settleAll(all_);
    stopped_ = workers_[1]->lock();  // its thread waits for it too
    while (!aSocketStaysFull()) {
      ASSERT_LT(ring().sent(), kSlots);
      publishZeroCopy(kSmall);
      ASSERT_TRUE(eventually([&] {
        all_[0]->progress();
        return ring().completed(ring().sent());
      }));
    }
  }
  void TearDown() override {
    takesNoLastWord = false;
    EXPECT_FALSE(triedForLong.exchange(false)) << "UCX tried to say it until it was stopped";
    EXPECT_GT(lastWords.exchange(0), 0)
        << "none was seen, not even of those of a connection that is made";
  }
  SendRing& ring() { return all_[0]->sendRing(1, 0); }
  void publishZeroCopy(uint32_t bytes) { ring().publishZeroCopy(memory_.data(), 1, 1, bytes); }

  static constexpr uint32_t kSmall = 15000, kLarge = 1 << 20, kSlots = 64;
  const Variable sends_{"UCX_TCP_SNDBUF", "64K"}, receives_{"UCX_TCP_RCVBUF", "64K"};
  std::vector<std::byte> memory_ = std::vector<std::byte>(kLarge);
  Workers workers_;
  Endpoints all_;
  std::unique_lock<std::mutex> stopped_;

  static std::optional<int> socketThat(const std::function<bool(int)>& is) {
    for (const auto& each : base::tcpSockets())
      if (is(each.socket)) return each.socket;
    return std::nullopt;
  }
  static std::optional<int> fullSocket() { return socketThat(transports::ucx::isFull); }

 private:
  static bool aSocketStaysFull() {
    for (const auto end = base::Deadline::after(std::chrono::milliseconds(300)); !end.passed();)
      if (!fullSocket()) return false;
    return true;
  }
};

TEST_F(UcxFull, MayBeLeft) {
  fill("inf");
  all_[0].reset();
  takesNoLastWord = true;
  workers_[0].reset();
}

using AddressOf = int(int, sockaddr*, socklen_t*);

uint16_t portOf(int socket, AddressOf* addressOf) {
  sockaddr_in address{};
  socklen_t bytes = sizeof address;
  addressOf(socket, reinterpret_cast<sockaddr*>(&address), &bytes);
  return address.sin_port;
}

// Part of a message is unsent, and something of the peer's unread: UCX reads that first, and hears
// of the end when it sends.
TEST_F(UcxFull, OutlivesItsConnection) {
  fill("inf");
  publishZeroCopy(kLarge);
  all_[0]->progress();
  ASSERT_FALSE(ring().completed(ring().sent()));
  auto still = workers_[0]->lock();
  const std::optional<int> full = fullSocket();
  ASSERT_TRUE(full);
  const std::optional<int> others = socketThat([&](int each) {
    return portOf(each, ::getsockname) == portOf(*full, ::getpeername) &&
           portOf(each, ::getpeername) == portOf(*full, ::getsockname);
  });
  ASSERT_TRUE(others);
  ASSERT_EQ(::write(*others, "", 1), 1);
  const unsigned patienceMs = 100;
  ASSERT_EQ(::setsockopt(*full, IPPROTO_TCP, TCP_USER_TIMEOUT, &patienceMs, sizeof patienceMs), 0);
  pollfd end{*full, 0, 0};
  ASSERT_TRUE(eventually([&] { return ::poll(&end, 1, 10) == 1; })) << "its kernel gives up";
  still.unlock();
  const auto outcome = outcomeOf([&] {
    eventually([&] {
      all_[0]->progress();
      return false;
    });
  });
  EXPECT_EQ(outcome.code, ErrorCode::PeerLost) << outcome.text;
}

TEST_F(UcxFull, CancelsZeroCopySends) {
  fill("16384");
  publishZeroCopy(kLarge);
  for (int i = 0; i < 100; ++i) all_[0]->progress();
  EXPECT_FALSE(ring().completed(ring().sent()));
  takesNoLastWord = true;
  cancelZeroCopy(*all_[0]);
  stopped_.unlock();
  const auto outcome = outcomeOf([&] { progressUntil(all_, [] { return false; }); });
  EXPECT_EQ(outcome.code, ErrorCode::PeerLost) << outcome.text;
}

}  // namespace
}  // namespace tutti::tests
