#include "parallel/tensor/random.h"

#include <cmath>
#include <numbers>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

struct WideProduct {
  uint32_t high, low;
};
WideProduct multiply(uint32_t a, uint32_t b) {
  const uint64_t product = uint64_t{a} * b;
  return {static_cast<uint32_t>(product >> 32), static_cast<uint32_t>(product)};
}

uint64_t join(uint32_t high, uint32_t low) { return uint64_t{high} << 32 | low; }
double toUnit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace

uint64_t hashBytes(const void* data, size_t count) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < count; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

PhiloxWords philox(PhiloxWords counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const WideProduct p0 = multiply(0xD2511F53u, counter[0]);
    const WideProduct p1 = multiply(0xCD9E8D57u, counter[2]);
    counter = {p1.high ^ counter[1] ^ key[0], p1.low, p0.high ^ counter[3] ^ key[1], p0.low};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

Random::Random(uint64_t seed, std::string_view name)
    : key_(seed), stream_(hashBytes(name.data(), name.size())) {}

PhiloxWords Random::block(uint64_t index) const {
  return philox({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                 static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)},
                {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
}

uint64_t Random::bits(uint64_t index) const {
  const auto words = block(index);
  return join(words[0], words[1]);
}

double Random::uniform(uint64_t index) const { return toUnit(bits(index)); }

double Random::normal(uint64_t index) const {
  const auto words = block(index);
  const double radius = 1.0 - toUnit(join(words[0], words[1]));  // in (0, 1]: the logarithm exists
  const double angle = 2.0 * std::numbers::pi * toUnit(join(words[2], words[3]));
  return std::sqrt(-2.0 * std::log(radius)) * std::cos(angle);
}

uint64_t Random::below(uint64_t index, uint64_t bound) const {
  require(bound > 0, "there is no number below 0");
  const uint64_t word = bits(index);
  // The high word of the 128-bit product, from 32-bit halves.
  const uint64_t low = (word & 0xffffffffu) * (bound & 0xffffffffu);
  const uint64_t middle1 = (word >> 32) * (bound & 0xffffffffu) + (low >> 32);
  const uint64_t middle2 = (word & 0xffffffffu) * (bound >> 32) + (middle1 & 0xffffffffu);
  return (word >> 32) * (bound >> 32) + (middle1 >> 32) + (middle2 >> 32);
}

Permutation::Permutation(uint64_t seed, std::string_view name, uint64_t size)
    : random_(seed, name), size_(size), halfBits_(1) {
  require(size > 0 && size < uint64_t{1} << 62, "a permutation of ", size, " elements");
  while (uint64_t{1} << (2 * halfBits_) < size) ++halfBits_;
}

uint64_t Permutation::operator[](uint64_t index) const {
  require(index < size_, "element ", index, " of a permutation of ", size_);
  const uint64_t mask = (uint64_t{1} << halfBits_) - 1;
  uint64_t position = index;
  do {  // a bijection of [0, 4^halfBits), under 4 times `size_`: about four turns at most
    uint64_t left = position >> halfBits_, right = position & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t next = left ^ (random_.bits(round << 56 | right) & mask);
      left = right;
      right = next;
    }
    position = left << halfBits_ | right;
  } while (position >= size_);
  return position;
}

}  // namespace tutti::parallel
