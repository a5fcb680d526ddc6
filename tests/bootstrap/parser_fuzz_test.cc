// Every parser of bytes that come from outside, fed with seeded mutations of good input and with
// noise: it must accept, or refuse with an Error, and nothing else; the sanitizers see the rest.
// TUTTI_FUZZ_CASES changes the number of cases of each parser.

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <iostream>

#include "src/bootstrap/rendezvous.h"
#include "src/bootstrap/wire/frame.h"
#include "src/bootstrap/wire/setup_message.h"
#include "src/wire/address.h"
#include "src/wire/handshake.h"
#include "src/wire/secrets.h"
#include "tests/support/leftovers.h"
#include "tests/support/mutator.h"

namespace tutti::bootstrap {
namespace {

class Fuzz : public testing::Test {
 protected:
  void SetUp() override {
    const char* cases = std::getenv("TUTTI_FUZZ_CASES");
    if (cases) cases_ = std::strtoull(cases, nullptr, 10);
  }
  size_t below(size_t bound) { return mutator_.below(bound); }
  base::Bytes mutate(base::Bytes bytes) { return mutator_.mutate(std::move(bytes)); }

  /// How often `parse` accepted and refused; anything else than an Error fails the test.
  template <class Parse>
  void run(const Parse& parse) {
    size_t accepted = 0, refused = 0;
    for (size_t i = 0; i < cases_; ++i) {
      try {
        parse();
        ++accepted;
      } catch (const Error&) {
        ++refused;
      }
    }
    EXPECT_GT(accepted, 0u) << "no input is good: the test tests nothing";
    EXPECT_GT(refused, 0u) << "no input is bad: the test tests nothing";
    std::cout << accepted << " accepted, " << refused << " refused\n";
  }

