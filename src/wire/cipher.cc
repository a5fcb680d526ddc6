#include "src/wire/cipher.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <array>
#include <cstring>

#include "src/base/check.h"

namespace tutti::wire {
namespace {

using CounterNonce = std::array<unsigned char, 12>;

CounterNonce nonceOf(uint64_t count) {
  CounterNonce nonce{};
  std::memcpy(nonce.data(), &count, sizeof count);
  return nonce;
}

const EVP_CIPHER* evpOf(CipherKind kind) {
  return kind == CipherKind::Aes256Gcm ? ::EVP_aes_256_gcm() : ::EVP_chacha20_poly1305();
}

}  // namespace

const char* toString(CipherKind kind) {
  return kind == CipherKind::Aes256Gcm ? "AES-256-GCM" : "ChaCha20-Poly1305";
}

bool hasAes() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
#elif defined(__aarch64__)
  return (::getauxval(AT_HWCAP) & HWCAP_AES) != 0 && (::getauxval(AT_HWCAP) & HWCAP_PMULL) != 0;
#else
  return false;
#endif
}

Key directionKey(const Key& session, std::string_view from) {
  return authenticate(session, std::as_bytes(std::span(from)));
}

struct Cipher::State {
  struct Free {
    void operator()(EVP_CIPHER_CTX* context) const { ::EVP_CIPHER_CTX_free(context); }
  };
  std::unique_ptr<EVP_CIPHER_CTX, Free> sealing, opening;
};

// What the key becomes is computed once, for the direction that is used first.
Cipher::Cipher(CipherKind kind, const Key& key) : state_(new State), kind_(kind), key_(key) {
  // Without what OpenSSL does at the exit: threads may seal until the very end.
  static const int ready = ::OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  TUTTI_ASSERT(ready == 1, "OpenSSL cannot be initialized");
  if (kind == CipherKind::Aes256Gcm && !hasAes())
    base::fail(ErrorCode::Unsupported, "this processor has no instructions for AES-256-GCM");
}

Cipher::Cipher(Cipher&&) noexcept = default;
Cipher& Cipher::operator=(Cipher&&) noexcept = default;
Cipher::~Cipher() { ::OPENSSL_cleanse(key_.data(), key_.size()); }

void Cipher::seal(std::span<const std::byte> text, std::byte* out) {
  if (count_ >= kMostSealed)
    base::fail(ErrorCode::System, "a key has sealed ", count_, " texts, and may seal no more");
  const CounterNonce nonce = nonceOf(count_++);
  auto& context = state_->sealing;
  bool well = true;
  if (!context) {
    context.reset(::EVP_CIPHER_CTX_new());
    well = context && ::EVP_EncryptInit_ex(context.get(), evpOf(kind_), nullptr, raw(key_.data()),
                                           nullptr) == 1;
  }
  int bytes = 0;
  well =
      well && ::EVP_EncryptInit_ex(context.get(), nullptr, nullptr, nullptr, nonce.data()) == 1 &&
      ::EVP_EncryptUpdate(context.get(), raw(out), &bytes, raw(text.data()),
                          static_cast<int>(text.size())) == 1 &&
      ::EVP_EncryptFinal_ex(context.get(), raw(out) + bytes, &bytes) == 1 &&
      ::EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_GET_TAG, kSealBytes, out + text.size()) ==
          1;
  if (!well) base::fail(ErrorCode::System, "OpenSSL cannot seal by ", toString(kind_));
}

bool Cipher::open(std::span<const std::byte> sealed, std::byte* out) {
  if (sealed.size() < kSealBytes || count_ >= kMostSealed) return false;
  const CounterNonce nonce = nonceOf(count_++);
  const auto text = sealed.first(sealed.size() - kSealBytes);
  std::array<std::byte, kSealBytes> tag;
  std::memcpy(tag.data(), text.data() + text.size(), tag.size());
  auto& context = state_->opening;
  if (!context) {
    context.reset(::EVP_CIPHER_CTX_new());
    if (!context ||
        ::EVP_DecryptInit_ex(context.get(), evpOf(kind_), nullptr, raw(key_.data()), nullptr) != 1)
      base::fail(ErrorCode::System, "OpenSSL cannot open by ", toString(kind_));
  }
  int bytes = 0;
  return ::EVP_DecryptInit_ex(context.get(), nullptr, nullptr, nullptr, nonce.data()) == 1 &&
         ::EVP_DecryptUpdate(context.get(), raw(out), &bytes, raw(text.data()),
                             static_cast<int>(text.size())) == 1 &&
         ::EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_TAG, kSealBytes, tag.data()) == 1 &&
         ::EVP_DecryptFinal_ex(context.get(), raw(out) + bytes, &bytes) == 1;
}

}  // namespace tutti::wire
