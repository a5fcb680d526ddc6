#pragma once

// Mutator: what a fuzz test feeds to parsers, seeded changes of good input.

#include <cstdint>
#include <random>

#include "src/base/bytes.h"

namespace tutti::tests {

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}
  size_t below(size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound - 1)(random_);
  }
  /// Flips, overwrites with edge values, cuts, repeats, up to three times or not at all; now and
  /// then noise instead.
  base::Bytes mutate(base::Bytes bytes);

 private:
  void change(base::Bytes& bytes);
  std::mt19937_64 random_;
};

}  // namespace tutti::tests
