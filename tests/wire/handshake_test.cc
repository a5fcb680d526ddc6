// The handshake as a state machine: two ends that know the same secret, and ends that do not.

#include "src/wire/handshake.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/text.h"

namespace tutti::wire {
namespace {

using tests::contains;

class HandshakeTest : public testing::Test {
 protected:
  static constexpr HandshakePurpose kMesh = HandshakePurpose::Mesh;

  Handshake connecting(int expectedRank, const Credentials& credentials) const {
    return Handshake::connecting(credentials, kMesh, claim_, expectedRank);
  }
  /// How it ended: "done", or whose refusal.
  static std::string run(Handshake& client, Handshake& server) {
    try {
      const base::Bytes challenge = server.receive(client.start());
      try {
        server.receive(client.receive(challenge));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::Refused);
        return std::string(client.done() ? "server: " : "client: ") + error.what();
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Refused);
      return std::string("server: ") + error.what();
    }
    EXPECT_TRUE(client.done() && server.done());
    EXPECT_EQ(client.wantedBytes() + server.wantedBytes(), 0U);
    return "done";
  }

  const Credentials credentials_{.secret = randomBytes<32>(), .job = randomBytes<16>()};
  const Claim claim_{.version = kProtocolVersion, .job = credentials_.job, .rank = 2, .size = 4};
};

TEST_F(HandshakeTest, OfTwoThatKnowTheSecretGivesBothOneKey) {
  Handshake client = connecting(0, credentials_);
  Handshake server = Handshake::accepting(credentials_, kMesh, 0);
  EXPECT_TRUE(server.start().empty());
  ASSERT_EQ(run(client, server), "done");
  EXPECT_EQ(server.claim().rank, 2);
  EXPECT_EQ(server.claim().size, 4);
  EXPECT_EQ(server.claim().version, kProtocolVersion);
  EXPECT_EQ(server.claim().job, credentials_.job);
  EXPECT_EQ(client.sessionKey(), server.sessionKey());
  Handshake again = connecting(0, credentials_);
  Handshake listener = Handshake::accepting(credentials_, kMesh, 0);
  ASSERT_EQ(run(again, listener), "done");
  EXPECT_NE(again.sessionKey(), client.sessionKey()) << "another session has another key";
}

TEST_F(HandshakeTest, IsRefusedWithoutTheSecret) {
  Credentials wrong = credentials_;
  wrong.secret[31] ^= std::byte{1};
  Handshake client = connecting(0, credentials_);
  Handshake server = Handshake::accepting(wrong, kMesh, 0);
  const std::string said = run(client, server);
  EXPECT_TRUE(said.starts_with("client: what listens there does not know the secret of job " +
                               brief(credentials_.job)))
      << said;
}

TEST_F(HandshakeTest, NamesTheKeyThatTheSecretIsMadeOf) {
  Credentials wrong = credentials_;
  wrong.secret[31] ^= std::byte{1};
  wrong.ofKey = true;
  Handshake client = connecting(0, wrong);
  Handshake server = Handshake::accepting(credentials_, kMesh, 0);
  const std::string said = run(client, server);
  EXPECT_NE(said.find(": TUTTI_JOB_KEY differs from rank 0's"), std::string::npos) << said;
  EXPECT_EQ(said.find("unique id"), std::string::npos) << said;
}

TEST_F(HandshakeTest, OfAClientWithoutTheSecretIsRefusedByTheServer) {
  Handshake client = connecting(0, credentials_);
  Handshake server = Handshake::accepting(credentials_, kMesh, 0);
  server.receive(client.start());
  const base::Bytes guess(server.wantedBytes(), std::byte{7});
  try {
    server.receive(guess);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_TRUE(contains(error.what(), "does not know the job's secret")) << error.what();
  }
  EXPECT_FALSE(server.done());
}

TEST_F(HandshakeTest, IsRefusedForAnotherRankPurposeOrProtocol) {
  Handshake client = connecting(1, credentials_);
  Handshake server = Handshake::accepting(credentials_, kMesh, 3);
  EXPECT_EQ(run(client, server), "client: rank 3 answered instead of rank 1");
  Handshake forMesh = connecting(-1, credentials_);
  Handshake rendezvous = Handshake::accepting(credentials_, HandshakePurpose::Rendezvous, -1);
  EXPECT_EQ(run(forMesh, rendezvous), "server: the connection is for purpose 2, not 1");
  Handshake listener = Handshake::accepting(credentials_, kMesh, 0);
  const base::Bytes noise(listener.wantedBytes(), std::byte{'G'});
  EXPECT_THROW(listener.receive(noise), Error);
}

// Whatever a third party changes between the two, both do not end.
TEST_F(HandshakeTest, IsRefusedWhereAByteWasChanged) {
  const size_t helloBytes = Handshake::accepting(credentials_, kMesh, 0).wantedBytes();
  for (size_t at = 0; at < helloBytes; ++at) {
    Handshake client = connecting(0, credentials_);
    Handshake server = Handshake::accepting(credentials_, kMesh, 0);
    base::Bytes hello = client.start();
    hello[at] ^= std::byte{1};
    try {
      const base::Bytes challenge = server.receive(hello);
      server.receive(client.receive(challenge));
    } catch (const Error&) {
      continue;
    }
    FAIL() << "byte " << at << " of the hello was changed, and nobody saw it";
  }
}

// A listener with several secrets takes the one that the claim asks for.
TEST_F(HandshakeTest, TakesTheSecretThatTheClaimAsksFor) {
  const Credentials other{.secret = randomBytes<32>(), .job = randomBytes<16>()};
  const auto expectation = [&](const Claim& claim) -> Expected {
    if (claim.job == credentials_.job) return {credentials_, 0};
    if (claim.job == other.job) return {other, 5};
    base::fail(ErrorCode::Refused, "nobody expects it");
  };
  Handshake first = connecting(0, credentials_);
  Handshake listener = Handshake::accepting(kMesh, expectation);
  EXPECT_EQ(run(first, listener), "done");
  Claim claim = claim_;
  claim.job = other.job;
  Handshake second = Handshake::connecting(other, kMesh, claim, 5);
  Handshake again = Handshake::accepting(kMesh, expectation);
  EXPECT_EQ(run(second, again), "done");
  EXPECT_EQ(again.sessionKey(), second.sessionKey());
  claim.job[0] ^= std::byte{1};
  Handshake third = Handshake::connecting(other, kMesh, claim, 5);
  Handshake last = Handshake::accepting(kMesh, expectation);
  EXPECT_EQ(run(third, last), "server: nobody expects it");
}

// An end that knows the secret and plays both parts learns nothing by a key that is no point.
TEST_F(HandshakeTest, IsRefusedWithAPublicKeyOfLowOrder) {
  EXPECT_THROW(agree(KeyPair::random().secretKey, Key{}), Error);
  const KeyPair one = KeyPair::random(), two = KeyPair::random();
  EXPECT_EQ(agree(one.secretKey, two.publicKey), agree(two.secretKey, one.publicKey));
  EXPECT_NE(agree(one.secretKey, two.publicKey), agree(one.secretKey, one.publicKey));
}

}  // namespace
}  // namespace tutti::wire
