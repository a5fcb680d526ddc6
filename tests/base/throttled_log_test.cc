// Lines that strangers can cause: one in each pause, and the count of the others.

#include "src/base/throttled_log.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace tutti::base {
namespace {

class ThrottledLogs : public testing::Test {
 protected:
  ThrottledLogs() {
    setLogSink([this](LogLevel level, std::string_view line) {
      lines_.push_back(std::string(toString(level)) + ": " + std::string(line));
    });
  }
  ~ThrottledLogs() override { setLogSink({}); }
  std::vector<std::string> lines_;
};

TEST_F(ThrottledLogs, CountWhatTheyLeaveOut) {
  {
    ThrottledLog log(LogLevel::Info, std::chrono::hours{1});
    for (int i = 0; i < 1235; ++i) log.log("number ", i);
  }
  EXPECT_EQ(lines_,
            (std::vector<std::string>{"info: number 0",
                                      "info: ... and 1234 more, the last of them: number 1234"}));
}

TEST_F(ThrottledLogs, GoOnAfterThePause) {
  ThrottledLog log(LogLevel::Warning, std::chrono::milliseconds{1});
  log.log("one");
  std::this_thread::sleep_for(std::chrono::milliseconds{5});
  log.log("two");
  EXPECT_EQ(lines_, (std::vector<std::string>{"warning: one", "warning: two"}));
}

}  // namespace
}  // namespace tutti::base