  uint64_t cases_ = 20'000;
  tests::Mutator mutator_{tests::testSeed()};
};

Arrival someArrival() {
  return {
      .info = {.host = "host", .bootId = "boot/net:1", .pid = 42, .cores = 8, .interface = "eth0"},
      .listening = wire::randomUnixAddress(),
      .network = wire::resolve("10.0.0.1", 4711),
      .ticket = {std::byte{7}}};
}

UniqueId someId() {
  Rendezvous point = randomRendezvous();
  point.network = wire::resolve("10.0.0.1", 4711);
  return encode(point);
}

TEST_F(Fuzz, UniqueIds) {
  const UniqueId good = someId();
  run([&] {
    const base::Bytes bytes = mutate({good.bytes.begin(), good.bytes.end()});
    UniqueId id;
    std::memcpy(id.bytes.data(), bytes.data(), std::min(bytes.size(), id.bytes.size()));
    const Rendezvous point = decode(id);
    EXPECT_EQ(id, good) << "the checksum let a change through";
    EXPECT_EQ(encode(point), good);
  });
}

// Also where the checksum fits: flags and fields that mean nothing are refused.
TEST(UniqueIds, HaveOneSpelling) {
  Rendezvous ipv4 = randomRendezvous();
  ipv4.address = wire::resolve("10.0.0.1", 4711);
  constexpr size_t kFlagsAt = 13, kIpAt = 16, kChecksumAt = 112;
  constexpr uint8_t kNetworkIsIpv6 = 4, kUnknown = 128;
  const auto refuses = [](UniqueId id, size_t at, uint8_t bits) {
    id.bytes[at] ^= static_cast<std::byte>(bits);
    wire::digestInto(std::span(id.bytes).subspan(kChecksumAt), "unique id",
                     std::span(id.bytes).first(kChecksumAt));
    try {
      decode(id);
      return false;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "the unique id holds no address");
      return true;
    }
  };
  EXPECT_FALSE(refuses(encode(ipv4), kFlagsAt, 0));
  EXPECT_TRUE(refuses(encode(ipv4), kFlagsAt, kNetworkIsIpv6));
  EXPECT_TRUE(refuses(encode(ipv4), kFlagsAt, kUnknown));
  EXPECT_TRUE(refuses(encode(ipv4), kIpAt + 4, 1));
  EXPECT_TRUE(refuses(encode(randomRendezvous()), kFlagsAt, kNetworkIsIpv6));
}

TEST_F(Fuzz, HexadecimalIds) {
  const std::string good = someId().toHex();
  run([&] {
    const auto text = std::as_bytes(std::span(good));
    const base::Bytes bytes = mutate({text.begin(), text.end()});
    const std::string hex(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    EXPECT_EQ(UniqueId::fromHex(hex), UniqueId::fromHex(good));  // upper case is the same id
  });
}

TEST_F(Fuzz, SetupMessages) {
  const std::vector<SetupMessage> good{someArrival(),
                                       Table{{someArrival(), someArrival(), someArrival()}},
                                       SetupProgress{"2 of 3"},
                                       Connected{},
                                       Complete{},
                                       Failure{ErrorCode::Refused, "because"}};
  run([&] {
    const base::Bytes bytes = mutate(encode(good[below(good.size())]));
    const SetupMessage message = decodeSetupMessage(bytes);
    EXPECT_EQ(encode(message), bytes);  // what is accepted has one meaning
  });
}

TEST_F(Fuzz, HandshakesOfTheAcceptingSide) {
  const Rendezvous point = randomRendezvous();
  const wire::Claim claim{
      .version = wire::kProtocolVersion, .job = point.credentials.job, .rank = 1, .size = 2};
  size_t believed = 0;
  run([&] {
    wire::Handshake client =
        wire::Handshake::connecting(point.credentials, wire::HandshakePurpose::Mesh, claim, 0);
    wire::Handshake server =
        wire::Handshake::accepting(point.credentials, wire::HandshakePurpose::Mesh, 0);
    const base::Bytes good = client.start();
    base::Bytes hello = mutate(good);
    hello.resize(server.wantedBytes());
    const base::Bytes challenge = server.receive(hello);
    const base::Bytes goodProof = client.receive(challenge);
    base::Bytes proof = mutate(goodProof);
    proof.resize(server.wantedBytes());
    server.receive(proof);
    EXPECT_TRUE(server.done() && client.done());
    ASSERT_EQ(hello, good) << "a changed hello was believed";
    ASSERT_EQ(proof, goodProof) << "a changed proof was believed";
    ++believed;
  });
  EXPECT_GT(believed, 0u);
}

TEST_F(Fuzz, HandshakesOfTheConnectingSide) {
  const Rendezvous point = randomRendezvous();
  const wire::Claim claim{
      .version = wire::kProtocolVersion, .job = point.credentials.job, .rank = 1, .size = 2};
  run([&] {
    wire::Handshake client = wire::Handshake::connecting(
        point.credentials, wire::HandshakePurpose::Rendezvous, claim, -1);
    wire::Handshake server =
        wire::Handshake::accepting(point.credentials, wire::HandshakePurpose::Rendezvous, -1);
    const base::Bytes good = server.receive(client.start());
    base::Bytes challenge = mutate(good);
    challenge.resize(client.wantedBytes());
    client.receive(challenge);
    ASSERT_EQ(challenge, good) << "a changed challenge was believed";
  });
}

/// Two frames of `payload`, sealed by `key`.
base::Bytes twoFrames(const wire::Key& key, const FrameHeader& header, const base::Bytes& payload) {
  SealedFrameWriter writer(key);
  base::Bytes bytes;
  for (int i = 0; i < 2; ++i) {
    base::Bytes sealed = payload;
    const base::Bytes head = writer.seal(header, sealed);
    bytes.insert(bytes.end(), head.begin(), head.end());
    bytes.insert(bytes.end(), sealed.begin(), sealed.end());
  }
  return bytes;
}

// By strangers: nothing that was changed is believed.
TEST_F(Fuzz, Frames) {
  const wire::Key key = wire::randomBytes<32>();
  const base::Bytes payload = encode(someArrival());
  const base::Bytes good = twoFrames(key, {.type = 3}, payload);
  run([&] {
    SealedFrameReader reader(key, kMaxArrivalBytes);
    const base::Bytes bytes = mutate(good);
    for (size_t at = 0; at < bytes.size();) {
      const size_t count = std::min(bytes.size() - at, 1 + below(64));
      reader.feed(std::span(bytes).subspan(at, count));
      at += count;
      while (const auto frame = reader.next()) {
        EXPECT_EQ(frame->message.payload, payload);
        EXPECT_EQ(frame->message.type, 3U);
      }
    }
  });
}

// By a peer that has the key, and seals whatever it likes.
TEST_F(Fuzz, FramesOfAPeer) {
  const wire::Key key = wire::randomBytes<32>();
  run([&] {
    const base::Bytes raw = mutate(base::bytesOf(FrameHeader{.descriptors = 1}));
    FrameHeader header;
    std::memcpy(&header, raw.data(), std::min(raw.size(), sizeof header));
    SealedFrameReader reader(key, kMaxArrivalBytes);
    reader.feed(twoFrames(key, header, base::Bytes(below(2 * kMaxArrivalBytes))));
    while (const auto frame = reader.next())
      EXPECT_LE(frame->message.payload.size(), kMaxArrivalBytes);
  });
}

}  // namespace
}  // namespace tutti::bootstrap
