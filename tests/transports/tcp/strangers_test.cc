// Who connects to a rank's port without its job's secret, and a peer that breaks the protocol
// behind the handshake.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include <random>
#include <string>
#include <thread>

#include <tutti/error.h>
#include "src/wire/handshake_listener.h"
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
using transports::tcp::TcpAddressBlob;
using transports::tcp::TcpFrame;

const RingLayout kLayout{.channels = 2, .slotCount = 4, .slotBytes = 4096};

/// Two ranks of a job that talk, and the place of rank 0.
class TcpStrangers : public testing::Test {
 protected:
  TcpStrangers() {
    connectAll(all_);
    all_[1]->receiveRing(0, 0);
    exchange();
  }
  void exchange() {
    ReceiveRing& ring = all_[1]->receiveRing(0, 0);
    ++round_;
    ASSERT_TRUE(progressUntil(all_, [&] { return all_[0]->sendRing(1, 0).ready(); }));
    publish(all_[0]->sendRing(1, 0), 1000, round_);
    ASSERT_TRUE(progressUntil(all_, [&] { return ring.ready(); }));
    ASSERT_TRUE(holds(ring, 1000, round_));
    ring.release();
  }
  wire::Address place() { return TcpAddressBlob::read(all_[0]->address(1).blob).place; }
  base::FileDescriptor dial() { return std::move(wire::startConnecting(place()).socket); }

  const Hubs hubs_ = makeHubs(2);
  Endpoints all_ = makeEndpoints(hubs_, kLayout);
  uint32_t round_ = 0;
};

bool isClosed(int socket) {
  char byte = 0;
  const ssize_t count = ::recv(socket, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
  return count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOTCONN);
}

// More than a job lets in at a time: the oldest have to go, descriptors stay bounded, and the ranks
// talk on; after the handshake's time all are gone.
TEST_F(TcpStrangers, AThousandWhoSayNothingCostLittle) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int before = countDescriptors();
  std::vector<base::FileDescriptor> silent;
  for (int i = 0; i < 1000; ++i) {
    silent.push_back(dial());
    if (!silent.back()) silent.pop_back();
    if (i % 100 == 0) exchange();
  }
  ASSERT_GE(silent.size(), 500U);
  exchange();
  EXPECT_LE(countDescriptors() - before - static_cast<int>(silent.size()), 300);
  for (const auto& each : silent) EXPECT_TRUE(eventually([&] { return isClosed(each.get()); }));
  exchange();
}

