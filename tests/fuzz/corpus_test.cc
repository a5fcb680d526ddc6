// Feeds the files of a target's corpus to it, each once: what a fuzzer has found stays found. No
// libFuzzer is needed. Argument: the folder of the corpus.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <vector>

#include "tests/fuzz/fuzz.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_main.h"

namespace tutti::fuzz {
namespace {

std::filesystem::path folder;
const tests::Arguments commandLine{{"CORPUS", &folder}};

TEST(Corpus, IsTakenOrRefused) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path());
  ASSERT_FALSE(files.empty()) << folder << " is empty: the test tests nothing";
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    std::cout << file.filename().string() << std::endl;  // the last line where the process ends
    const std::string bytes = tests::contentsOf(file);
    // Of its own size, so that sanitizers see what is read beyond it.
    const std::vector<uint8_t> input(bytes.begin(), bytes.end());
    EXPECT_EQ(LLVMFuzzerTestOneInput(input.data(), input.size()), 0) << file;
  }
  const std::vector<uint8_t> nothing;
  EXPECT_EQ(LLVMFuzzerTestOneInput(nothing.data(), 0), 0);
}

}  // namespace
}  // namespace tutti::fuzz
