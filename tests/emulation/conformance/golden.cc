// Also main() of the conformance programs. Compiled by nvcc they are bin/cuda_conformance_sm80 and
// bin/cuda_conformance_sm90, which run on a GPU:
//   cuda_conformance_sm90 --golden=tests/emulation/golden/sm90.txt
// compares with the file, and with --write-golden writes it anew, if all tests run and pass. A
// kernel that fails ends the program, for CUDA refuses everything after that: bench/gpu/run.sh then
// runs the tests behind it by a filter.

#include "tests/emulation/conformance/golden.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

namespace tutti::emulation::conformance {
namespace {

#ifdef __CUDACC__
constexpr const char* kSource = "from a GPU";
#else
constexpr const char* kSource = "from the emulation";
#endif

std::map<std::string, std::string> written;

std::map<std::string, std::string> readFile(const std::string& path) {
  std::map<std::string, std::string> hashes;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name, hash;
    if (line.starts_with("#") || !(words >> name >> hash)) continue;
    hashes[name] = hash;
  }
  return hashes;
}

/// FNV-1a.
std::string hashOf(const void* bytes, size_t size) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < size; ++i)
    hash = (hash ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3;
  char text[24];
  snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace

Golden& golden() {
  static Golden settings;
  return settings;
}

void expectGoldenBytes(const std::string& name, const void* bytes, size_t size) {
  const std::string hash = hashOf(bytes, size);
  EXPECT_TRUE(written.try_emplace(name, hash).second) << name << " is there twice";
  if (golden().write) return;
  static const std::map<std::string, std::string> expected = readFile(golden().path);
  const auto at = expected.find(name);
  EXPECT_EQ(at == expected.end() ? "no line" : at->second, hash) << name << " in " << golden().path;
}

void writeGolden() {
  std::ofstream out(golden().path);
  out << "# Hashes of the outputs of conformance tests, " << kSource << ".\n";
  for (const auto& [name, hash] : written) out << name << " " << hash << "\n";
}

}  // namespace tutti::emulation::conformance

int main(int argc, char** argv) {
  using namespace tutti::emulation::conformance;
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with("--golden="))
      golden().path = argument.substr(9);
    else if (argument == "--write-golden")
      golden().write = true;
    else
      return fprintf(stderr, "usage: %s --golden=FILE [--write-golden]\n", argv[0]), 2;
  }
  const int result = RUN_ALL_TESTS();
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  const bool isWhole = all.test_to_run_count() == all.total_test_count();
  if (golden().write && !isWhole) fprintf(stderr, "nothing is written: a filter left tests out\n");
  if (golden().write && isWhole && result == 0) writeGolden();
  return result;
}
