// That nothing outlives a test of launchers, whichever of its processes ends first.

#include "tests/launchers/kept.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/run_tutti.h"

namespace tutti::launchers {
namespace {

using launcher::alive;
using launcher::eventually;
using launcher::TemporaryFolder;

constexpr std::chrono::seconds kPatience(20);

/// A daemon of its own session, whose parent has gone; its number is in the file.
void startDaemon(const std::string& file) {
  if (fork() != 0) return;
  if (setsid() < 0 || fork() != 0) _exit(0);
  std::ofstream(file + ".new") << getpid();
  std::filesystem::rename(file + ".new", file);
  while (true) pause();
}

/// A program that is kept: it leaves a daemon and a note of its TMPDIR, and then does `rest`.
class Kept : public testing::Test {
 protected:
  ~Kept() override {  // what a keeper that fails has left
    for (const char* name : {"daemon", "ready"})
      if (const pid_t pid = std::atoi(folder_.read(name).c_str()); pid > 0 && alive(pid))
        kill(pid, SIGKILL);
  }
  void start(const std::function<int()>& rest) {
    program_ = fork();
    if (program_ != 0) return;
    _exit(runKept([&] {
      startDaemon(folder_.path().string() + "/daemon");
      std::ofstream(folder_.path().string() + "/kept") << std::getenv("TMPDIR");
      while (folder_.read("daemon").empty()) usleep(1000);
      std::ofstream(folder_.path().string() + "/ready") << getpid();
      return rest();
    }));
  }
  int numberIn(const std::string& name) {
    EXPECT_TRUE(eventually([&] { return !folder_.read(name).empty(); }, kPatience)) << name;
    return std::atoi(folder_.read(name).c_str());
  }
  int codeOfProgram() const {
    int status = 0;
    waitpid(program_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  void expectNothingLeft() {
    const pid_t daemon = numberIn("daemon"), tests = numberIn("ready");
    const std::string kept = folder_.read("kept");
    EXPECT_TRUE(eventually([&] { return !alive(daemon) && !alive(tests); }, kPatience));
    EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(kept); }, kPatience)) << kept;
  }

  TemporaryFolder folder_;
  pid_t program_ = -1;
};

int waitForEver() {
  while (true) pause();
}

TEST_F(Kept, EndsWithItsTests) {
  start([] { return 7; });
  EXPECT_EQ(codeOfProgram(), 7);
  expectNothingLeft();
}

TEST_F(Kept, EndsWhenItsTestsAreKilled) {
  start(waitForEver);
  const pid_t tests = numberIn("ready");
  EXPECT_TRUE(alive(numberIn("daemon")));
  kill(tests, SIGKILL);
  EXPECT_EQ(codeOfProgram(), 128 + SIGKILL);
  expectNothingLeft();
}

TEST_F(Kept, EndsWhenTheProgramIsKilled) {
  start(waitForEver);
  numberIn("ready");
  EXPECT_TRUE(std::filesystem::exists(folder_.read("kept")));
  kill(program_, SIGKILL);
  EXPECT_EQ(codeOfProgram(), 128 + SIGKILL);
  expectNothingLeft();
}

}  // namespace
}  // namespace tutti::launchers
