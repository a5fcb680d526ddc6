// Lines of the log: to standard error from a level on, or all of them to the program's sink. Cases
// that read the level are children, which read it for themselves.

#include "src/base/log.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/child_processes.h"

namespace tutti::base {
namespace {

/// What a child writes to standard error with TUTTI_LOG=`level`: a line of each level.
std::string written(const char* level) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(tests::inChild([&] {
              ::setenv("TUTTI_LOG", level, 1);
              log(LogLevel::Debug, "d", 1);
              log(LogLevel::Info, "i", 2);
              log(LogLevel::Warning, "w", 3);
              log(LogLevel::Error, "e", 4);
              return 0;
            }),
            0);
  return testing::internal::GetCapturedStderr();
}

TEST(Log, GoesToStandardErrorFromItsLevelOn) {
  const std::string error = "tutti [error] e4\n", warning = "tutti [warning] w3\n",
                    info = "tutti [info] i2\n", debug = "tutti [debug] d1\n";
  EXPECT_EQ(written("debug"), debug + info + warning + error);
  EXPECT_EQ(written("info"), info + warning + error);
  EXPECT_EQ(written("warning"), warning + error);
  EXPECT_EQ(written("error"), error);
  EXPECT_EQ(written("off"), "");
}

// Also of a malformed level, which somebody else reports.
TEST(Log, WarnsByDefault) {
  EXPECT_EQ(written(""), written("warning"));
  EXPECT_EQ(written("loud"), written("warning"));
}

TEST(Log, OfAProgramsSinkHasAllLevels) {
  std::vector<std::string> lines;
  setLogSink([&](LogLevel level, std::string_view line) {
    lines.push_back(message(toString(level), " ", line));
  });
  EXPECT_TRUE(logEnabled(LogLevel::Debug));
  testing::internal::CaptureStderr();
  log(LogLevel::Debug, "rank ", 3);
  log(LogLevel::Error, "x");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  setLogSink({});
  EXPECT_EQ(lines, (std::vector<std::string>{"debug rank 3", "error x"}));
}

}  // namespace
}  // namespace tutti::base
