// The time of a line on a GPU begins when the stream has done what came before, and ends when the
// stream has done what the line says, not when it is enqueued.

#include "parallel/samples/reports/timed_lines.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "tests/parallel/samples/sleeping_gpu.h"

namespace tutti::parallel {
namespace {

TEST(TimedLines, TakeTheTimesOfTheStream) {
  SleepingGpu gpu;
  TimedLines lines(gpu.mesh);
  gpu.sleep();
  lines.start();
  EXPECT_TRUE(gpu.awake());
  gpu.sleep();
  lines.add("sleeps", "on a stream");
  EXPECT_TRUE(gpu.awake());
  std::smatch found;
  const std::string text = lines.text();
  ASSERT_TRUE(std::regex_search(text, found, std::regex(", ([0-9]+) us"))) << text;
  EXPECT_GE(std::stod(found[1]), gpu.microseconds() - 1);  // rounded
}

}  // namespace
}  // namespace tutti::parallel
