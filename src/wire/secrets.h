#pragma once

// Keys, random bytes, message authentication and key exchange: the only file that calls libsodium.

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/base/bytes.h"

namespace tutti::wire {

using Key = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 32>;
using Mac = std::array<std::byte, 32>;
using JobId = std::array<std::byte, 16>;

/// Before anything of libsodium is called.
void requireSodium();
/// As libsodium has bytes.
inline unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
inline const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

void fillRandom(std::span<std::byte> out);
template <size_t N>
std::array<std::byte, N> randomBytes() {
  std::array<std::byte, N> bytes;
  fillRandom(bytes);
  return bytes;
}

/// HMAC-SHA256.
Mac authenticate(const Key& key, std::span<const std::byte> message);
/// In constant time.
bool equal(const Mac& left, const Mac& right);

/// BLAKE2b of `purpose` and `text`; `out` has 16 to 64 bytes.
void digestInto(std::span<std::byte> out, std::string_view purpose,
                std::span<const std::byte> text);
template <size_t N>
std::array<std::byte, N> digest(std::string_view purpose, std::string_view text) {
  std::array<std::byte, N> bytes;
  digestInto(bytes, purpose, std::as_bytes(std::span(text)));
  return bytes;
}

/// Of Argon2id: memory for a moment, and passes over it.
struct StretchCost {
  size_t bytes;
  unsigned passes;
};
/// A key out of a text that may be guessed: Argon2id, with a salt that follows from `place`.
/// Nothing where there is no memory for it.
std::optional<Key> stretch(std::string_view text, std::string_view place, const StretchCost& cost);

/// A fresh pair of X25519. The public key is random to whoever lacks the secret one.
struct KeyPair {
  Key secretKey{};
  Key publicKey{};
  static KeyPair random();
};
/// What both ends compute from their own secret key and the other's public key. Throws Refused for
/// a public key that no honest end has.
Key agree(const Key& secretKey, const Key& publicKey);

/// The first 8 hexadecimal digits, for messages.
std::string brief(const JobId& job);

/// What a connection must prove.
struct Credentials {
  Key secret{};
  JobId job{};
  bool sameUser = false;  ///< there is no secret: the other end must be a process of this user
  bool ofKey = false;     ///< the secret is made of TUTTI_JOB_KEY, and is no unique id's
};

}  // namespace tutti::wire
