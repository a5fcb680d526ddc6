#include "src/numbers/fill.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "src/base/check.h"
#include "src/base/integers.h"
#include "src/numbers/convert.h"
#include "src/numbers/integer_scale.h"

namespace tutti::numbers {
namespace {

/// Integers up to this magnitude, and their sums, are exact in the type.
int64_t largestExact(DataType type) {
  switch (type) {
    case DataType::Int8: return 127;
    case DataType::UInt8: return 255;
    case DataType::Float8E4M3: return 16;
    case DataType::Float8E5M2: return 8;
    case DataType::BFloat16: return 256;
    case DataType::Float16: return 2048;
    case DataType::Int16:
    case DataType::UInt16: return 32767;
    default: return 1 << 20;
  }
}

bool isUnsigned(DataType type) {
  return type == DataType::UInt8 || type == DataType::UInt16 || type == DataType::UInt32 ||
         type == DataType::UInt64;
}

/// The values of one pattern, as integers.
class Values {
 public:
  explicit Values(const FillPattern& pattern)
      : pattern_(pattern), ranks_(pattern.ranks), unsigned_(isUnsigned(pattern.type)) {
    TUTTI_REQUIRE(isDefined(pattern.op, pattern.type), toString(pattern.op), " is not defined for ",
                  toString(pattern.type));
    TUTTI_REQUIRE(pattern.ranks >= 1, "a pattern of ", pattern.ranks, " ranks");
    TUTTI_REQUIRE(pattern.addends >= 0 && pattern.addends <= pattern.ranks, pattern.addends,
                  " addends of ", pattern.ranks, " ranks");
    // Premultiplied values are up to twice as large.
    const int64_t limit = largestExact(pattern.type) / (pattern.op == ReduceOp::PreMulSum ? 2 : 1);
    contributors_ = std::min<int64_t>(ranks_, limit);
    magnitude_ = limit / contributors_;
    most_ = largestExact(pattern.type);
  }

  int64_t value(int rank, size_t index) const {
    const uint64_t place = base::mixBits(pattern_.seed ^ base::mixBits(index));
    const uint64_t random = base::mixBits(place + static_cast<uint64_t>(rank) + 1);
    switch (pattern_.op) {
      case ReduceOp::Prod: return factor(rank, place, random);
      case ReduceOp::Min:
      case ReduceOp::Max:
      case ReduceOp::BitAnd:
      case ReduceOp::BitOr:
      case ReduceOp::BitXor: return spread(random, most_);
      case ReduceOp::LogicalAnd:
        return truth(random, random % (2 * static_cast<uint64_t>(ranks_)) != 0);
      case ReduceOp::LogicalOr:
        return truth(random, random % (2 * static_cast<uint64_t>(ranks_)) == 0);
      case ReduceOp::LogicalXor: return truth(random, random % 2 == 0);
      default: return contributes(rank, place) ? spread(random, magnitude_) : 0;
    }
  }

  int64_t reduced(size_t index) const {
    int64_t result = term(0, index);
    for (int rank = 1; rank < (pattern_.addends > 0 ? pattern_.addends : ranks_); ++rank) {
      const int64_t next = term(rank, index);
      switch (pattern_.op) {
        case ReduceOp::Prod: result *= next; break;
        case ReduceOp::Min: result = std::min(result, next); break;
        case ReduceOp::Max: result = std::max(result, next); break;
        case ReduceOp::BitAnd: result &= next; break;
        case ReduceOp::BitOr: result |= next; break;
        case ReduceOp::BitXor: result ^= next; break;
        case ReduceOp::LogicalAnd: result = result != 0 && next != 0; break;
        case ReduceOp::LogicalOr: result = result != 0 || next != 0; break;
        case ReduceOp::LogicalXor: result = (result != 0) != (next != 0); break;
        default: result += next;
      }
    }
    return result;
  }

 private:
  int64_t term(int rank, size_t index) const {
    return value(rank, index) * static_cast<int64_t>(premulScalar(pattern_, rank));
  }
  int64_t spread(uint64_t random, int64_t most) const {
    if (unsigned_) return static_cast<int64_t>(random % static_cast<uint64_t>(most + 1));
    return static_cast<int64_t>(random % static_cast<uint64_t>(2 * most + 1)) - most;
  }
  /// A true value, which is not always 1, or 0.
  static int64_t truth(uint64_t random, bool isTrue) {
    return isTrue ? 1 + static_cast<int64_t>(random >> 32) % 127 : 0;
  }
  /// Of each element's ranks `contributors_` consecutive ones, from a rank that varies.
  bool contributes(int rank, uint64_t place) const {
    const auto ranks = static_cast<uint64_t>(ranks_);
    return (static_cast<uint64_t>(rank) + place) % ranks < static_cast<uint64_t>(contributors_);
  }
  /// One rank has 3, up to four have 2, all others +-1: at most 48 in magnitude, with two
  /// significant bits.
  int64_t factor(int rank, uint64_t place, uint64_t random) const {
    const auto ranks = static_cast<uint64_t>(ranks_);
    if (static_cast<uint64_t>(rank) == place % ranks) return 3;
    for (int shift = 8; shift < 40; shift += 8)
      if (static_cast<uint64_t>(rank) == (place >> shift) % ranks) return 2;
    return unsigned_ || random % 2 == 0 ? 1 : -1;
  }

