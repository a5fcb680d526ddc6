#include "tests/repository/source_tree.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>

namespace tutti::repository {
namespace {

namespace fs = std::filesystem;

bool skipped(const fs::path& relative) {
  const std::string name = relative.filename().string();
  if (name.starts_with(".")) return name != ".ci";
  if (relative.has_parent_path()) return false;
  return name == "build" || name.starts_with("build-") || name == "shared";
}

std::vector<std::string> splitLines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string readFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

std::vector<SourceFile> readTree(const fs::path& root) {
  std::vector<SourceFile> files;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::recursive_directory_iterator();
       ++it) {
    const fs::path relative = fs::relative(it->path(), root);
    if (it->is_directory()) {
      if (skipped(relative)) it.disable_recursion_pending();
      continue;
    }
    if (!it->is_regular_file() || relative == ".git") continue;  // a file in a git worktree
    const std::string text = readFile(it->path());
    if (text.find('\0') != std::string::npos) continue;
    files.push_back({relative.generic_string(), splitLines(text)});
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

bool isCode(const std::string& path) {
  static constexpr std::array kEndings{".h", ".cc", ".inl", ".cu", ".cuh"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](const char* ending) { return path.ends_with(ending); });
}

}  // namespace tutti::repository
