#include "src/bootstrap/wire/secrets.h"

#include <sodium.h>

namespace tutti::bootstrap {
namespace {

void requireSodium() {
  static const int status = ::sodium_init();
  TUTTI_ASSERT(status >= 0, "libsodium cannot be initialized");
}

unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

}  // namespace

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

std::string brief(const JobId& job) { return base::hex(std::span(job).first(4)); }

}  // namespace tutti::bootstrap
