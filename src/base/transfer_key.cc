#include "src/base/transfer_key.h"

#include "src/base/check.h"

namespace tutti::base {

std::string describeTransfer(uint64_t key) {
  const uint64_t bytes = bytesOf(key);
  const DataType type = typeOf(key);
  if (static_cast<int>(type) >= kDataTypeCount || bytes % sizeOf(type) != 0)
    return message(bytes, " bytes of type ", static_cast<int>(type));
  return message(bytes / sizeOf(type), " ", toString(type));
}

}  // namespace tutti::base
