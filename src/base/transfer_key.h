#pragma once

// What every message of a send says of the whole of it, and its receive compares: the type of the
// elements and their bytes, in one word. Its halves go where messages of collectives have a
// fingerprint and the number of the operation:
//
//   bit 63     set; of a collective it is not
//   56 to 62   the element type
//   48 to 55   of the CUDA executor, the slices that a transfer is cut into; else 0
//   0 to 47    the bytes

#include <cstdint>
#include <string>

#include <tutti/types.h>

namespace tutti::base {

/// Of the upper half.
inline constexpr uint32_t kExchangeBit = 1U << 31;
inline constexpr uint64_t kMostTransferBytes = (uint64_t{1} << 48) - 1;

constexpr uint64_t transferKey(DataType type, uint64_t bytes, uint32_t slices = 0) {
  return uint64_t{kExchangeBit} << 32 | uint64_t{static_cast<uint8_t>(type)} << 56 |
         uint64_t{slices} << 48 | bytes;
}
constexpr uint64_t transferKey(uint32_t upper, uint32_t lower) {
  return uint64_t{upper} << 32 | lower;
}
/// Of a peer's key it may be none of its enumeration.
constexpr DataType typeOf(uint64_t key) { return static_cast<DataType>(key >> 56 & 0x7f); }
constexpr uint64_t bytesOf(uint64_t key) { return key & kMostTransferBytes; }
constexpr uint32_t upperHalf(uint64_t key) { return static_cast<uint32_t>(key >> 32); }
constexpr uint32_t lowerHalf(uint64_t key) { return static_cast<uint32_t>(key); }

/// "16 float32"
std::string describeTransfer(uint64_t key);

}  // namespace tutti::base
