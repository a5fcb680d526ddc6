#include "parallel/kernels/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

constexpr int kLowestBit = -2144;
constexpr int kLimbBits = 32;
constexpr int kMaxUnsettled = 1 << 28;

/// Sums of squared float32 mantissas, one bin for each exponent. A square is below 2^48, so a bin
/// takes 2^15 of them with room to add four. Four tables, used in turn, keep one addition from
/// waiting for the last.
struct Bins {
  static constexpr size_t kTables = 4;
  static constexpr size_t kCapacity = size_t{1} << 15;
  uint64_t sums[kTables][256] = {};

  void add(float value, size_t table) {
    const uint32_t word = std::bit_cast<uint32_t>(value);
    const uint32_t exponent = word >> 23 & 255;
    const uint64_t mantissa = (word & 0x7fffff) | (exponent == 0 ? 0u : 1u << 23);
    sums[table][exponent] += mantissa * mantissa;
  }
};

}  // namespace

void ExactSum::addScaled(uint64_t mantissa, int exponent, bool negative) {
  const int bit = exponent - kLowestBit;
  ensure(bit >= 0 && bit / kLimbBits + 2 < kLimbs, "2^", exponent, " is outside the exact sum");
  const int shift = bit % kLimbBits;
  auto* limb = limbs_.data() + bit / kLimbBits;
  const uint64_t low = mantissa << shift;
  const uint64_t high = shift == 0 ? 0 : mantissa >> (64 - shift);
  const int64_t parts[3] = {static_cast<int64_t>(low & 0xffffffffu),
                            static_cast<int64_t>(low >> kLimbBits), static_cast<int64_t>(high)};
  for (int i = 0; i < 3; ++i) limb[i] += negative ? -parts[i] : parts[i];
  if (++unsettled_ >= kMaxUnsettled) settle();
}

void ExactSum::settle() {
  int64_t carry = 0;
  for (int i = 0; i < kLimbs; ++i) {
    const int64_t limb = limbs_[static_cast<size_t>(i)] + carry;
    carry = limb >> kLimbBits;  // toward minus infinity: every limb but the last becomes 0..2^32-1
    limbs_[static_cast<size_t>(i)] = i + 1 < kLimbs ? limb - (carry << kLimbBits) : limb;
  }
  unsettled_ = 0;
}

void ExactSum::add(double value) {
  if (!std::isfinite(value)) {
    ++notFinite_;
    return;
  }
  if (value == 0) return;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);
  addScaled(static_cast<uint64_t>(std::ldexp(fraction, 53)), exponent - 53, value < 0);
}

void ExactSum::addSquares(std::span<const float> values) {
  for (size_t begin = 0; begin < values.size(); begin += Bins::kCapacity) {
    const auto part = values.subspan(begin, std::min(Bins::kCapacity, values.size() - begin));
    Bins bins;
    size_t i = 0;
    for (; i + Bins::kTables <= part.size(); i += Bins::kTables)
      for (size_t table = 0; table < Bins::kTables; ++table) bins.add(part[i + table], table);
    for (; i < part.size(); ++i) bins.add(part[i], 0);
    for (int exponent = 0; exponent < 256; ++exponent) {
      // At most 2^15 squares below 2^48 each: the sum is below 2^63.
      uint64_t sum = 0;
      for (const auto& table : bins.sums) sum += table[exponent];
      if (sum == 0) continue;
      if (exponent == 255)
        ++notFinite_;
      else
        addScaled(sum, 2 * (std::max(exponent, 1) - 150), false);
    }
  }
}

void ExactSum::addSquares(std::span<const double> values) {
  for (double value : values) {
    const double square = value * value;
    add(square);
    if (std::isfinite(square)) add(std::fma(value, value, -square));
  }
}

void ExactSum::add(const ExactSum& other) {
  settle();
  const auto theirs = other.limbs();
  for (size_t i = 0; i < limbs_.size(); ++i) limbs_[i] += theirs[i];
  notFinite_ += other.notFinite_;
  settle();
}

std::array<int64_t, ExactSum::kLimbs + 1> ExactSum::limbs() const {
  ExactSum settled = *this;
  settled.settle();
  std::array<int64_t, kLimbs + 1> result{};
  std::copy(settled.limbs_.begin(), settled.limbs_.end(), result.begin());
  result.back() = notFinite_;
  return result;
}

ExactSum ExactSum::fromLimbs(std::span<const int64_t> limbs) {
  require(limbs.size() == kLimbs + 1, "an exact sum has ", kLimbs + 1, " limbs, not ",
          limbs.size());
  ExactSum sum;
  std::copy(limbs.begin(), limbs.end() - 1, sum.limbs_.begin());
  sum.notFinite_ = limbs.back();
  sum.settle();
  return sum;
}

double ExactSum::value() const {
  if (notFinite_ != 0) return std::numeric_limits<double>::quiet_NaN();
  ExactSum settled = *this;
  settled.settle();
  const bool negative = settled.limbs_.back() < 0;
  if (negative) {
    for (int64_t& limb : settled.limbs_) limb = -limb;
    settled.settle();
  }
  int top = kLimbs - 1;
  while (top > 0 && settled.limbs_[static_cast<size_t>(top)] == 0) --top;
  // The upper 64 bits that matter, with everything below folded into a sticky last bit.
  const auto limb = [&](int i) {
    return i < 0 ? uint64_t{0} : static_cast<uint64_t>(settled.limbs_[static_cast<size_t>(i)]);
  };
  const int width = std::bit_width(limb(top));
  if (width == 0) return 0;
  const int drop = width;  // bits of the third limb that do not fit below the first two
  uint64_t head = limb(top) << (64 - width);
  if (width <= 32) {
    head |= limb(top - 1) << (32 - width);
    head |= limb(top - 2) >> drop;
  }
  bool sticky = (limb(top - 2) & ((uint64_t{1} << drop) - 1)) != 0;
  for (int i = top - 3; i >= 0 && !sticky; --i) sticky = limb(i) != 0;
  // 64 bits to 54: the conversion below then rounds once, from a value whose last bit is sticky.
  if ((head & 0x3ff) != 0) sticky = true;
  const uint64_t rounded = (head >> 10 << 1) | (sticky ? 1 : 0);  // 55 bits
  const double magnitude =
      std::ldexp(static_cast<double>(rounded), top * kLimbBits + kLowestBit + width - 55);
  return negative ? -magnitude : magnitude;
}

}  // namespace tutti::parallel
