#pragma once

// What a checkpoint says of itself, as values and as text: which tensors it has, and which entry of
// which file holds which box of each. A rank describes so the file that it wrote; the manifest
// joins the descriptions of all ranks.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "parallel/tensor/box.h"

namespace tutti::parallel {

inline constexpr int kCheckpointFormat = 1;
/// The longest manifest, about a million boxes.
inline constexpr uint64_t kMostManifestBytes = uint64_t{256} << 20;

/// What a program wants to find again besides tensors: the optimizer's step, the state of its
/// random numbers, the position in its data. Numbers are finite, and come back equal to the bit.
using MetadataValue = std::variant<int64_t, double, std::string>;
using Metadata = std::map<std::string, MetadataValue>;

struct StoredBox {
  Box box;
  std::string file, entry;  ///< the name of a file in the checkpoint, and of a tensor in that file
  std::string hash;         ///< xxHash-128 of its bytes
  bool operator==(const StoredBox&) const = default;
};
struct StoredTensor {
  DType type = DType::Float32;
  Shape shape;  ///< of the global tensor
  std::vector<StoredBox> boxes;
  bool operator==(const StoredTensor&) const = default;
};
using StoredTensors = std::map<std::string, StoredTensor>;  ///< by global name

/// What one rank wrote: one file, or nothing when it had nothing to write, or an error.
struct ShardDescription {
  std::string file;
  uint64_t bytes = 0;  ///< of the file
  StoredTensors tensors;
  std::string error;  ///< why this rank could not write; then nothing else counts
  bool operator==(const ShardDescription&) const = default;

  std::string serialize() const;
  /// Throws InvalidArgument when the text is not what serialize() gives.
  static ShardDescription parse(std::string_view text);
};

struct Manifest {
  int64_t step = 0;
  int world = 1;  ///< ranks of the run that wrote it
  Metadata metadata;
  std::map<std::string, uint64_t> files;  ///< their bytes
  StoredTensors tensors;
  bool operator==(const Manifest&) const = default;

  /// Joins what one rank wrote. Throws System when that rank could not write, InvalidArgument when
  /// its file is there already, and when it has a tensor of another type or shape.
  void add(const ShardDescription& shard);
  /// Throws InvalidArgument, beginning with `where`, unless the boxes of each tensor make it up,
  /// and have room in their files.
  void requireWhole(const std::string& where) const;
  /// Ends with a checksum of all the rest.
  std::string text() const;
  /// Throws InvalidArgument, beginning with `where`, for what is no whole manifest.
  static Manifest parse(const std::string& where, std::string_view text);
};

}  // namespace tutti::parallel
