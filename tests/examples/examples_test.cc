// That the programs of docs/examples do what their pages say, built with this tree.
// tests/install builds them against what is installed.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "src/base/check.h"
#include "tests/support/network_hosts.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_main.h"

namespace tutti::tests {
namespace {

std::string tuttiPath;
std::filesystem::path folder;  // of the examples' programs
const tests::Arguments commandLine{{"TUTTI", &tuttiPath}, {"FOLDER", &folder}};

std::string program(const char* name) { return folder / base::message("example_", name); }

Output onRanks(int ranks, const char* name) {
  return runProgram(base::message(tuttiPath, " run -n ", ranks, " ", program(name)));
}

TEST(Examples, FirstCollective) {
  const Output output = onRanks(4, "first_collective");
  EXPECT_EQ(output.exitCode, 0) << output.text;
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(output.count(base::message("rank ", rank, " of 4: the sum is 10\n")), 1)
        << output.text;
}

TEST(Examples, Overlap) {
  const Output output = onRanks(3, "overlap");
  EXPECT_EQ(output.exitCode, 0) << output.text;
  EXPECT_EQ(output.count("of 3: 8 of 8 buckets have the right sum\n"), 3) << output.text;
}

TEST(Examples, FailureAndShrink) {
  const Output output =
      runProgram(tuttiPath + " run -n 4 --keep-going " + program("failure_and_shrink"));
  EXPECT_EQ(output.exitCode, 128 + SIGKILL) << output.text;
  EXPECT_EQ(output.count("was killed by signal 9 (SIGKILL); 3 ranks go on\n"), 1) << output.text;
  EXPECT_EQ(output.count("lost a rank, and is rank"), 3) << output.text;
  const auto lines = [&](int step, int ranks) {
    return output.count(base::message("step ", step, ": ", ranks, " ranks\n"));
  };
  for (int step = 0; step < 6; ++step) {
    // The death may hit rank 0 within step 2 or behind it. Then step 2 is done by fewer, or twice.
    if (step == 2)
      EXPECT_GE(lines(step, 4) + lines(step, 3), 1) << output.text;
    else
      EXPECT_EQ(lines(step, step < 3 ? 4 : 3), 1) << "step " << step << "\n" << output.text;
  }
  EXPECT_EQ(output.count(" failed first, "), 1) << output.text;
}

TEST(Examples, TrainingLoopGivesTheSameLossOnAnyNumberOfRanks) {
  const Output alone = onRanks(1, "training_loop"), shared = onRanks(2, "training_loop");
  EXPECT_EQ(alone.exitCode, 0) << alone.text;
  EXPECT_EQ(alone.text, shared.text);
  double first = 0, last = 0;
  const size_t end = alone.text.find("step 40");
  ASSERT_NE(end, std::string::npos) << alone.text;
  EXPECT_EQ(std::sscanf(alone.text.c_str(), "[0] step 0: loss %lf", &first), 1) << alone.text;
  EXPECT_EQ(std::sscanf(alone.text.c_str() + end, "step 40: loss %lf", &last), 1) << alone.text;
  EXPECT_LT(last, first / 2) << alone.text;
}

/// Rank `rank` of 4 as a process of this host, which writes to `file`.
int runSeveralHosts(const std::string& address, int rank, const std::filesystem::path& file) {
  const int out = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (out < 0 || ::dup2(out, 1) < 0 || ::dup2(out, 2) < 0) return 126;
  ::setenv("TUTTI_JOB_KEY", "a key of enough letters", 1);
  const std::string path = program("several_hosts"), number = std::to_string(rank);
  ::execl(path.c_str(), path.c_str(), address.c_str(), number.c_str(), "4", nullptr);
  return 127;
}

std::string textOf(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Examples, SeveralHosts) {
  if (const auto reason = NetworkHosts::unavailable()) GTEST_SKIP() << *reason;
  const NetworkHosts hosts(2);
  const TemporaryFolder files;
  ChildProcesses ranks;
  for (int rank = 0; rank < 4; ++rank)
    ranks.start([&] {
      hosts.enter(rank / 2);
      return runSeveralHosts(hosts.address(0) + ":29520", rank,
                             files.path() / std::to_string(rank));
    });
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(ranks.wait(rank, std::chrono::seconds(60)), 0);
    EXPECT_EQ(textOf(files.path() / std::to_string(rank)),
              base::message("rank ", rank, " of 4 on host ", rank / 2, " of 2: the sum is 10\n"));
  }
}

}  // namespace
}  // namespace tutti::tests
