// A peer that is proved, and lies: nothing of this rank's memory is read or written after it was
// given back. And what somebody on the way adds to a sealed connection.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <thread>

#include <tutti/error.h>
#include "tests/support/outcome.h"
#include "tests/support/text.h"
#include "tests/transports/tcp/raw_peer.h"

namespace tutti::tests {
namespace {

using transports::ReceiveRing;
using transports::RingLayout;
using transports::SendRing;
using transports::tcp::CreditWord;
using transports::tcp::FrameType;

constexpr uint32_t kLarge = 8 << 20;

/// Rank 0 alone, with a peer that a test plays.
class TcpLyingPeer : public testing::Test {
 protected:
  explicit TcpLyingPeer(uint32_t streams = 1)
      : endpoint_(transports::tcp::makeTcpEndpoint(hub_, 0, 2, kLayout, {.streams = streams})),
        peer_(*endpoint_, kLayout, streams) {}

  /// What rank 0 says in the end; "no error" if it says nothing.
  std::string refusal() {
    std::string text = "no error";
    const auto deadline = base::Deadline::after(std::chrono::seconds(5));
    while (text == "no error" && !deadline.passed())
      text = outcomeOf([&] { endpoint_->progress(); }).text;
    return text;
  }
  void progressFor(std::chrono::milliseconds time) {
    for (const auto end = base::Deadline::after(time); !end.passed();)
      static_cast<void>(outcomeOf([&] { endpoint_->progress(); }));
  }
  static void giveCredit(const base::FileDescriptor& socket, uint32_t messages) {
    const CreditWord word{.channel = 0, .messages = messages};
    RawPeer::send(socket, {.type = FrameType::State, .bytes = sizeof word},
                  std::as_bytes(std::span(&word, 1)));
  }