  const FillPattern pattern_;
  const int ranks_;
  const bool unsigned_;
  int64_t contributors_;
  int64_t magnitude_;
  int64_t most_;
};

template <class T>
void put(void* out, size_t index, T value) {
  std::memcpy(static_cast<char*>(out) + index * sizeof value, &value, sizeof value);
}

/// Stores a number that the integer or floating-point type holds, or a float32 to be rounded.
template <class Number>
void store(DataType type, void* out, size_t i, Number x) {
  switch (type) {
    case DataType::Int8: return put(out, i, static_cast<int8_t>(x));
    case DataType::UInt8: return put(out, i, static_cast<uint8_t>(x));
    case DataType::Int16: return put(out, i, static_cast<int16_t>(x));
    case DataType::UInt16: return put(out, i, static_cast<uint16_t>(x));
    case DataType::Int32: return put(out, i, static_cast<int32_t>(x));
    case DataType::UInt32: return put(out, i, static_cast<uint32_t>(x));
    case DataType::Int64: return put(out, i, static_cast<int64_t>(x));
    case DataType::UInt64: return put(out, i, static_cast<uint64_t>(x));
    case DataType::Float16: return put(out, i, toFloat16(static_cast<float>(x)));
    case DataType::BFloat16: return put(out, i, toBFloat16(static_cast<float>(x)));
    case DataType::Float32: return put(out, i, static_cast<float>(x));
    case DataType::Float64: return put(out, i, static_cast<double>(x));
    case DataType::Float8E4M3: return put(out, i, toFloat8E4M3(static_cast<float>(x)));
    case DataType::Float8E5M2: return put(out, i, toFloat8E5M2(static_cast<float>(x)));
  }
}

/// The one rounding of Avg: float64 and integers in their own type, the others in float32.
void storeAverage(DataType type, void* out, size_t index, int64_t sum, int ranks) {
  if (isInteger(type)) return store(type, out, index, sum / ranks);
  if (type == DataType::Float64)
    return store(type, out, index, static_cast<double>(sum) / static_cast<double>(ranks));
  store(type, out, index, static_cast<float>(sum) / static_cast<float>(ranks));
}

/// Writes `count` elements from `first` on of the periodic sequence that `element(out, at, index)`
/// stores: one period at most is computed, the rest copied.
template <class Element>
void fillPeriodic(DataType type, size_t first, size_t count, void* out, Element element) {
  const size_t size = sizeOf(type);
  char* bytes = static_cast<char*>(out);
  const size_t fresh = std::min(count, kFillPeriod);
  for (size_t i = 0; i < fresh; ++i) element(out, i, (first + i) % kFillPeriod);
  for (size_t done = fresh; done < count;) {
    const size_t part = std::min(count - done, done - done % kFillPeriod);
    std::memcpy(bytes + done * size, bytes, part * size);
    done += part;
  }
}

/// Compares against the periodic sequence that starts with the elements of `period`.
Comparison comparePeriodic(DataType type, const std::vector<char>& period, size_t count,
                           const void* actual) {
  const size_t size = sizeOf(type);
  const char* bytes = static_cast<const char*>(actual);
  Comparison total;
  for (size_t at = 0; at < count; at += kFillPeriod) {
    const Comparison part =
        compare(type, bytes + at * size, period.data(), std::min(kFillPeriod, count - at));
    if (total.wrong == 0 && part.wrong != 0) total.firstWrong = at + part.firstWrong;
    total.wrong += part.wrong;
  }
  return total;
}

}  // namespace

double premulScalar(const FillPattern& pattern, int rank) {
  return pattern.op == ReduceOp::PreMulSum ? 2 - rank % 2 : 1;
}

void fillInput(const FillPattern& pattern, int rank, size_t first, size_t count, void* out) {
  const Values values(pattern);
  TUTTI_REQUIRE(rank >= 0, "a pattern's rank ", rank);
  fillPeriodic(pattern.type, first, count, out, [&](void* to, size_t at, size_t index) {
    store(pattern.type, to, at, values.value(rank, index));
  });
}

void fillExpected(const FillPattern& pattern, size_t first, size_t count, void* out) {
  const Values values(pattern);
  fillPeriodic(pattern.type, first, count, out, [&](void* to, size_t at, size_t index) {
    if (pattern.op == ReduceOp::Avg)
      storeAverage(pattern.type, to, at, values.reduced(index), pattern.ranks);
    else
      store(pattern.type, to, at, values.reduced(index));
  });
}

Comparison compare(DataType type, const void* actual, const void* expected, size_t count) {
  const size_t size = sizeOf(type);
  Comparison result;
  if (count == 0 || std::memcmp(actual, expected, count * size) == 0) return result;
  const char* a = static_cast<const char*>(actual);
  const char* b = static_cast<const char*>(expected);
  for (size_t i = 0; i < count; ++i) {
    if (std::memcmp(a + i * size, b + i * size, size) == 0) continue;
    if (result.wrong++ == 0) result.firstWrong = i;
  }
  return result;
}

Comparison compareWithExpected(const FillPattern& pattern, size_t first, size_t count,
                               const void* actual) {
  const size_t fresh = std::min(count, kFillPeriod);
  std::vector<char> period(fresh * sizeOf(pattern.type));
  fillExpected(pattern, first, fresh, period.data());
  return comparePeriodic(pattern.type, period, count, actual);
}

Comparison compareWithInput(const FillPattern& pattern, int rank, size_t first, size_t count,
                            const void* actual) {
  const size_t fresh = std::min(count, kFillPeriod);
  std::vector<char> period(fresh * sizeOf(pattern.type));
  fillInput(pattern, rank, first, fresh, period.data());
  return comparePeriodic(pattern.type, period, count, actual);
}

}  // namespace tutti::numbers
