#pragma once

// Handshake: mutual proof of a secret, before anything else is read from a connection. It knows no
// sockets; both sides are the same state machine over exact message sizes:
//
//   connecting                                   accepting
//   hello: magic, version, claim, nonce    ->
//                                          <-    challenge: magic, version, rank, nonce, MAC
//                                          "accepting"
//   proof: MAC "connecting"                ->
//
// Both MACs are HMAC-SHA256 under the secret over: who proves, what the connection is for, both
// versions, job, claimed rank and world size, the accepting side's rank, both nonces. The nonces
// are fresh public keys of X25519: what both agree on goes into the session's key, so that whoever
// learns the secret later cannot read what was recorded. The order of fields and the meaning of the
// first 12 bytes of both messages never change between versions, so that two versions can tell each
// other what they are.

#include <functional>
#include <span>

#include "src/wire/secrets.h"

namespace tutti::wire {

/// Of the handshake and of all that follows it; both ends must have the same.
inline constexpr uint32_t kProtocolVersion = 10;

enum class HandshakePurpose : uint8_t { Rendezvous = 1, Mesh = 2, Data = 3 };

/// What the connecting side says about itself; believed once the handshake is done.
struct Claim {
  uint32_t version = 0;
  JobId job{};
  int rank = -1;
  int size = -1;
};

/// What the accepting side asks of a claim.
struct Expected {
  Credentials credentials;
  int ownRank = -1;  ///< the accepting side's; -1 for the rendezvous
};
/// Throws Refused for a claim that nobody expects.
using Expectation = std::function<Expected(const Claim&)>;

class Handshake {
 public:
  /// `expectedRank` is who must answer: -1 for the rendezvous.
  static Handshake connecting(const Credentials& credentials, HandshakePurpose purpose,
                              const Claim& own, int expectedRank);
  static Handshake accepting(HandshakePurpose purpose, Expectation expectation);
  /// The same of every claim.
  static Handshake accepting(const Credentials& credentials, HandshakePurpose purpose, int ownRank);

  /// What to send before anything is received; empty for the accepting side.
  base::Bytes start() const;
  /// Size of the next message; 0 when the handshake is done.
  size_t wantedBytes() const;
  /// Takes exactly wantedBytes() bytes and returns what to answer. Throws Refused with the reason.
  base::Bytes receive(std::span<const std::byte> message);

  bool done() const { return state_ == State::Done; }
  HandshakePurpose purpose() const { return purpose_; }
  const Claim& claim() const { return claim_; }
  /// A key that only these two ends have, for what follows on this connection. Once done().
  const Key& sessionKey() const;

 private:
  enum class State { Hello, Challenge, Proof, Done };
  Handshake(State state, HandshakePurpose purpose);
  base::Bytes onHello(std::span<const std::byte> message);
  base::Bytes onChallenge(std::span<const std::byte> message);
  void onProof(std::span<const std::byte> message);
  base::ByteWriter transcript(std::string_view who) const;
  Mac prove(std::string_view who) const;
  void finish(const Nonce& theirs);

  State state_;
  HandshakePurpose purpose_;
  Expectation expectation_;  // the accepting side's
  Credentials credentials_;
  KeyPair own_;
  Claim claim_;
  uint32_t acceptingVersion_ = 0;
  int acceptingRank_ = -1;
  Nonce connectingNonce_{}, acceptingNonce_{};
  Key session_{};
};

}  // namespace tutti::wire
