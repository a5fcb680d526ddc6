#pragma once

// Counter-based random numbers: each is a pure function of (seed, name, index), so that a weight, a
// dropout mask or a sample is the same whichever rank computes it and in whatever order. The
// generator is Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3").

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tutti::parallel {

using PhiloxWords = std::array<uint32_t, 4>;
/// One block of Philox-4x32-10.
PhiloxWords philox(PhiloxWords counter, std::array<uint32_t, 2> key);

/// FNV-1a, 64 bits: short, and the same on every machine, which std::hash is not.
uint64_t hashBytes(const void* data, size_t count);

class Random {
 public:
  /// The stream called `name` of the run with `seed`.
  Random(uint64_t seed, std::string_view name);

  uint64_t bits(uint64_t index) const;   ///< 64 uniform bits
  double uniform(uint64_t index) const;  ///< in [0, 1), 53 bits
  double normal(uint64_t index) const;   ///< mean 0, standard deviation 1
  /// Below `bound` (at least 1). The bias is under bound / 2^64.
  uint64_t below(uint64_t index, uint64_t bound) const;

 private:
  PhiloxWords block(uint64_t index) const;
  uint64_t key_;
  uint64_t stream_;
};

/// A permutation of [0, size) that needs no memory: index -> position, by a keyed Feistel network
/// that walks the cycle until it is back inside. Equal (seed, name, size) give equal permutations.
class Permutation {
 public:
  Permutation(uint64_t seed, std::string_view name, uint64_t size);
  uint64_t operator[](uint64_t index) const;  ///< throws InvalidArgument when index >= size

 private:
  Random random_;
  uint64_t size_;
  int halfBits_;
};

}  // namespace tutti::parallel
