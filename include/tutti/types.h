#pragma once

/// \file
/// Element types and reductions.

#if __cplusplus < 202002L
#error "Tutti needs C++20: compile with -std=c++20"
#endif

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tutti {

/// The type of an element.
enum class DataType : uint8_t {
  Int8,
  UInt8,
  Int16,
  UInt16,
  Int32,
  UInt32,
  Int64,
  UInt64,
  Float16,   ///< IEEE binary16
  BFloat16,  ///< upper half of binary32
  Float32,
  Float64,
  Float8E4M3,  ///< OCP FP8 E4M3: no infinities, one NaN pattern per sign, largest 448
  Float8E5M2,  ///< OCP FP8 E5M2: IEEE-like, largest 57344
};
inline constexpr int kDataTypeCount = 14;

/// How values of several ranks become one. Within a step, floating-point types narrower than
/// float32 accumulate in float32. NaN propagates through Min and Max. Integers wrap.
enum class ReduceOp : uint8_t {
  Sum,
  Prod,
  Min,
  Max,
  Avg,        ///< Sum, then one division by the number of ranks (integers truncate toward zero)
  PreMulSum,  ///< Sum of each rank's input times its own scalar, rounded to the type
  // For integers only. The logical operations read zero as false and give 0 or 1. If only one rank
  // contributes (a single rank, or rank 0 in a Scan), its input stays as it is.
  BitAnd,
  BitOr,
  BitXor,
  LogicalAnd,
  LogicalOr,
  LogicalXor,
};
inline constexpr int kReduceOpCount = 12;

// These functions throw InvalidArgument for a value outside of the enumeration.
size_t sizeOf(DataType type);         ///< bytes per element
const char* toString(DataType type);  ///< "float32", "bfloat16", "float8_e4m3", ...
const char* toString(ReduceOp op);    ///< "sum", "premulsum", ...
/// True if `op` can reduce values of `type`.
bool isDefined(ReduceOp op, DataType type);
std::optional<DataType> parseDataType(std::string_view name);
std::optional<ReduceOp> parseReduceOp(std::string_view name);

}  // namespace tutti
