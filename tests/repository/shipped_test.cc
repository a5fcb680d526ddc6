// What is shipped computes by its own kernels: no library and no program of a build has a symbol,
// a name or a text of the libraries of products that NVIDIA has.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/test_main.h"

namespace tutti::repository {
namespace {

namespace fs = std::filesystem;

/// From the command line: the build folder, and a library that has such a symbol on purpose.
fs::path buildFolder, foreign;
const tests::Arguments commandLine{{"BUILD_FOLDER", &buildFolder}, {"LIBRARY_TO_REFUSE", &foreign}};

/// Which of their names a file has; empty: none. CuTe's is that of its namespace, mangled.
std::string foreignNameIn(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string bytes = std::move(text).str();
  EXPECT_GT(bytes.size(), 500u) << path;
  for (const char* const name : {"cublas", "cudnn", "cutlass", "4cute"})
    if (bytes.find(name) != std::string::npos) return name;
  return "";
}

bool isLibrary(const fs::path& path) {
  const std::string name = path.filename();
  return name.starts_with("lib") &&
         (path.extension() == ".a" || name.find(".so") != std::string::npos);
}

/// The archives of the folders, the shared libraries and the programs; not what is for tests and
/// benchmarks of GPUs, of which one looks cuBLAS up, and not packages of Python.
std::vector<fs::path> shippedFiles() {
  std::vector<fs::path> all;
  for (fs::recursive_directory_iterator at(buildFolder), end; at != end; ++at) {
    const fs::path inside = fs::relative(at->path(), buildFolder);
    const bool isPython = fs::exists(at->path() / "pyvenv.cfg");
    if (at->is_directory() && (isPython || inside == "tests" || inside == "bench" ||
                               inside == "bin/gpu" || inside.filename() == "CMakeFiles")) {
      at.disable_recursion_pending();
      continue;
    }
    if (!at->is_regular_file() || at->is_symlink()) continue;
    const bool isProgram = inside.parent_path() == "bin" && inside.extension().empty();
    if (isProgram || isLibrary(inside)) all.push_back(at->path());
  }
  return all;
}

TEST(Shipped, HasNothingOfOtherLibrariesOfProducts) {
  const std::vector<fs::path> files = shippedFiles();
  std::vector<std::string> names;
  for (const fs::path& file : files) {
    names.push_back(file.filename());
    EXPECT_EQ(foreignNameIn(file), "") << file;
  }
  for (const char* const name : {"libtutti.so", "libnccl.so.2", "libtutti_parallel_kernels_cuda.a",
                                 "libtutti_device.a", "train_gpt", "tutti"})
    EXPECT_TRUE(std::any_of(names.begin(), names.end(),
                            [&](const std::string& each) {
                              return each == name || each.starts_with(std::string(name) + ".");
                            }))
        << name << " was not read";
}

TEST(Shipped, IsRefusedWithASymbolOfTheirs) { EXPECT_EQ(foreignNameIn(foreign), "cublas"); }

}  // namespace
}  // namespace tutti::repository
