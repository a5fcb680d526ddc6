// Also main() of the conformance programs. Compiled by nvcc they are bin/cuda_conformance_sm80 and
// bin/cuda_conformance_sm90, which run on a GPU:
//   cuda_conformance_sm90 --golden=tests/emulation/golden/sm90.txt
// compares with the file, and with --write-golden writes it anew, if all tests run and pass. Lines
// of tests that skip stay, and so do those of a GPU where the emulation has the same bytes. A
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

struct Line {
  std::string hash, source;
};
using Lines = std::map<std::string, Line>;  // by name

constexpr const char* kGpu = "gpu";
#ifdef __CUDACC__
constexpr const char* kSource = kGpu;
#else
constexpr const char* kSource = "emulation";
#endif

Lines written;

/// What the file says, as it was when this was first called.
const Lines& expected() {
  static const Lines lines = [] {
    Lines all;
    std::ifstream in(golden().path);
    for (std::string text; std::getline(in, text);) {
      std::istringstream words(text);
      std::string name;
      Line line;
      if (text.starts_with("#") || !(words >> name >> line.hash >> line.source)) continue;
      all[name] = line;
    }
    return all;
  }();
  return lines;
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
  EXPECT_TRUE(written.try_emplace(name, Line{hash, kSource}).second) << name << " is there twice";
  if (golden().write) return;
  const auto at = expected().find(name);
  EXPECT_EQ(at == expected().end() ? "no line" : at->second.hash, hash)
      << name << " in " << golden().path;
}

/// Says which lines of the file no test has given; whether there are none.
bool allAreGiven() {
  bool all = true;
  for (const auto& [name, line] : expected()) {
    if (written.contains(name)) continue;
    fprintf(stderr, "no test gives %s, which is in %s\n", name.c_str(), golden().path.c_str());
    all = false;
  }
  return all;
}

/// `someSkipped`: lines that no test gave may be of one that did not run here.
void writeGolden(bool someSkipped) {
  for (const auto& [name, line] : expected()) {
    const auto at = written.find(name);
    if (at == written.end() ? someSkipped : line.hash == at->second.hash && line.source == kGpu)
      written[name] = line;
  }
  std::ofstream out(golden().path);
  out << "# Outputs of conformance tests: name, hash, and from where it is, a gpu or the "
         "emulation.\n";
  for (const auto& [name, line] : written)
    out << name << " " << line.hash << " " << line.source << "\n";
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
  if (!isWhole || result != 0) return result;
  if (golden().write)
    writeGolden(all.skipped_test_count() > 0);
  else if (all.skipped_test_count() == 0 && !allAreGiven())
    return 1;
  return 0;
}
