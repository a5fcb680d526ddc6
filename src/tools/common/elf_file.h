#pragma once

// What a program's file says of how it is linked.

#include <string>
#include <vector>

namespace tutti::tools {

struct ElfFile {
  bool isElf = false;
  bool isOfThisMachine = false;  ///< the same processor, with addresses as wide
  bool isDynamic = false;        ///< the dynamic linker starts it
  std::vector<std::string> needed;
  /// A copy of NVIDIA's CUDA runtime is a part of the file.
  bool hasCudaRuntime = false;
};

/// Reads a file of any kind: what is no ELF file, or a damaged one, has nothing of the rest. Throws
/// Error where it cannot be read.
ElfFile readElfFile(const std::string& path);

}  // namespace tutti::tools
