#pragma once

// Values for collective tests: whole numbers so small that every reduction over up to 16 ranks is
// exact in every type, so results are compared for equality.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <tutti/types.h>

#include "src/numbers/convert.h"

namespace tutti::tests {

inline void storeElement(DataType type, std::byte* at, double value) {
  const auto put = [&](auto typed) { std::memcpy(at, &typed, sizeof typed); };
  const float f = static_cast<float>(value);
  switch (type) {
    case DataType::Int8: return put(static_cast<int8_t>(value));
    case DataType::UInt8: return put(static_cast<uint8_t>(value));
    case DataType::Int16: return put(static_cast<int16_t>(value));
    case DataType::UInt16: return put(static_cast<uint16_t>(value));
    case DataType::Int32: return put(static_cast<int32_t>(value));
    case DataType::UInt32: return put(static_cast<uint32_t>(value));
    case DataType::Int64: return put(static_cast<int64_t>(value));
    case DataType::UInt64: return put(static_cast<uint64_t>(value));
    case DataType::Float16: return put(static_cast<uint16_t>(numbers::Float16Format::narrow(f)));
    case DataType::BFloat16: return put(static_cast<uint16_t>(numbers::BFloat16Format::narrow(f)));
    case DataType::Float32: return put(f);
    case DataType::Float64: return put(value);
    case DataType::Float8E4M3:
      return put(static_cast<uint8_t>(numbers::Float8E4M3Format::narrow(f)));
    case DataType::Float8E5M2:
      return put(static_cast<uint8_t>(numbers::Float8E5M2Format::narrow(f)));
  }
}

/// Element `index` of rank `rank`'s input: 1 or 2 for reductions that multiply, else 0, 1 or 2.
inline double inputValue(ReduceOp op, int rank, size_t index) {
  const size_t mixed = (static_cast<size_t>(rank) * 2654435761u + index * 40503u) >> 3;
  if (op == ReduceOp::Avg) return static_cast<double>(index % 3);  // equal on all ranks
  if (op == ReduceOp::Prod) return mixed % 4 == 0 ? 2 : 1;
  if (op == ReduceOp::PreMulSum) return static_cast<double>(mixed % 2);
  return static_cast<double>(mixed % 3 == 2 ? 2 : mixed % 3);
}

/// The scalar with which each rank premultiplies: exact, and different on neighbours.
inline double scalarOf(int rank) { return rank % 2 ? 1.0 : 2.0; }

inline double reducedValue(ReduceOp op, int ranks, size_t index) {
  double result = op == ReduceOp::Prod ? 1 : op == ReduceOp::Min ? 1e9 : 0;
  for (int r = 0; r < ranks; ++r) {
    const double x = inputValue(op, r, index);
    switch (op) {
      case ReduceOp::Sum:
      case ReduceOp::Avg: result += x; break;
      case ReduceOp::Prod: result *= x; break;
      case ReduceOp::Min: result = std::fmin(result, x); break;
      case ReduceOp::Max: result = std::fmax(result, x); break;
      case ReduceOp::PreMulSum: result += x * scalarOf(r); break;
    }
  }
  return op == ReduceOp::Avg ? result / ranks : result;
}

inline std::vector<std::byte> elements(DataType type, size_t count, const auto& valueOf) {
  std::vector<std::byte> bytes(count * sizeOf(type));
  for (size_t i = 0; i < count; ++i)
    storeElement(type, bytes.data() + i * sizeOf(type), valueOf(i));
  return bytes;
}

}  // namespace tutti::tests
