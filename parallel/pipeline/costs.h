#pragma once

// What actions take, as whole numbers of a unit that the user chooses, so that what follows from
// them is exact.

#include <compare>
#include <cstdint>
#include <numeric>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

/// Of all chunks of a rank together, for one micro-batch; a transfer's is of its own.
struct Costs {
  int64_t forward = 1;
  int64_t inputGradients = 1;   ///< B where backward is split; where it is not, B takes both
  int64_t weightGradients = 1;  ///< W
  int64_t transfer = 0;         ///< from the end of a computation until the other rank has it
  bool operator==(const Costs&) const = default;
};
/// Throws InvalidArgument unless computations cost 1 to a million, and transfers 0 to a million.
void check(const Costs& costs);

/// A number that is not negative, in lowest terms.
struct Fraction {
  int64_t over = 0, under = 1;

  Fraction() = default;
  Fraction(int64_t numerator, int64_t denominator) : over(numerator), under(denominator) {
    require(numerator >= 0 && denominator > 0, numerator, " over ", denominator);
    const int64_t common = std::gcd(numerator, denominator);
    over /= common;
    under /= common;
  }
  bool operator==(const Fraction&) const = default;
  std::strong_ordering operator<=>(const Fraction& other) const {
    return over * other.under <=> other.over * under;
  }
  double value() const { return static_cast<double>(over) / static_cast<double>(under); }
};

}  // namespace tutti::parallel
