// What no file of the repository may contain: paths of somebody's machine, and words that mark
// unfinished work. The words are put together here so that this file passes its own test.

#include <gtest/gtest.h>

#include <regex>

#include "tests/repository/source_tree.h"

namespace tutti::repository {
namespace {

std::string sourceRoot;

/// The reason why a line is refused, or nothing.
std::string objection(const std::string& line) {
  static const std::regex unfinished(std::string("\\b(TO") + "DO|FIX" + "ME|XX" + "X|TB" + "D)\\b");
  static const std::regex personal(std::string("(^|-I|[^A-Za-z0-9_.)}*])/(home|ro") +
                                   "ot|work|Users)/[A-Za-z0-9_.]");
  if (std::regex_search(line, unfinished)) return "unfinished";
  if (std::regex_search(line, personal)) return "the path of one machine";
  return "";
}

TEST(Text, OfTheRepositoryIsFinishedAndAtHomeAnywhere) {
  const auto files = readTree(sourceRoot);
  EXPECT_GE(files.size(), 20u) << sourceRoot;
  for (const SourceFile& file : files)
    for (size_t i = 0; i < file.lines.size(); ++i)
      if (const std::string why = objection(file.lines[i]); !why.empty())
        ADD_FAILURE() << file.path << ":" << i + 1 << ": " << why << ": " << file.lines[i];
  printf("%zu files read\n", files.size());
}

TEST(Text, IsRefusedWhenItShouldBe) {
  EXPECT_NE(objection(std::string("// TO") + "DO: later"), "");
  EXPECT_NE(objection(std::string("FIX") + "ME"), "");
  EXPECT_NE(objection(std::string("open(\"/ho") + "me/ann/data\")"), "");
  EXPECT_NE(objection(std::string("/wo") + "rk/tree/file"), "");
  EXPECT_NE(objection(std::string("-I/ro") + "ot/include"), "");
}

TEST(Text, IsNotRefusedForItsSound) {
  EXPECT_EQ(objection("mastodon, todo, network/work/home"), "");
  EXPECT_EQ(objection("src/home/work.h"), "");
}

}  // namespace
}  // namespace tutti::repository

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    fprintf(stderr, "usage: %s SOURCE_TREE\n", argv[0]);
    return 2;
  }
  tutti::repository::sourceRoot = argv[1];
  return RUN_ALL_TESTS();
}
