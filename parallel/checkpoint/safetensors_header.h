#pragma once

// The header of a safetensors file, as values and as text: for each tensor its name, type, shape
// and place, and free texts about the file. A file is
//
//   8 bytes       length of the header, little-endian
//   the header    {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...,
//                  "__metadata__": {"key": "text", ...}} and spaces up to a multiple of 8
//   the data      of all tensors, row-major and little-endian, without gaps

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/tensor/tensor.h"

namespace tutti::parallel {

/// The longest header, which is the limit of the format's own library.
inline constexpr uint64_t kMostHeaderBytes = 100'000'000;

struct SafetensorsEntry {
  std::string name;
  DType type = DType::Float32;
  Shape shape;
  uint64_t begin = 0, end = 0;  ///< bytes, counted from where the data begins
  bool operator==(const SafetensorsEntry&) const = default;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< in the order of their data
  std::map<std::string, std::string> metadata;
};

/// "F32", "BF16", "F8_E4M3", "I64", ...
const char* safetensorsName(DType type);
/// Knows BOOL too: bytes of 0 and 1, for us UInt8.
std::optional<DType> parseSafetensorsType(std::string_view name);

/// Bytes of a tensor. Throws InvalidArgument, beginning with `where`, when they are not fewer than
/// 2^63, extents of 0 counted as 1.
uint64_t checkedBytes(const std::string& where, DType type, const Shape& shape);
/// A shape from what a file has. Throws InvalidArgument when it has more than four dimensions.
Shape checkedShape(const std::string& where, const std::vector<int64_t>& extents);

/// Refuses with InvalidArgument what is no header of a file with `dataBytes` of data; every error
/// names the file, the tensor and the member.
SafetensorsHeader parseHeader(const std::string& file, std::string_view text, uint64_t dataBytes);

/// Puts the tensors into the order in which we write them, which does not depend on the order here:
/// larger elements first, so that all are aligned, then by name. Sets their places. Throws
/// InvalidArgument for a name that is there twice, or that cannot be one.
void layOut(const std::string& file, std::vector<SafetensorsEntry>& entries);
/// The text of a header that was laid out; its length is a multiple of 8.
std::string headerText(const SafetensorsHeader& header);

}  // namespace tutti::parallel
