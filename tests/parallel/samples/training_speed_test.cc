// training_speed without PyTorch: which version it refuses, and that two sittings do not meet at
// one port. The program's path is the first argument of this test.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_main.h"

namespace tutti::parallel {
namespace {

using tests::Output;
using tests::runProgram;

std::string program;
const tests::Arguments commandLine{{"TRAINING_SPEED", &program}};

/// With an interpreter that says it has that version of torch, and as a worker ends at once.
Output run(const std::string& version, const std::string& flags) {
  const tests::TemporaryFolder folder;
  const auto python = folder.path() / "python";
  tests::setContents(python, "#!/bin/sh\n[ \"$1\" = -c ] || exit 3\necho " + version + "\n");
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  return runProgram(program + " --blocks 6 --steps 1 --python " + python.string() + " " + flags);
}

constexpr const char* kWorkerEnded = "training_speed: a process of torch has ended\n";

TEST(TrainingSpeed, RefusesAnotherVersionOfPyTorch) {
  for (const std::string version : {"2.14.1", "2.14.1+cpu", "2.15.01", "12.15.0", "2.15.0rc1"}) {
    const Output output = run(version, "");
    EXPECT_EQ(output.exitCode, 1) << output.text;
    EXPECT_EQ(output.text, "training_speed: PyTorch " + version +
                               ", and what is published is about 2.15.0: install that, or give "
                               "--any-torch\n");
  }
  const Output none = run("", "");
  EXPECT_EQ(none.exitCode, 1) << none.text;
  EXPECT_EQ(none.count("/python has no torch\n"), 1) << none.text;
}

TEST(TrainingSpeed, PrintsTheVersionThatItMeasures) {
  for (const std::string version : {"2.15.0", "2.15.0+cpu"}) {
    const Output output = run(version, "");
    EXPECT_EQ(output.text, "# PyTorch " + version + "\n" + kWorkerEnded);
  }
  EXPECT_EQ(run("2.14.1", "--any-torch").text, std::string("# PyTorch 2.14.1\n") + kWorkerEnded);
}

// The port that it once had is somebody else's: ours still meet, and it is their worker that ends.
TEST(TrainingSpeed, MeetsAtAFreePort) {
  const int taken = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(29531);
  // Where this fails it is taken already.
  (void)!::bind(taken, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::listen(taken, 1);
  const Output output = run("2.15.0", "--ranks 2 --batch 4");
  ::close(taken);
  std::string expected = "# PyTorch 2.15.0\n";
  expected += kWorkerEnded;
  EXPECT_EQ(output.text, expected);
}

}  // namespace
}  // namespace tutti::parallel
