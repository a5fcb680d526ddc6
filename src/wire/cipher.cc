#include "src/wire/cipher.h"

#include <sodium.h>

#include <array>
#include <cstring>

#include "src/base/check.h"

namespace tutti::wire {
namespace {

using CounterNonce = std::array<unsigned char, 12>;
static_assert(crypto_aead_aes256gcm_NPUBBYTES == 12 &&
              crypto_aead_chacha20poly1305_IETF_NPUBBYTES == 12);
static_assert(crypto_aead_aes256gcm_KEYBYTES == 32 &&
              crypto_aead_chacha20poly1305_IETF_KEYBYTES == 32);
static_assert(crypto_aead_aes256gcm_ABYTES == kSealBytes &&
              crypto_aead_chacha20poly1305_IETF_ABYTES == kSealBytes);

CounterNonce nonceOf(uint64_t count) {
  CounterNonce nonce{};
  std::memcpy(nonce.data(), &count, sizeof count);
  return nonce;
}

}  // namespace

const char* toString(CipherKind kind) {
  return kind == CipherKind::Aes256Gcm ? "AES-256-GCM" : "ChaCha20-Poly1305";
}

bool hasAes() {
  requireSodium();
  return ::crypto_aead_aes256gcm_is_available() == 1;
}

Key directionKey(const Key& session, std::string_view from) {
  return authenticate(session, std::as_bytes(std::span(from)));
}

struct Cipher::State {
  CipherKind kind;
  Key key;
  crypto_aead_aes256gcm_state aes;  // the key's schedule
};

Cipher::Cipher(CipherKind kind, const Key& key) : state_(new State{kind, key, {}}) {
  requireSodium();
  if (kind != CipherKind::Aes256Gcm) return;
  if (!hasAes())
    base::fail(ErrorCode::Unsupported, "this processor has no instructions for AES-256-GCM");
  ::crypto_aead_aes256gcm_beforenm(&state_->aes, raw(key.data()));
}

Cipher::Cipher(Cipher&&) noexcept = default;
Cipher& Cipher::operator=(Cipher&&) noexcept = default;
Cipher::~Cipher() {
  if (state_) ::sodium_memzero(state_.get(), sizeof(State));
}

void Cipher::seal(std::span<const std::byte> text, std::byte* out) {
  if (count_ >= kMostSealed)
    base::fail(ErrorCode::System, "a key has sealed ", count_, " texts, and may seal no more");
  const CounterNonce nonce = nonceOf(count_++);
  if (state_->kind == CipherKind::Aes256Gcm)
    ::crypto_aead_aes256gcm_encrypt_afternm(raw(out), nullptr, raw(text.data()), text.size(),
                                            nullptr, 0, nullptr, nonce.data(), &state_->aes);
  else
    ::crypto_aead_chacha20poly1305_ietf_encrypt(raw(out), nullptr, raw(text.data()), text.size(),
                                                nullptr, 0, nullptr, nonce.data(),
                                                raw(state_->key.data()));
}

bool Cipher::open(std::span<const std::byte> sealed, std::byte* out) {
  if (sealed.size() < kSealBytes || count_ >= kMostSealed) return false;
  const CounterNonce nonce = nonceOf(count_++);
  if (state_->kind == CipherKind::Aes256Gcm)
    return ::crypto_aead_aes256gcm_decrypt_afternm(raw(out), nullptr, nullptr, raw(sealed.data()),
                                                   sealed.size(), nullptr, 0, nonce.data(),
                                                   &state_->aes) == 0;
  return ::crypto_aead_chacha20poly1305_ietf_decrypt(raw(out), nullptr, nullptr, raw(sealed.data()),
                                                     sealed.size(), nullptr, 0, nonce.data(),
                                                     raw(state_->key.data())) == 0;
}

}  // namespace tutti::wire
