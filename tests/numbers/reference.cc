#include "tests/numbers/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>

namespace tutti::numbers::reference {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Layout {
  int bits, exponentBits, fractionBits;
  bool infinity;
};
Layout layoutOf(DataType type) {
  switch (type) {
    case DataType::Float16: return {16, 5, 10, true};
    case DataType::BFloat16: return {16, 8, 7, true};
    case DataType::Float32: return {32, 8, 23, true};
    case DataType::Float64: return {64, 11, 52, true};
    case DataType::Float8E4M3: return {8, 4, 3, false};
    default: return {8, 5, 2, true};
  }
}

bool integer(DataType type) { return type <= DataType::UInt64; }
bool signedInteger(DataType type) { return integer(type) && static_cast<int>(type) % 2 == 0; }

/// The finite non-negative values in ascending order, which is the order of their bit patterns.
const std::vector<double>& table(DataType type) {
  static std::mutex mutex;
  static std::map<DataType, std::vector<double>> tables;
  std::lock_guard lock(mutex);
  std::vector<double>& values = tables[type];
  if (values.empty())
    for (uint64_t bits = 0; std::isfinite(decode(type, bits)); ++bits)
      values.push_back(decode(type, bits));
  return values;
}

uint64_t nanBits(DataType type) {
  switch (type) {
    case DataType::Float16: return 0x7e00;
    case DataType::BFloat16: return 0x7fc0;
    case DataType::Float32: return 0x7fc00000;
    case DataType::Float64: return 0x7ff8000000000000;
    case DataType::Float8E4M3: return 0x7f;
    default: return 0x7e;
  }
}

// ---- floating point: values are float64, rounded to the accumulation type after every operation.
// For float32 the detour is exact: 53 >= 2 * 24 + 2 bits, so rounding twice equals rounding once.

class Floating {
 public:
  Floating(DataType type, ReduceOp op, FoldOrder order, const Scalars& scalars)
      : type_(type), op_(op), order_(order), scalars_(scalars) {}

  uint64_t fold(const std::vector<uint64_t>& sources) const {
    std::vector<double> values;
    for (size_t s = 0; s < sources.size(); ++s) values.push_back(leaf(sources[s], s));
    double result = order_ == FoldOrder::Canonical ? tree(values) : listed(values);
    if (scalars_.divideBy != 1)
      result = accumulated(result / accumulated(static_cast<double>(scalars_.divideBy)));
    return stored(result);
  }

 private:
  double accumulated(double x) const {
    return type_ == DataType::Float64 ? x : static_cast<double>(static_cast<float>(x));
  }
  uint64_t stored(double x) const {
    if (std::isnan(x)) return nanBits(type_);
    if (type_ == DataType::Float64) return std::bit_cast<uint64_t>(x);
    if (type_ == DataType::Float32) return std::bit_cast<uint32_t>(static_cast<float>(x));
    return encodeReduced(type_, x);
  }
  double rounded(double x) const { return decode(type_, stored(x)); }
  double node(double x) const { return order_ == FoldOrder::Listed ? accumulated(x) : rounded(x); }

  double leaf(uint64_t bits, size_t s) const {
    const double x = decode(type_, bits);
    if (scalars_.premultiply.empty() || scalars_.premultiply[s] == 1.0) return x;
    return rounded(accumulated(x * accumulated(scalars_.premultiply[s])));
  }
  double combine(double a, double b) const {
    switch (op_) {
      case ReduceOp::Prod: return node(accumulated(a * b));
      case ReduceOp::Min: return least(a, b);
      case ReduceOp::Max: return -least(-a, -b);
      default: return node(accumulated(a + b));
    }
  }
  static double least(double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return kNan;
    if (a == 0 && b == 0) return std::signbit(a) || std::signbit(b) ? -0.0 : 0.0;
    return a < b ? a : b;
  }
  double listed(const std::vector<double>& values) const {
    double result = values[0];
    for (size_t i = 1; i < values.size(); ++i) result = combine(result, values[i]);
    return result;
  }
  /// Level by level: neighbours are joined, an odd one moves up as it is.
  double tree(std::vector<double> level) const {
    while (level.size() > 1) {
      std::vector<double> next;
      for (size_t i = 0; i + 1 < level.size(); i += 2)
        next.push_back(combine(level[i], level[i + 1]));
      if (level.size() % 2 != 0) next.push_back(level.back());
      level = next;
    }
    return level[0];
  }

