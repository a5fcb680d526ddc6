#include "src/numbers/integer_scale.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "src/base/check.h"

namespace tutti::numbers {
namespace {

/// Applies `change` to each element of type T.
template <class T, class Change>
void each(const void* source, void* target, size_t count, Change change) {
  const char* from = static_cast<const char*>(source);
  char* to = static_cast<char*>(target);
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    value = change(value);
    std::memcpy(to + i * sizeof value, &value, sizeof value);
  }
}

/// Calls `visit` with a value of the integer type `type`.
template <class Visit>
void withInteger(DataType type, Visit visit) {
  switch (type) {
    case DataType::Int8: return visit(int8_t{});
    case DataType::UInt8: return visit(uint8_t{});
    case DataType::Int16: return visit(int16_t{});
    case DataType::UInt16: return visit(uint16_t{});
    case DataType::Int32: return visit(int32_t{});
    case DataType::UInt32: return visit(uint32_t{});
    case DataType::Int64: return visit(int64_t{});
    case DataType::UInt64: return visit(uint64_t{});
    default: TUTTI_ASSERT(false, toString(type), " is no integer type");
  }
}

template <class T>
T truncate(double x) {
  constexpr T least = std::numeric_limits<T>::min();
  constexpr T most = std::numeric_limits<T>::max();
  // 2^digits, the first number above the range, is exact also where `most` is not. Whatever is
  // above least - 1 truncates to something inside; at 64 bits no double lies between the two.
  constexpr double end = 2.0 * static_cast<double>(T{1} + (most - 1) / 2);
  if (x != x) return 0;
  if (x >= end) return most;
  if (x <= static_cast<double>(least)) return least;
  return static_cast<T>(x);
}

}  // namespace

void scaleIntegers(DataType type, const void* source, double scalar, size_t count, void* target) {
  withInteger(type, [&](auto zero) {
    using T = decltype(zero);
    if (scalar == 1.0) return each<T>(source, target, count, [](T x) { return x; });
    each<T>(source, target, count,
            [&](T x) { return truncate<T>(static_cast<double>(x) * scalar); });
  });
}

void divideIntegers(DataType type, void* data, int divisor, size_t count) {
  withInteger(type, [&](auto zero) {
    using T = decltype(zero);
    // Up to 32 bits the quotient of two doubles truncates to the integers' quotient: it can round
    // up to an integer only if quotient * divisor reaches 2^53. This form is vectorized.
    if constexpr (sizeof(T) < 8) {
      const double by = divisor;
      each<T>(data, data, count, [&](T x) { return static_cast<T>(static_cast<double>(x) / by); });
    } else {
      const T by = static_cast<T>(divisor);
      each<T>(data, data, count, [&](T x) { return static_cast<T>(x / by); });
    }
  });
}

}  // namespace tutti::numbers
