#pragma once

// The text files of a source tree, for tests that read the repository itself.

#include <filesystem>
#include <string>
#include <vector>

namespace tutti::repository {

struct SourceFile {
  std::string path;  ///< relative to the root, with forward slashes
  std::vector<std::string> lines;
};

/// Every regular file below `root`, ordered by path, less hidden folders other than .ci, build
/// folders, folders named "shared" at the top, and files with a null byte in them.
std::vector<SourceFile> readTree(const std::filesystem::path& root);

bool isCode(const std::string& path);  ///< .h .cc .inl .cu .cuh

}  // namespace tutti::repository
