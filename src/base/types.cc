#include <tutti/buffer.h>
#include <tutti/types.h>

#include <array>

#include "src/base/check.h"

namespace tutti {
namespace {

constexpr std::array<const char*, kDataTypeCount> kTypes{
    "int8",   "uint8",   "int16",    "uint16",  "int32",   "uint32",      "int64",
    "uint64", "float16", "bfloat16", "float32", "float64", "float8_e4m3", "float8_e5m2"};
constexpr std::array<const char*, kReduceOpCount> kOps{
    "sum",     "prod",   "min",     "max",         "avg",        "premulsum",
    "bit_and", "bit_or", "bit_xor", "logical_and", "logical_or", "logical_xor"};

// A number that was cast to an enumeration may be anything.
template <class Table, class Enum>
const auto& entry(const Table& table, const char* what, Enum value) {
  const auto index = static_cast<size_t>(value);
  TUTTI_REQUIRE(index < table.size(), "there is no ", what, " ", index, ": the last is ",
                table.size() - 1);
  return table[index];
}

}  // namespace

size_t sizeOf(DataType type) { return entry(kDataTypeBytes, "data type", type); }
const char* toString(DataType type) { return entry(kTypes, "data type", type); }
const char* toString(ReduceOp op) { return entry(kOps, "reduction", op); }

bool isDefined(ReduceOp op, DataType type) {
  sizeOf(type);
  toString(op);
  return op < ReduceOp::BitAnd || type < DataType::Float16;
}

std::optional<DataType> parseDataType(std::string_view name) {
  for (int i = 0; i < kDataTypeCount; ++i)
    if (name == kTypes[i]) return static_cast<DataType>(i);
  return std::nullopt;
}

std::optional<ReduceOp> parseReduceOp(std::string_view name) {
  for (int i = 0; i < kReduceOpCount; ++i)
    if (name == kOps[i]) return static_cast<ReduceOp>(i);
  return std::nullopt;
}

}  // namespace tutti