  DataType type_;
  ReduceOp op_;
  FoldOrder order_;
  const Scalars& scalars_;
};

// ---- integers, in 128 bits

__extension__ typedef __int128 Wide;

int bitsOf(DataType type) { return static_cast<int>(8 * sizeOf(type)); }

Wide wrap(DataType type, Wide x) {
  const Wide modulus = Wide{1} << bitsOf(type);
  Wide rest = x % modulus;
  if (rest < 0) rest += modulus;
  if (signedInteger(type) && rest >= modulus / 2) rest -= modulus;
  return rest;
}

Wide scaled(DataType type, Wide x, double scalar) {
  if (scalar == 1.0) return x;
  const int valueBits = bitsOf(type) - (signedInteger(type) ? 1 : 0);
  const Wide most = (Wide{1} << valueBits) - 1;
  const Wide least = signedInteger(type) ? -most - 1 : 0;
  const double product = static_cast<double>(x) * scalar;
  if (std::isnan(product)) return 0;
  if (std::abs(product) >= std::ldexp(1.0, 100)) return product < 0 ? least : most;
  return std::clamp(static_cast<Wide>(product), least, most);
}

Wide combineIntegers(DataType type, ReduceOp op, Wide a, Wide b) {
  switch (op) {
    case ReduceOp::Prod:  // of 64-bit factors: their product modulo 2^64 needs no more than this
      return wrap(type, static_cast<Wide>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)));
    case ReduceOp::Min: return a < b ? a : b;
    case ReduceOp::Max: return a < b ? b : a;
    case ReduceOp::BitAnd: return a & b;
    case ReduceOp::BitOr: return a | b;
    case ReduceOp::BitXor: return a ^ b;
    case ReduceOp::LogicalAnd: return a != 0 && b != 0;
    case ReduceOp::LogicalOr: return a != 0 || b != 0;
    case ReduceOp::LogicalXor: return (a != 0) != (b != 0);
    default: return wrap(type, a + b);
  }
}

uint64_t foldIntegers(DataType type, ReduceOp op, const std::vector<uint64_t>& sources,
                      const Scalars& scalars) {
  Wide result = 0;
  for (size_t s = 0; s < sources.size(); ++s) {
    Wide x = wrap(type, static_cast<Wide>(sources[s]));
    if (!scalars.premultiply.empty()) x = scaled(type, x, scalars.premultiply[s]);
    result = s == 0 ? x : combineIntegers(type, op, result, x);
  }
  result /= scalars.divideBy;
  const uint64_t mask = ~uint64_t{0} >> (64 - bitsOf(type));
  return static_cast<uint64_t>(result) & mask;
}

}  // namespace

double decode(DataType type, uint64_t bits) {
  const Layout f = layoutOf(type);
  const double sign = bits >> (f.bits - 1) & 1 ? -1 : 1;
  const auto exponent = static_cast<int>(bits >> f.fractionBits & ((1u << f.exponentBits) - 1));
  const uint64_t fraction = bits & ((uint64_t{1} << f.fractionBits) - 1);
  const int top = (1 << f.exponentBits) - 1;
  const int bias = top / 2;
  if (exponent == top && f.infinity) return fraction == 0 ? sign * kInfinity : kNan;
  if (exponent == top && fraction == (1u << f.fractionBits) - 1) return kNan;
  const double scale = std::ldexp(1.0, -f.fractionBits);
  const double part = static_cast<double>(fraction) * scale;
  if (exponent == 0) return sign * std::ldexp(part, 1 - bias);
  return sign * std::ldexp(1 + part, exponent - bias);
}

uint64_t encodeReduced(DataType type, double x) {
  if (std::isnan(x)) return nanBits(type);
  const std::vector<double>& values = table(type);
  const uint64_t sign = std::signbit(x) ? uint64_t{1} << (layoutOf(type).bits - 1) : 0;
  const double magnitude = std::abs(x);
  // The value that would follow the largest one; halfway to it rounds to the even pattern.
  const size_t count = values.size();
  const double beyond = 2 * values[count - 1] - values[count - 2];
  const auto above = std::lower_bound(values.begin(), values.end(), magnitude);
  const size_t high = static_cast<size_t>(above - values.begin());
  if (high < count && values[high] == magnitude) return sign | high;
  const double highValue = high < count ? values[high] : beyond;
  const double toLow = magnitude - values[high - 1];
  const double toHigh = highValue - magnitude;
  const bool up = toHigh < toLow || (toHigh == toLow && high % 2 == 0);
  const size_t chosen = up ? high : high - 1;
  if (chosen < count) return sign | chosen;
  return layoutOf(type).infinity ? sign | count : nanBits(type);
}

uint64_t fold(DataType type, ReduceOp op, FoldOrder order, const std::vector<uint64_t>& sources,
              const Scalars& scalars) {
  if (integer(type)) return foldIntegers(type, op, sources, scalars);
  const bool untouched = sources.size() == 1 && scalars.divideBy == 1 &&
                         (scalars.premultiply.empty() || scalars.premultiply[0] == 1.0);
  return untouched ? sources[0] : Floating(type, op, order, scalars).fold(sources);
}

uint64_t loadBits(DataType type, const void* data, size_t index) {
  uint64_t bits = 0;
  const size_t size = sizeOf(type);
  std::memcpy(&bits, static_cast<const char*>(data) + index * size, size);
  return bits;
}

double valueAt(DataType type, const void* data, size_t index) {
  const uint64_t bits = loadBits(type, data, index);
  return integer(type) ? static_cast<double>(wrap(type, static_cast<Wide>(bits)))
                       : decode(type, bits);
}

void storeBits(DataType type, void* data, size_t index, uint64_t bits) {
  const size_t size = sizeOf(type);
  std::memcpy(static_cast<char*>(data) + index * size, &bits, size);
}

}  // namespace tutti::numbers::reference