TEST_F(TcpStrangers, OfAPortScanAreDropped) {
  for (const std::string& text : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(72, 'x'),
                                  std::string(100'000, '\0'), std::string("\x16\x03\x01\x02", 4)}) {
    const base::FileDescriptor socket = dial();
    ASSERT_TRUE(socket);
    ASSERT_TRUE(eventually([&] {
      return ::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
    }));
    exchange();
    if (text.size() < 72) continue;  // it may say more
    EXPECT_TRUE(eventually([&] { return isClosed(socket.get()); })) << text.size();
  }
  exchange();
}

// Another job's secret, be it right there; one that was guessed; the right one for another rank.
TEST_F(TcpStrangers, WithoutTheSecretAreNotLetIn) {
  Endpoints job = makeEndpoints({hubs_[0], hubs_[1]}, kLayout);
  RawPeer own(*job[0], kLayout);
  EXPECT_TRUE(own.connect(own.secret(), own.claim()));
  wire::Key wrong = own.secret();
  wrong[0] ^= std::byte{1};
  EXPECT_FALSE(own.connect(wrong, own.claim()));
  Endpoints other = makeEndpoints({hubs_[0], hubs_[1]}, kLayout);
  RawPeer stranger(*other[0], kLayout);
  EXPECT_FALSE(stranger.connect(own.secret(), stranger.claim()));
  wire::Claim forged = own.claim();
  forged.rank = 0;
  EXPECT_FALSE(own.connect(own.secret(), forged));
  forged = own.claim();
  forged.version += 1;
  EXPECT_FALSE(own.connect(own.secret(), forged));
  exchange();
}

// All that one side of a handshake has said, said again: the other side's nonce is another.
TEST_F(TcpStrangers, WithARecordedHandshakeAreNotLetIn) {
  Endpoints job = makeEndpoints({hubs_[0], hubs_[1]}, kLayout);
  RawPeer peer(*job[0], kLayout);
  wire::Handshake recorded = wire::Handshake::connecting(
      {.secret = peer.secret()}, wire::HandshakePurpose::Data, peer.claim(), 0);
  const base::Bytes hello = recorded.start();
  const auto converse = [&](const std::function<base::Bytes(const base::Bytes&)>& answer) {
    const base::FileDescriptor socket = std::move(wire::startConnecting(peer.place()).socket);
    base::Bytes challenge(recorded.wantedBytes() ? recorded.wantedBytes() : 80);
    EXPECT_TRUE(eventually([&] {
      return ::send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL) ==
             static_cast<ssize_t>(hello.size());
    }));
    EXPECT_TRUE(eventually([&] {
      return ::recv(socket.get(), challenge.data(), challenge.size(), MSG_DONTWAIT) ==
             static_cast<ssize_t>(challenge.size());
    }));
    const base::Bytes proof = answer(challenge);
    EXPECT_EQ(::send(socket.get(), proof.data(), proof.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(proof.size()));
    // Who is let in is sent the first frame; who is not is closed on.
    char byte = 0;
    ssize_t count = -1;
    EXPECT_TRUE(eventually([&] {
      count = ::recv(socket.get(), &byte, 1, MSG_DONTWAIT);
      return count >= 0 || errno == ECONNRESET;
    }));
    return count > 0;
  };
  base::Bytes proof;
  EXPECT_TRUE(
      converse([&](const base::Bytes& challenge) { return proof = recorded.receive(challenge); }));
  EXPECT_FALSE(converse([&](const base::Bytes&) { return proof; }));
  exchange();
}

// ---- behind the handshake

/// What rank 0 says after rank 1 has sent something.
std::string refusalOf(const std::function<void(const base::FileDescriptor&)>& say,
                      bool receives = true) {
  const Hubs hubs = makeHubs(1);
  Endpoints all;
  all.push_back(transports::tcp::makeTcpEndpoint(hubs[0], 0, 2, kLayout));
  RawPeer peer(*all[0], kLayout);
  if (receives) all[0]->receiveRing(1, 0);
  const base::FileDescriptor socket = peer.enter();
  say(socket);
  std::string text;
  ErrorCode code = ErrorCode::Internal;
  EXPECT_TRUE(eventually([&] {
    const auto outcome = outcomeOf([&] { all[0]->progress(); });
    text = outcome.text;
    code = outcome.code;
    return text != "no error";
  }));
  EXPECT_EQ(code, ErrorCode::Refused) << text;
  EXPECT_TRUE(contains(text, "rank 0 got from rank 1 by tcp what no correct rank sends: it "));
  EXPECT_TRUE(eventually([&] { return isClosed(socket.get()) || true; }));
  return text;
}

TEST(TcpHostilePeer, IsRefusedByName) {
  const std::vector<std::byte> payload(8192, std::byte{1});
  const auto one = [&](TcpFrame frame, size_t bytes = 0) {
    return refusalOf(
        [&](const auto& s) { RawPeer::send(s, frame, std::span(payload).first(bytes)); });
  };
  const TcpFrame data{.type = FrameType::Data, .number = 1, .bytes = 100};
  const auto with = [&](auto change) {
    TcpFrame frame = data;
    change(frame);
    return frame;
  };
  EXPECT_TRUE(contains(one({.type = FrameType::Resume}), "sent frame 1 again"));
  EXPECT_TRUE(contains(one({.type = static_cast<FrameType>(0)}), "sent frame 0 of 0 bytes"));
  EXPECT_TRUE(contains(one({.type = static_cast<FrameType>(77)}), "sent frame 77"));
  EXPECT_TRUE(contains(one({.type = FrameType::Goodbye, .bytes = 5}), "sent frame 4 of 5 bytes"));
  EXPECT_TRUE(contains(one(with([](auto& f) { f.number = 0; })), "message 0 of 100 bytes"));
  EXPECT_TRUE(contains(one(with([](auto& f) { f.number = 5; })), "message 5"));
  EXPECT_TRUE(
      contains(one(with([](auto& f) { f.number = 1U << 31; })), "for which there is no slot"));
  EXPECT_TRUE(contains(one(with([](auto& f) { f.bytes = 4097; })), "message 1 of 4097 bytes"));
  EXPECT_TRUE(contains(one(with([](auto& f) { f.bytes = ~0U; })), "no slot"));
  EXPECT_TRUE(contains(one(with([](auto& f) { f.channel = 2; })), "on channel 2 of 2"));
  EXPECT_TRUE(contains(one(with([](auto& f) { f.credit = 1; })), "credit 1"));
  EXPECT_TRUE(contains(one(with([](auto& f) { f.received = 1; })), "confirmed 1 frames"));
  EXPECT_TRUE(contains(one({.type = FrameType::State, .bytes = 7}), "credits of 7 bytes"));
  EXPECT_TRUE(contains(one({.type = FrameType::State, .bytes = 1 << 20}), "credits of"));
  const CreditWord word{.channel = 2, .messages = 0}, more{.channel = 0, .messages = 1};
  const auto credits = [&](const CreditWord& each) {
    return refusalOf([&](const auto& s) {
      RawPeer::send(s, {.type = FrameType::State, .bytes = sizeof each},
                    std::as_bytes(std::span(&each, 1)));
    });
  };
  EXPECT_TRUE(contains(credits(word), "gave credit 0 on channel 2"));
  EXPECT_TRUE(contains(credits(more), "gave credit 1 on channel 0"));
  EXPECT_TRUE(contains(refusalOf([&](const auto& s) {
                         RawPeer::send(s, {.type = FrameType::Goodbye});
                         RawPeer::send(s, data, std::span(payload).first(100));
                       }),
                       "more after its goodbye"));
  EXPECT_TRUE(contains(refusalOf([&](const auto& s) {  // the same message twice
                         for (int i = 0; i < 2; ++i)
                           RawPeer::send(s, data, std::span(payload).first(100));
                       }),
                       "message 1 of 100 bytes, for which"));
}

// Random frames, some nearly right: they end the connection with that rank, or are its messages.
TEST(TcpHostilePeer, OfRandomFramesHurtsNobody) {
  std::mt19937_64 random(testSeed());
  for (int round = 0; round < 50; ++round) {
    const Hubs hubs = makeHubs(1);
    Endpoints all;
    all.push_back(transports::tcp::makeTcpEndpoint(hubs[0], 0, 2, kLayout));
    RawPeer peer(*all[0], kLayout);
    all[0]->receiveRing(1, 0);
    if (random() % 2) publish(all[0]->sendRing(1, 0), 100, 1);
    const base::FileDescriptor socket = peer.enter();
    base::Bytes bytes(random() % 600);
    for (std::byte& each : bytes) each = std::byte(random() % (random() % 2 ? 256 : 5));
    ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    for (int i = 0; i < 50; ++i) {
      const auto outcome = outcomeOf([&] { all[0]->progress(); });
      if (outcome.text == "no error") continue;
      EXPECT_EQ(outcome.code, ErrorCode::Refused) << outcome.text;
      break;
    }
  }
}

// A proved peer that sends half a frame, and then nothing, holds up nobody else.
TEST(TcpHostilePeer, ThatStandsStillHoldsUpNobodyElse) {
  const Hubs hubs = makeHubs(3);
  Endpoints all = makeEndpoints(hubs, kLayout);
  RawPeer peer(*all[0], kLayout);
  all[0]->connect(2, all[2]->address(0));
  all[2]->connect(0, all[0]->address(2));
  all[0]->receiveRing(1, 0);
  const base::FileDescriptor socket = peer.enter();
  RawPeer::send(socket, {.type = FrameType::Data, .number = 1, .bytes = 4000});
  ReceiveRing& ring = all[2]->receiveRing(0, 0);
  for (uint32_t i = 1; i <= 20; ++i) {
    ASSERT_TRUE(progressUntil(all, [&] { return all[0]->sendRing(2, 0).ready(); }));
    publish(all[0]->sendRing(2, 0), 3000, i);
    ASSERT_TRUE(progressUntil(all, [&] { return ring.ready(); }));
    EXPECT_TRUE(holds(ring, 3000, i));
    ring.release();
  }
}

}  // namespace
}  // namespace tutti::tests
