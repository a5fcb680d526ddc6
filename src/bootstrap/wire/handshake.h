#pragma once

// Handshake: mutual proof of the job's secret, before anything else is read from a connection. It
// knows no sockets; both sides are the same state machine over exact message sizes:
//
//   connecting                                   accepting
//   hello: magic, version, claim, nonce    ->
//                                          <-    challenge: magic, version, rank, nonce, MAC
//                                          "accepting"
//   proof: MAC "connecting"                ->
//
// Both MACs are HMAC-SHA256 under the secret over: who proves, what the connection is for, both
// versions, job, claimed rank and world size, the accepting side's rank, both nonces. The order of
// fields and the meaning of the first 12 bytes of both messages never change between versions, so
// that two versions can tell each other what they are.

#include <span>

#include "src/bootstrap/wire/secrets.h"

namespace tutti::bootstrap {

enum class HandshakePurpose : uint8_t { Rendezvous = 1, Mesh = 2 };

/// What the connecting side says about itself; believed once the handshake is done.
struct Claim {
  uint32_t version = 0;
  JobId job{};
  int rank = -1;
  int size = -1;
};

class Handshake {
 public:
  /// `expectedRank` is who must answer: -1 for the rendezvous.
  static Handshake connecting(const Credentials& credentials, HandshakePurpose purpose,
                              const Claim& own, int expectedRank);
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
  /// A key that only these two ends have, for what follows on this connection.
  Key sessionKey() const;

 private:
  enum class State { Hello, Challenge, Proof, Done };
  Handshake(State state, const Credentials& credentials, HandshakePurpose purpose);
  base::Bytes onHello(std::span<const std::byte> message);
  base::Bytes onChallenge(std::span<const std::byte> message);
  void onProof(std::span<const std::byte> message);
  Mac prove(std::string_view who) const;

  State state_;
  Credentials credentials_;
  HandshakePurpose purpose_;
  Claim claim_;
  uint32_t acceptingVersion_ = 0;
  int acceptingRank_ = -1;
  Nonce connectingNonce_{}, acceptingNonce_{};
};

}  // namespace tutti::bootstrap
