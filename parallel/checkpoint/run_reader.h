#pragma once

// RunReader: parts of one tensor of a file, in ascending order, without a system call for each.

#include <algorithm>
#include <cstring>
#include <vector>

#include "parallel/checkpoint/safetensors.h"

namespace tutti::parallel {

/// Reads runs of one entry that ascend. One that is shorter than a page is read with what lies
/// behind it in a page's length, where the next ones may be.
class RunReader {
 public:
  RunReader(SafetensorsReader& file, const SafetensorsEntry& entry) : file_(file), entry_(entry) {}

  void read(uint64_t offset, std::byte* to, size_t bytes) {
    if (bytes >= kPageBytes) return file_.read(entry_, offset, to, bytes);
    if (offset < begin_ || offset + bytes > begin_ + page_.size()) {
      begin_ = offset;
      page_.resize(std::min<uint64_t>(kPageBytes, entry_.end - entry_.begin - offset));
      file_.read(entry_, offset, page_.data(), page_.size());
    }
    std::memcpy(to, page_.data() + (offset - begin_), bytes);
  }

 private:
  static constexpr size_t kPageBytes = 4096;
  SafetensorsReader& file_;
  const SafetensorsEntry& entry_;
  uint64_t begin_ = 0;
  std::vector<std::byte> page_;
};

}  // namespace tutti::parallel
