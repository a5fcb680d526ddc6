// No #include goes against the arrows of cmake/TuttiArrows.cmake, and the check notices each way in
// which one could. Arguments: the source tree, and the table that the configuration wrote.

#include "tests/repository/arrows.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/support/test_main.h"

namespace tutti::repository {
namespace {

std::string sourceRoot, tablePath;
const tests::Arguments commandLine{{"SOURCE_TREE", &sourceRoot}, {"ARROWS_TABLE", &tablePath}};

Arrows parse(const std::string& text) {
  std::istringstream in(text);
  return parseArrows(in);
}

std::vector<std::string> violationsOf(const std::vector<SourceFile>& files) {
  const Arrows arrows = parse(
      "include/tutti :\n"
      "src/base : include/tutti\n"
      "src/plan : include/tutti src/base\n"
      "transports : src/base\n"
      "transports/shm : src/base transports\n"
      "parallel : include/tutti\n");
  int counted = 0;
  return findViolations(arrows, files, &counted);
}

Arrows table() {
  std::ifstream in(tablePath);
  EXPECT_TRUE(in) << tablePath;
  return parseArrows(in);
}

TEST(Arrows, HoldInThisRepository) {
  const Arrows arrows = table();
  EXPECT_EQ(findCycle(arrows), "");
  int counted = 0;
  for (const std::string& violation : findViolations(arrows, readTree(sourceRoot), &counted))
    ADD_FAILURE() << violation;
  EXPECT_GE(counted, 20) << "the reader of includes finds almost nothing in " << sourceRoot;
  printf("%d includes follow the arrows of %zu folders\n", counted, arrows.size());
}

// Folders below parallel/ and src/tools/ have directions too.
TEST(Arrows, OfThisRepositoryGoOneWayInsideParallelAndTools) {
  const Arrows arrows = table();
  int counted = 0;
  const std::vector<SourceFile> wrong = {
      {"parallel/tensor/t.h", {"#include \"parallel/kernels/kernels.h\""}},
      {"parallel/kernels/kernels.h", {"#include \"parallel/kernels/host/blas.h\""}},
      {"parallel/store/s.h", {"#include \"parallel/nn/module.h\""}},
      {"parallel/data/loader.h", {"#include \"parallel/engine/engine.h\""}},
      {"parallel/engine/engine.h", {"#include \"parallel/samples/reports/progress.h\""}},
      {"parallel/engine/engine.h", {"#include \"src/base/check.h\""}},
      {"parallel/tensor/t.h", {"#include \"parallel/new_folder/n.h\""}},
      {"src/plan/json.h", {"#include \"src/tools/perf/perf.h\""}},
      {"src/communicator/c.h", {"#include \"src/tools/perf/perf.h\""}},
  };
  for (const SourceFile& file : wrong)
    EXPECT_EQ(findViolations(arrows, {file}, &counted).size(), 1u) << file.path << file.lines[0];
  const SourceFile right{"parallel/samples/p.h", {"#include \"parallel/engine/engine.h\""}};
  EXPECT_EQ(findViolations(arrows, {right}, &counted), std::vector<std::string>{});
}

TEST(Arrows, AllowWhatTheTableAllows) {
  EXPECT_EQ(violationsOf({{"src/base/a.h", {"#include <vector>", "#include <tutti/types.h>"}},
                          {"src/plan/b.cc", {"#include \"src/plan/b.h\""}},
                          {"src/plan/b.h", {"#include \"src/base/a.h\""}},
                          {"transports/shm/c.cc", {"#include \"transports/connection.h\""}},
                          {"tests/plan/b_test.cc", {"#include \"transports/shm/c.h\""}},
                          {"parallel/dp/d.cc", {"#include \"parallel/tensor/t.h\""}}}),
            std::vector<std::string>{});
}

TEST(Arrows, RefuseAnIncludeUpwards) {
  const auto found =
      violationsOf({{"src/base/a.h", {"#pragma once", "#include \"src/plan/b.h\""}}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0], "src/base/a.h:2 includes src/plan/b.h, but src/base may not use src/plan");
}

TEST(Arrows, RefuseEveryOtherWayAround) {
  const std::vector<SourceFile> wrong = {
      {"parallel/dp/d.cc", {"#include \"src/base/a.h\""}},
      {"include/tutti/types.h", {"#include \"src/base/a.h\""}},
      {"transports/connection.h", {"#include \"transports/shm/c.h\""}},
      {"src/plan/b.cc", {"#include \"transports/connection.h\""}},
      {"src/plan/b.cc", {"  #  include <src/plan/../../transports/connection.h>"}},
      {"src/plan/b.cc", {"#include \"../base/a.h\""}},
      {"src/plan/b.cc", {"#include \"tests/plan/helper.h\""}},
      {"src/new_folder/e.cc", {}},
  };
  for (const SourceFile& file : wrong) {
    EXPECT_EQ(violationsOf({file}).size(), 1u)
        << file.path << " " << (file.lines.empty() ? "" : file.lines[0]);
  }
}

TEST(Arrows, RefuseATableThatIsWrong) {
  EXPECT_THROW(parse("a : b\n"), std::runtime_error);
  EXPECT_THROW(parse("a :\na :\n"), std::runtime_error);
  EXPECT_THROW(parse("a b\n"), std::runtime_error);
  EXPECT_EQ(findCycle(parse("a : b\nb : a\n")), "a -> b -> a");
  EXPECT_EQ(findCycle(parse("a : b\nb :\nc : a b\n")), "");
}

}  // namespace
}  // namespace tutti::repository
