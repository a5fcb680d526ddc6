// Every parser of the tools' files, fed with seeded mutations of good ones: it must accept, or
// refuse with an Error that names the file; the sanitizers see the rest.

#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include "src/tools/simulate/cluster_file.h"
#include "src/tools/tune/tune_record.h"
#include "src/topology/tuning.h"
#include "tests/support/leftovers.h"
#include "tests/support/mutator.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_main.h"

namespace tutti::tools {
namespace {

std::string recordPath;
const tests::Arguments commandLine{{"RECORD", &recordPath}};

class FilesFuzz : public testing::Test {
 protected:
  /// `parse` gets `good` with changes, of one byte or of many.
  void run(const std::string& good, const std::function<void(const std::string&)>& parse) {
    constexpr int kCases = 20'000;
    int accepted = 0, refused = 0;
    base::Bytes bytes;
    for (const char c : good) bytes.push_back(static_cast<std::byte>(c));
    for (int i = 0; i < kCases; ++i) {
      const base::Bytes changed = mutator_.mutate(bytes);
      const std::string text(reinterpret_cast<const char*>(changed.data()), changed.size());
      try {
        parse(text);
        ++accepted;
      } catch (const Error& error) {
        ++refused;
        ASSERT_EQ(error.code(), ErrorCode::InvalidArgument) << error.what();
        ASSERT_NE(std::string(error.what()).find("a file"), std::string::npos) << error.what();
      }
    }
    EXPECT_GT(accepted, 0) << "no input is good: the test tests nothing";
    EXPECT_GT(refused, 0) << "no input is bad: the test tests nothing";
    std::cout << accepted << " accepted, " << refused << " refused\n";
  }

  tests::Mutator mutator_{tests::testSeed()};
};

TEST_F(FilesFuzz, Tuning) {
  topology::Tuning tuning;
  tuning.preferences = {{"all_reduce", 4, 1, 4096, "ring"}};
  run(tuning.text(), [](const std::string& text) { topology::Tuning::parse(text, "a file"); });
}

TEST_F(FilesFuzz, Cluster) {
  const std::string good = tests::contentsOf(clusterFolder() / "h100-8-pods.json");
  ASSERT_FALSE(good.empty());
  run(good, [](const std::string& text) { parseCluster("a file", text); });
}

TEST_F(FilesFuzz, Record) {
  const std::string all = tests::contentsOf(recordPath);
  const std::string few = all.substr(0, all.find('\n', 900) + 1);
  ASSERT_FALSE(few.empty());
  run(few, [](const std::string& text) {
    std::istringstream lines(text);
    readRecord(lines, "a file");
  });
}

}  // namespace
}  // namespace tutti::tools
