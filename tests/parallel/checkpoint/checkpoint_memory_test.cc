// Where there is no memory for what a file has, the error says which file, and how much of it.

#include <gtest/gtest.h>

#include "parallel/checkpoint/file.h"
#include "parallel/checkpoint/json.h"
#include "parallel/checkpoint/safetensors.h"
#include "tests/support/address_space.h"
#include "tests/support/child_processes.h"
#include "tests/support/outcome.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

constexpr uint64_t kLeft = uint64_t{64} << 20;

/// What `read` says where so much is left, in a process of its own.
void expectSaid(const std::function<void()>& read, const std::string& expected) {
  EXPECT_EQ(tests::inChild([&] {
              if (!tests::leaveMemory(kLeft)) return 2;
              const tests::Outcome outcome = tests::outcomeOf(read);
              if (outcome.code == ErrorCode::OutOfMemory && outcome.text == expected) return 0;
              std::fprintf(stderr, "%s\nnot: %s\n", outcome.text.c_str(), expected.c_str());
              return 1;
            }),
            0);
}

TEST(CheckpointMemory, ThatIsNotThereIsSaidWithTheFile) {
  if (tests::kSanitized) GTEST_SKIP() << "a sanitizer needs all address space";
  const tests::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "big.json";
  tests::setContents(path, "");
  std::filesystem::resize_file(path, 2 * kLeft);
  expectSaid([&] { readText(path, 4 * kLeft); },
             path.string() + ": there is no memory for what its 134217728 bytes hold");
  std::string lists = "[[]";
  for (int i = 0; i < 4'000'000; ++i) lists += ",[]";
  lists += "]";
  expectSaid([&] { parseJson("here", lists); }, "here: there is no memory for what its " +
                                                    std::to_string(lists.size()) + " bytes hold");
}

/// A header of 96 MB that the file has, so that nothing but its size is wrong.
TEST(CheckpointMemory, ThatIsNotThereIsSaidWithTheHeader) {
  if (tests::kSanitized) GTEST_SKIP() << "a sanitizer needs all address space";
  const tests::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "a.safetensors";
  constexpr uint64_t kHeader = 96'000'000;
  std::string length;
  for (int i = 0; i < 8; ++i) length += static_cast<char>(kHeader >> 8 * i);
  tests::setContents(path, length);
  std::filesystem::resize_file(path, 8 + kHeader);
  expectSaid([&] { SafetensorsReader reader(path); },
             path.string() + ": header: there is no memory for what its 96000000 bytes hold");
}

}  // namespace
}  // namespace tutti::parallel
