#pragma once

// Sealing what goes over one connection in one direction, so that nobody else can read it, and
// nothing can be changed, repeated, left out or reflected: authenticated encryption with a counter
// as its nonce. A key is of one connection and one direction, so that no nonce is used twice. By
// OpenSSL's libcrypto, whose AES-256-GCM is several times as fast as libsodium's.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "src/wire/secrets.h"

namespace tutti::wire {

enum class CipherKind : uint8_t { Aes256Gcm = 1, ChaCha20Poly1305 = 2 };
/// "AES-256-GCM"
const char* toString(CipherKind kind);
/// Whether this processor has instructions for AES-256-GCM; without them only the other is there.
bool hasAes();

/// What sealing adds to a text, bytes.
inline constexpr size_t kSealBytes = 16;
/// How many texts one key seals at most: then the connection has to be made again.
inline constexpr uint64_t kMostSealed = uint64_t{1} << 32;

/// The key of one direction of a session: `from` says whose.
Key directionKey(const Key& session, std::string_view from);

class Cipher {
 public:
  /// Throws Unsupported for AES-256-GCM on a processor that lacks it.
  Cipher(CipherKind kind, const Key& key);
  Cipher(Cipher&&) noexcept;
  Cipher& operator=(Cipher&&) noexcept;
  ~Cipher();

  /// Writes the sealed text, of `text.size() + kSealBytes` bytes, to `out`, which may be `text`'s
  /// own memory. Throws System once kMostSealed texts are sealed. A text has at most 2 GiB.
  void seal(std::span<const std::byte> text, std::byte* out);
  /// Writes the text of `sealed` to `out`, which may be `sealed`'s own memory. False where it is
  /// not the next text that the other end has sealed; then `out` holds nothing of use.
  [[nodiscard]] bool open(std::span<const std::byte> sealed, std::byte* out);
  uint64_t count() const { return count_; }  ///< texts so far

 private:
  struct State;
  std::unique_ptr<State> state_;
  CipherKind kind_;
  Key key_;
  uint64_t count_ = 0;
};

}  // namespace tutti::wire
