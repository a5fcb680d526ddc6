#pragma once

// Element types and reductions.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tutti {

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

/// How values of several ranks become one. Reduced-precision types accumulate in float32 within one
/// step; NaN propagates through Min and Max; integers wrap.
enum class ReduceOp : uint8_t {
  Sum,
  Prod,
  Min,
  Max,
  Avg,        ///< Sum, then one division by the number of ranks (integers truncate toward zero)
  PreMulSum,  ///< Sum of each rank's input times its own scalar, rounded to the type
  // Of integers only. The logical ones take zero for false and give 0 or 1; an input that enters
  // alone (one rank, or rank 0 in a Scan) stays as it is.
  BitAnd,
  BitOr,
  BitXor,
  LogicalAnd,
  LogicalOr,
  LogicalXor,
};
inline constexpr int kReduceOpCount = 12;

// These throw InvalidArgument for a value that is none of its enumeration.
size_t sizeOf(DataType type);         ///< bytes per element
const char* toString(DataType type);  ///< "float32", "bfloat16", "float8_e4m3", ...
const char* toString(ReduceOp op);    ///< "sum", "premulsum", ...
/// True where values of `type` can be reduced by `op`.
bool isDefined(ReduceOp op, DataType type);
std::optional<DataType> parseDataType(std::string_view name);
std::optional<ReduceOp> parseReduceOp(std::string_view name);

}  // namespace tutti
