#pragma once

// Boxes of tensors that lie whole in a safetensors file: what a rank needs of them is all that it
// reads, and what several ranks hold of them they write into one file, each its own part.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "parallel/checkpoint/safetensors.h"
#include "parallel/tensor/box.h"

namespace tutti::parallel {

/// Elements of `box`, row-major. `to` is contiguous and has the entry's type and the extents of the
/// box. Throws InvalidArgument.
void readBox(SafetensorsReader& file, const SafetensorsEntry& entry, const Box& box,
             const Tensor& to);

/// One rank's part in writing a file. One rank creates it, then the others join, all with the same
/// tensors; it is complete when all have written their boxes, which together are the tensors, and
/// finish() has returned on all.
class SafetensorsBoxWriter {
 public:
  enum class Part { Create, Join };
  /// Of `tensors`, begin and end are not read. Throws System where the file is there already, or is
  /// not there to be joined.
  SafetensorsBoxWriter(const std::filesystem::path& path, std::vector<SafetensorsEntry> tensors,
                       std::map<std::string, std::string> metadata, Part part);
  /// `from` is contiguous and has the tensor's type and the extents of the box.
  void write(const std::string& name, const Box& box, const Tensor& from);
  /// The disk has what was written here.
  void finish() { file_.sync(); }

 private:
  File file_;
  uint64_t dataBegin_ = 0;
  std::map<std::string, SafetensorsEntry> entries_;
};

}  // namespace tutti::parallel
