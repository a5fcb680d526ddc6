// Which process started a rank, seen from below shells in between.

#include "src/bootstrap/launching_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "src/base/check.h"
#include "tests/support/run_program.h"
#include "tests/support/text.h"

namespace tutti::bootstrap {
namespace {

using tests::contains;
using tests::runProgram;

// Also what the test below runs, to hear what a process further down sees.
TEST(LaunchingProcess, IsAnAncestor) {
  const std::string said = launchingProcess("TUTTI_TEST_RANK");
  EXPECT_TRUE(said.starts_with("pid ")) << said;
  EXPECT_EQ(launchingProcess("TUTTI_TEST_RANK"), said);
  std::printf("started by %s\n", said.c_str());
}

// Each sh prints its pid, and waits for what it has started.
TEST(LaunchingProcess, IsTheNearestWithoutTheRanksVariable) {
  const std::string itself = std::filesystem::read_symlink("/proc/self/exe").string() +
                             " --gtest_filter=LaunchingProcess.IsAnAncestor";
  const auto below = [&](const std::string& variable) {
    return runProgram("echo outer pid $$; " + variable + " sh -c 'sh -c \"" + itself +
                      "; true\"; true'; true")
        .text;
  };
  for (const char* rank : {"TUTTI_TEST_RANK=0", "TUTTI_TEST_RANK="}) {
    const std::string said = below(rank);
    const std::string outer = said.substr(6, said.find('\n') - 6);
    EXPECT_TRUE(contains(said, "started by " + outer + " at ")) << said;
  }
  const std::string said = below("ANOTHER_TUTTI_TEST_RANK=0");
  const std::string outer = said.substr(6, said.find('\n') - 6);
  EXPECT_TRUE(contains(said, "started by pid ") && !contains(said, "started by " + outer + " at "))
      << said;
}

}  // namespace
}  // namespace tutti::bootstrap
