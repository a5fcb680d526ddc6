#include "src/wire/handshake.h"

#include <algorithm>
#include <cstring>

namespace tutti::wire {
namespace {

using Magic = std::array<char, 8>;
constexpr Magic kHelloMagic{'T', 'U', 'T', 'T', 'I', ' ', 'H', 'I'};
constexpr Magic kChallengeMagic{'T', 'U', 'T', 'T', 'I', ' ', 'W', 'H'};

struct Hello {
  Magic magic;
  uint32_t version;
  uint32_t purpose;
  JobId job;
  int32_t rank, size;
  Nonce nonce;
};
struct Challenge {
  Magic magic;
  uint32_t version;
  int32_t rank;
  Nonce nonce;
  Mac mac;
};
static_assert(sizeof(Hello) == 72 && sizeof(Challenge) == 80);

template <class T>
T fromBytes(std::span<const std::byte> bytes) {
  T value;
  TUTTI_ASSERT(bytes.size() == sizeof value, bytes.size());
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace

Handshake::Handshake(State state, HandshakePurpose purpose) : state_(state), purpose_(purpose) {}

Handshake Handshake::connecting(const Credentials& credentials, HandshakePurpose purpose,
                                const Claim& own, int expectedRank) {
  Handshake made(State::Challenge, purpose);
  made.credentials_ = credentials;
  made.claim_ = own;
  made.acceptingRank_ = expectedRank;
  made.own_ = KeyPair::random();
  made.connectingNonce_ = made.own_.publicKey;
  return made;
}

Handshake Handshake::accepting(HandshakePurpose purpose, Expectation expectation) {
  Handshake made(State::Hello, purpose);
  made.expectation_ = std::move(expectation);
  made.acceptingVersion_ = kProtocolVersion;
  return made;
}

Handshake Handshake::accepting(const Credentials& credentials, HandshakePurpose purpose,
                               int ownRank) {
  return accepting(purpose,
                   [expected = Expected{credentials, ownRank}](const Claim&) { return expected; });
}

base::Bytes Handshake::start() const {
  if (state_ != State::Challenge) return {};
  return base::bytesOf(Hello{.magic = kHelloMagic,
                             .version = claim_.version,
                             .purpose = static_cast<uint32_t>(purpose_),
                             .job = claim_.job,
                             .rank = claim_.rank,
                             .size = claim_.size,
                             .nonce = connectingNonce_});
}

size_t Handshake::wantedBytes() const {
  switch (state_) {
    case State::Hello: return sizeof(Hello);
    case State::Challenge: return sizeof(Challenge);
    case State::Proof: return sizeof(Mac);
    case State::Done: return 0;
  }
  return 0;
}

base::Bytes Handshake::receive(std::span<const std::byte> message) {
  TUTTI_ASSERT(message.size() == wantedBytes() && !done(), message.size());
  if (state_ == State::Hello) return onHello(message);
  if (state_ == State::Challenge) return onChallenge(message);
  onProof(message);
  return {};
}

base::Bytes Handshake::onHello(std::span<const std::byte> message) {
  const auto hello = fromBytes<Hello>(message);
  if (hello.magic != kHelloMagic)
    base::fail(ErrorCode::Refused, "the connecting side does not speak Tutti's protocol");
  if (hello.purpose != static_cast<uint32_t>(purpose_))
    base::fail(ErrorCode::Refused, "the connection is for purpose ", hello.purpose, ", not ",
               static_cast<uint32_t>(purpose_));
  claim_ = {.version = hello.version, .job = hello.job, .rank = hello.rank, .size = hello.size};
  Expected expected = expectation_(claim_);
  credentials_ = expected.credentials;
  acceptingRank_ = expected.ownRank;
  connectingNonce_ = hello.nonce;
  own_ = KeyPair::random();  // not before: who says nothing costs nothing
  acceptingNonce_ = own_.publicKey;
  state_ = State::Proof;
  return base::bytesOf(Challenge{.magic = kChallengeMagic,
                                 .version = acceptingVersion_,
                                 .rank = acceptingRank_,
                                 .nonce = acceptingNonce_,
                                 .mac = prove("accepting")});
}

base::Bytes Handshake::onChallenge(std::span<const std::byte> message) {
  const auto challenge = fromBytes<Challenge>(message);
  if (challenge.magic != kChallengeMagic)
    base::fail(ErrorCode::Refused, "what listens there does not speak Tutti's protocol");
  if (challenge.rank != acceptingRank_)
    base::fail(ErrorCode::Refused, "rank ", challenge.rank, " answered instead of rank ",
               acceptingRank_);
  acceptingVersion_ = challenge.version;
  acceptingNonce_ = challenge.nonce;
  if (!equal(challenge.mac, prove("accepting")))
    base::fail(ErrorCode::Refused, "what listens there does not know the secret of job ",
               brief(claim_.job),
               credentials_.ofKey
                   ? ": TUTTI_JOB_KEY differs from rank 0's, or another job listens there"
                   : ": the unique id is wrong, has expired or was used, or it is another job's");
  finish(acceptingNonce_);
  return base::bytesOf(prove("connecting"));
}

void Handshake::onProof(std::span<const std::byte> message) {
  if (!equal(fromBytes<Mac>(message), prove("connecting")))
    base::fail(ErrorCode::Refused, "the connecting side does not know the job's secret");
  finish(connectingNonce_);
}

void Handshake::finish(const Nonce& theirs) {
  base::ByteWriter text = transcript("session");
  text.put(std::span<const std::byte>(agree(own_.secretKey, theirs)));
  session_ = authenticate(credentials_.secret, text.take());
  state_ = State::Done;
}

Mac Handshake::prove(std::string_view who) const {
  return authenticate(credentials_.secret, transcript(who).take());
}

base::ByteWriter Handshake::transcript(std::string_view who) const {
  base::ByteWriter text;
  text.put(std::string("tutti ") + std::string(who)).put(purpose_);
  text.put(claim_.version).put(acceptingVersion_);
  text.put(std::span<const std::byte>(claim_.job)).put(claim_.rank).put(claim_.size);
  text.put(acceptingRank_);
  text.put(std::span<const std::byte>(connectingNonce_));
  text.put(std::span<const std::byte>(acceptingNonce_));
  return text;
}

const Key& Handshake::sessionKey() const {
  TUTTI_ASSERT(done(), "no session yet");
  return session_;
}

}  // namespace tutti::wire
