#include "src/numbers/element.h"

#include <cstring>

#include "src/base/check.h"
#include "src/numbers/convert.h"

namespace tutti::numbers {
namespace {

template <class T>
T load(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

double elementAt(DataType type, const void* at) {
  switch (type) {
    case DataType::Int8: return load<int8_t>(at);
    case DataType::UInt8: return load<uint8_t>(at);
    case DataType::Int16: return load<int16_t>(at);
    case DataType::UInt16: return load<uint16_t>(at);
    case DataType::Int32: return load<int32_t>(at);
    case DataType::UInt32: return load<uint32_t>(at);
    case DataType::Int64: return static_cast<double>(load<int64_t>(at));
    case DataType::UInt64: return static_cast<double>(load<uint64_t>(at));
    case DataType::Float16: return fromFloat16(load<uint16_t>(at));
    case DataType::BFloat16: return fromBFloat16(load<uint16_t>(at));
    case DataType::Float8E4M3: return fromFloat8E4M3(load<uint8_t>(at));
    case DataType::Float8E5M2: return fromFloat8E5M2(load<uint8_t>(at));
    case DataType::Float32: return load<float>(at);
    case DataType::Float64: return load<double>(at);
  }
  base::fail(ErrorCode::InvalidArgument, "there is no type ", static_cast<int>(type));
}

}  // namespace tutti::numbers