  static constexpr RingLayout kLayout{.channels = 1, .slotCount = 4, .slotBytes = kLarge};
  const std::shared_ptr<transports::tcp::TcpHub> hub_ = loopbackHub();
  const std::unique_ptr<Endpoint> endpoint_;
  const RawPeer peer_;
};
class TcpLyingPeerOfTwoStreams : public TcpLyingPeer {
 protected:
  TcpLyingPeerOfTwoStreams() : TcpLyingPeer(2) {}
};

// The payloads lie in the caller's memory, and most of them are not sent yet.
TEST_F(TcpLyingPeer, CannotHaveTakenWhatWasNotSent) {
  SendRing& ring = endpoint_->sendRing(1, 0);
  const std::vector<std::byte> data(kLarge, std::byte{7});
  const base::FileDescriptor socket = peer_.enter();
  for (uint32_t i = 0; i < 4; ++i) ring.publishZeroCopy(data.data(), 5, 1, kLarge);
  progressFor(std::chrono::milliseconds(200));
  giveCredit(socket, 4);
  EXPECT_TRUE(contains(refusal(), "gave credit 4 on channel 0"));
  EXPECT_FALSE(ring.completed(4));
}

// It has taken a message, and asks for it again on the next connection.
TEST_F(TcpLyingPeer, CannotLackWhatItHasTaken) {
  SendRing& ring = endpoint_->sendRing(1, 0);
  const std::vector<std::byte> data(65536, std::byte{7});
  base::FileDescriptor socket = peer_.enter();
  ring.publishZeroCopy(data.data(), 5, 1, 65536);
  progressFor(std::chrono::milliseconds(200));
  giveCredit(socket, 1);
  ASSERT_TRUE(progressUntil({}, [&] {
    endpoint_->progress();
    return ring.completed(1);
  }));
  socket = peer_.enter(0, 100);  // "I have nothing"
  EXPECT_TRUE(contains(refusal(), "message 1"));
}

// Two frames of one number, on two streams: the one is whole while the other still comes.
TEST_F(TcpLyingPeerOfTwoStreams, CannotSendAMessageByBoth) {
  ReceiveRing& ring = endpoint_->receiveRing(1, 0);
  std::vector<std::byte> wanted(65536);
  ring.expect(wanted.data(), 65536, 5, 1);
  const base::FileDescriptor small = peer_.enter(0), large = peer_.enter(1);
  const std::vector<std::byte> data(65536, std::byte{7});
  const auto part = [&](size_t bytes) { return std::span(data).first(bytes); };
  RawPeer::send(small,
                {.type = FrameType::Data, .number = 1, .callHash = 5, .operation = 1, .bytes = 100},
                part(50));
  progressFor(std::chrono::milliseconds(200));
  RawPeer::send(
      large, {.type = FrameType::Data, .number = 1, .callHash = 5, .operation = 1, .bytes = 65536},
      part(1000));
  progressFor(std::chrono::milliseconds(200));
  EXPECT_EQ(::send(small.get(), data.data(), 50, MSG_NOSIGNAL), 50);
  progressFor(std::chrono::milliseconds(200));
  if (ring.ready()) ring.release();
  std::ranges::fill(wanted, std::byte{0});  // its owner has it again
  ::send(large.get(), data.data(), 64536, MSG_NOSIGNAL);
  progressFor(std::chrono::milliseconds(200));
  EXPECT_TRUE(std::ranges::all_of(wanted, [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_TRUE(contains(refusal(), "message 1 of 65536 bytes"));
}

// Nobody would read what it sends.
TEST_F(TcpLyingPeer, IsNotLetInAgain) {
  endpoint_->receiveRing(1, 0);
  const base::FileDescriptor socket = peer_.enter();
  RawPeer::send(socket, {.type = static_cast<FrameType>(77)});
  EXPECT_TRUE(contains(refusal(), "sent frame 77"));
  EXPECT_FALSE(peer_.connect(peer_.secret(), peer_.claim(0, 2)));
}

// Its connections are made, and nothing goes through them.
TEST_F(TcpLyingPeer, ThatBreaksAgainAndAgainIsLost) {
  publish(endpoint_->sendRing(1, 0), 1000, 1);
  endpoint_->flush();
  std::string text = "no error";
  for (uint32_t generation = 1; generation < 100 && text == "no error"; ++generation) {
    base::FileDescriptor socket = peer_.connect(peer_.secret(), peer_.claim(0, 1000 * generation));
    if (socket) RawPeer::send(socket, {.type = FrameType::Resume});
    progressFor(std::chrono::milliseconds(20));
    socket.reset();
    for (int i = 0; i < 200 && text == "no error"; ++i) {
      text = outcomeOf([&] { endpoint_->progress(); }).text;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  EXPECT_TRUE(contains(text, "its connection breaks again and again")) << text;
}

/// Rank 0 alone, and a listener that nobody serves in the place of rank 1.
class TcpSilentPeer : public testing::Test {
 protected:
  TcpSilentPeer() { endpoint_->receiveRing(1, 0); }
  std::string said(std::chrono::milliseconds within) {
    std::string text = "no error";
    for (const auto end = base::Deadline::after(within); !end.passed() && text == "no error";) {
      text = outcomeOf([&] { endpoint_->progress(); }).text;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return text;
  }

  static constexpr RingLayout kLayout{.slotBytes = 4096};
  base::FileDescriptor listener_ = wire::listenOn(wire::resolve("127.0.0.1", 0), 16);
  const std::shared_ptr<transports::tcp::TcpHub> hub_ = loopbackHub();
  const std::unique_ptr<Endpoint> endpoint_ = transports::tcp::makeTcpEndpoint(
      hub_, 0, 2, kLayout, {.reconnect = std::chrono::milliseconds(300)});
  const RawPeer peer_{*endpoint_, kLayout, 1, *wire::localAddress(listener_.get())};
};

// Its kernel takes connections, and it does not: it may be stopped, and is waited for. When nobody
// listens there any more, it is lost.
TEST_F(TcpSilentPeer, IsNotLostWhileItsKernelAnswers) {
  base::FileDescriptor socket = peer_.enter();
  EXPECT_EQ(said(std::chrono::milliseconds(200)), "no error");
  socket.reset();
  EXPECT_EQ(said(std::chrono::milliseconds(2500)), "no error");
  listener_.reset();
  EXPECT_TRUE(contains(said(kPatience), "it was not made again within 300 ms"));
}

// It proves itself anew, and does not say what it has: it is not waited for without an end.
TEST_F(TcpSilentPeer, ThatDoesNotGoOnIsConnectedToAnew) {
  const base::FileDescriptor first = peer_.enter();
  EXPECT_EQ(said(std::chrono::milliseconds(100)), "no error");
  const base::FileDescriptor second = peer_.connect(peer_.secret(), peer_.claim(0, 5));
  ASSERT_TRUE(second);
  EXPECT_EQ(said(std::chrono::milliseconds(2500)), "no error");
  std::array<std::byte, 4096> bytes;
  ssize_t count = 1;
  while (count > 0) count = ::recv(second.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  EXPECT_EQ(count, 0);  // closed
  EXPECT_TRUE(base::FileDescriptor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
}

// What is added on the way ends the connection, and not the job.
TEST(TcpSealed, WhatIsAddedOnTheWayEndsAConnectionOnly) {
  auto all = makeEndpoints(makeHubs(2), {.slotBytes = 4096}, {.encrypts = true});
  connectAll(all);
  ReceiveRing& receive = all[1]->receiveRing(0, 0);
  for (uint32_t round = 1; round <= 10; ++round) {
    publish(all[0]->sendRing(1, 0), 1000, round);
    ASSERT_TRUE(progressUntil(all, [&] { return receive.ready(); })) << round;
    ASSERT_TRUE(holds(receive, 1000, round));
    receive.release();
    for (const int socket : connectedSockets()) ::send(socket, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

}  // namespace
}  // namespace tutti::tests
