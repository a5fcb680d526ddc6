#include "src/wire/secrets.h"

#include <sodium.h>

namespace tutti::wire {

void requireSodium() {
  static const int status = ::sodium_init();
  TUTTI_ASSERT(status >= 0, "libsodium cannot be initialized");
}

void fillRandom(std::span<std::byte> out) {
  requireSodium();
  ::randombytes_buf(out.data(), out.size());
}

Mac authenticate(const Key& key, std::span<const std::byte> message) {
  requireSodium();
  static_assert(crypto_auth_hmacsha256_KEYBYTES == 32 && crypto_auth_hmacsha256_BYTES == 32);
  Mac mac;
  ::crypto_auth_hmacsha256(raw(mac.data()), raw(message.data()), message.size(), raw(key.data()));
  return mac;
}

bool equal(const Mac& left, const Mac& right) {
  return ::sodium_memcmp(left.data(), right.data(), left.size()) == 0;
}

void digestInto(std::span<std::byte> out, std::string_view purpose,
                std::span<const std::byte> text) {
  requireSodium();
  base::ByteWriter message;
  message.put(std::string(purpose)).put(text);
  const base::Bytes bytes = message.take();
  ::crypto_generichash(raw(out.data()), out.size(), raw(bytes.data()), bytes.size(), nullptr, 0);
}

KeyPair KeyPair::random() {
  static_assert(crypto_scalarmult_BYTES == 32 && crypto_scalarmult_SCALARBYTES == 32);
  KeyPair pair{.secretKey = randomBytes<32>()};
  ::crypto_scalarmult_base(raw(pair.publicKey.data()), raw(pair.secretKey.data()));
  return pair;
}

Key agree(const Key& secretKey, const Key& publicKey) {
  Key shared;
  if (::crypto_scalarmult(raw(shared.data()), raw(secretKey.data()), raw(publicKey.data())) != 0)
    base::fail(ErrorCode::Refused, "the other end's public key is one that no honest end has");
  return shared;
}

std::optional<Key> stretch(std::string_view text, std::string_view place, const StretchCost& cost) {
  static_assert(sizeof(Key) >= crypto_pwhash_BYTES_MIN);
  const auto salt = digest<crypto_pwhash_SALTBYTES>("salt", place);
  Key key;
  const int status =
      ::crypto_pwhash(raw(key.data()), key.size(), text.data(), text.size(), raw(salt.data()),
                      cost.passes, cost.bytes, crypto_pwhash_ALG_ARGON2ID13);
  return status == 0 ? std::optional(key) : std::nullopt;
}

std::string brief(const JobId& job) { return base::hex(std::span(job).first(4)); }

}  // namespace tutti::wire
