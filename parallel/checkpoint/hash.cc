#define XXH_INLINE_ALL
#include "parallel/checkpoint/hash.h"

#include <xxhash.h>

namespace tutti::parallel {
namespace {

std::string digitsOf(XXH128_hash_t hash) {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, hash);
  std::string digits;
  for (const unsigned char byte : bytes.digest) {
    digits += "0123456789abcdef"[byte >> 4];
    digits += "0123456789abcdef"[byte & 15];
  }
  return digits;
}

}  // namespace

struct Hash128::State {
  XXH3_state_t value;  // asks for 64 bytes of alignment itself
};

Hash128::Hash128() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->value); }
Hash128::~Hash128() = default;

void Hash128::add(const void* data, size_t bytes) {
  XXH3_128bits_update(&state_->value, data, bytes);
}

std::string Hash128::digits() const { return digitsOf(XXH3_128bits_digest(&state_->value)); }

std::string hash128(const void* data, size_t bytes) { return digitsOf(XXH3_128bits(data, bytes)); }

}  // namespace tutti::parallel
