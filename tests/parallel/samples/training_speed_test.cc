// training_speed without PyTorch: which version it refuses, that two sittings do not meet at one
// port, and what a profile says. The program's path is the first argument of this test.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

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

/// The lines of a profile: a kernel's name, and the numbers behind it.
std::map<std::string, std::vector<double>> rowsOf(const std::string& text) {
  constexpr size_t kNameWidth = 26;
  std::map<std::string, std::vector<double>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.size() <= kNameWidth || line[0] == '#') continue;
    std::istringstream numbers(line.substr(kNameWidth));
    std::vector<double>& row = rows[line.substr(0, line.find("  "))];
    for (double number; numbers >> number;) row.push_back(number);
  }
  return rows;
}

// Times and shares of all lines add up to the step's. What no kernel was timed for is little, or a
// kernel has been forgotten.
TEST(TrainingSpeed, ProfileAddsUpToTheStep) {
  const Output output = runProgram(program + " --profile --batch 4 --micro-batches 2 --steps 5");
  ASSERT_EQ(output.exitCode, 0) << output.text;
  const auto rows = rowsOf(output.text);
  double time = 0, share = 0;
  for (const auto& [name, numbers] : rows) {
    if (name == "step" || name == "kernel") continue;
    ASSERT_GE(numbers.size(), 2U) << output.text;
    time += numbers[0];
    share += numbers[1];
  }
  const double step = rows.at("step").at(0), rounded = 0.0005 * static_cast<double>(rows.size());
  EXPECT_NEAR(time, step, rounded + 0.001 * step) << output.text;
  EXPECT_NEAR(share, 100, 0.05 * static_cast<double>(rows.size())) << output.text;
  EXPECT_LT(rows.at("outside of kernels").at(1), 50) << output.text;
}

// 4 layers, 128 wide, 512 tokens: of each layer's weights, 12 * 128^2, and of the 256 * 128 of the
// head a multiplication and an addition with each token: forward, and twice backward.
TEST(TrainingSpeed, ProfileCountsTheWorkOfEachKernelOnce) {
  const Output output = runProgram(program + " --profile --batch 4 --micro-batches 2 --steps 5");
  const auto rows = rowsOf(output.text);
  const double expected = 2.0 * 512 * (4 * 12 * 128 * 128 + 256 * 128);
  for (const char* name :
       {"gemm, forward", "gemm, inputs' gradients", "gemm, weights' gradients"}) {
    const std::vector<double>& row = rows.at(name);
    ASSERT_EQ(row.size(), 6U) << output.text;
    // A product has 25 calls a micro-batch: 3 of queries, keys and values, 3 others a layer, 1
    // head.
    EXPECT_EQ(row[2], 2 * (4 * 6 + 1)) << name;
    const double seconds = row[0] / 1e3, flops = row[3] * 1e9 * seconds;
    EXPECT_NEAR(flops / expected, 1, 0.05 / row[3] + 0.0005 / row[0] + 1e-3) << name;
  }
  EXPECT_EQ(rows.at("biasGradient").at(2), 2 * 4 * 6);
  EXPECT_EQ(rows.at("layerNorm").at(2), 2 * (4 * 2 + 1));
  EXPECT_EQ(rows.at("attentionBackward").at(2), 2 * 4);
}

TEST(TrainingSpeed, RefusesWhatAProfileIsNotOf) {
  const Output two = runProgram(program + " --profile --ranks 2");
  EXPECT_EQ(two.exitCode, 1);
  EXPECT_EQ(two.text, "training_speed: --profile is of one rank: leave --ranks out\n");
  const Output neither = runProgram(program);
  EXPECT_EQ(neither.exitCode, 1);
  EXPECT_EQ(neither.count("--python"), 1) << neither.text;
  EXPECT_NE(runProgram(program + " --profile --python python3").exitCode, 0);
}

}  // namespace
}  // namespace tutti::parallel
