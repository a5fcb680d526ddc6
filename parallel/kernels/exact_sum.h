#pragma once

// ExactSum: a sum of squares without rounding, so that a gradient's norm does not depend on the
// order of its elements, on how they are split over ranks, or on who adds first.
//
// It is one wide fixed-point number: 64-bit limbs that carry 32 bits of value each, from 2^-2144
// up, kept with room for delayed carries. Limbs of several ranks may be added as 64-bit integers
// (an AllReduce) before value() rounds once, to nearest even.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::parallel {

class ExactSum {
 public:
  static constexpr int kLimbs = 132;  ///< bits 2^-2144 to 2^2079

  /// Adds x^2 for each element. float32 squares are exact; a float64 square enters as the sum of
  /// its rounded value and that value's error (exact unless it is below 2^-1074).
  void addSquares(std::span<const float> values);
  void addSquares(std::span<const double> values);
  void add(double value);  ///< a negative value is subtracted
  void add(const ExactSum& other);

  /// To nearest. Infinity when the sum is above the largest double; NaN when an element was not
  /// finite (an infinite square counts as not finite).
  double value() const;

  /// For an AllReduce by integer sum: carries are settled, so up to 2^30 ranks may be added. The
  /// last limb counts elements that were not finite.
  std::array<int64_t, kLimbs + 1> limbs() const;
  static ExactSum fromLimbs(std::span<const int64_t> limbs);

 private:
  void addScaled(uint64_t mantissa, int exponent, bool negative);
  void settle();

  std::array<int64_t, kLimbs> limbs_{};
  int64_t notFinite_ = 0;
  int unsettled_ = 0;  ///< additions since the last settle(); each may add 2^32 to a limb
};

}  // namespace tutti::parallel
