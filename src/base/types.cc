#include <tutti/types.h>

#include <array>

#include "src/base/check.h"

namespace tutti {
namespace {

struct TypeFacts {
  const char* name;
  size_t bytes;
};
constexpr std::array<TypeFacts, kDataTypeCount> kTypes{{
    {"int8", 1},
    {"uint8", 1},
    {"int16", 2},
    {"uint16", 2},
    {"int32", 4},
    {"uint32", 4},
    {"int64", 8},
    {"uint64", 8},
    {"float16", 2},
    {"bfloat16", 2},
    {"float32", 4},
    {"float64", 8},
    {"float8_e4m3", 1},
    {"float8_e5m2", 1},
}};
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

size_t sizeOf(DataType type) { return entry(kTypes, "data type", type).bytes; }
const char* toString(DataType type) { return entry(kTypes, "data type", type).name; }
const char* toString(ReduceOp op) { return entry(kOps, "reduction", op); }

bool isDefined(ReduceOp op, DataType type) {
  sizeOf(type);
  toString(op);
  return op < ReduceOp::BitAnd || type < DataType::Float16;
}

std::optional<DataType> parseDataType(std::string_view name) {
  for (int i = 0; i < kDataTypeCount; ++i)
    if (name == kTypes[i].name) return static_cast<DataType>(i);
  return std::nullopt;
}

std::optional<ReduceOp> parseReduceOp(std::string_view name) {
  for (int i = 0; i < kReduceOpCount; ++i)
    if (name == kOps[i]) return static_cast<ReduceOp>(i);
  return std::nullopt;
}

}  // namespace tutti
