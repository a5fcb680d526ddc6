// Experts as their user meets them: the sample moe, and train_gpt's flags. The folder of the
// programs is the first argument.

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "tests/parallel/samples/sample_output.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_main.h"

namespace tutti::parallel {
namespace {

std::string programs;
const tests::Arguments commandLine{{"FOLDER_OF_PROGRAMS", &programs}};

Output run(const std::string& command) { return runProgram(programs + "/" + command); }

const std::string kBytes =
    "exchanged (\\d+) bytes in AllToAll in a step; if experts were used "
    "alike (\\d+)\n";

TEST(Moe, LearnsTheSameWhereverExpertsAre) {
  const Output one = run("moe --steps 12");
  const auto expected = losses(one);
  ASSERT_EQ(expected.size(), 12U) << one.text;
  EXPECT_LT(std::stod(expected.back()), std::stod(expected.front()) - 0.5);
  EXPECT_EQ(numbers(one, kBytes), (std::vector<double>{0, 0}));
  for (const std::string flags :
       {"--ranks 2", "--ranks 4", "--ranks 4 --ep 2", "--ranks 4 --ep 2 --cp 2"}) {
    const Output many = run("moe --steps 12 " + flags);
    expectClose(losses(many), expected, 1e-5, flags);
    const auto bytes = numbers(many, kBytes);
    ASSERT_EQ(bytes.size(), 2U) << many.text;
    EXPECT_GE(bytes[0], bytes[1]);  // of what it sends and what it gets the larger
    EXPECT_LE(bytes[0], 1.5 * bytes[1]);
    EXPECT_EQ(
        numbers(many, "mean loss of the last 10 steps: (\\S+), of the dense model (\\S+)\n").size(),
        2U);
  }
}

TEST(Moe, SaysWhatExpertsGotAndWhatWasDropped) {
  const Output all = run("moe --steps 3");
  for (const double dropped : numbers(all, "dropped (\\S+)%")) EXPECT_EQ(dropped, 0);
  const Output some = run("moe --steps 3 --experts 8 --capacity 0.9 --z-loss 0.001");
  const auto dropped = numbers(some, "dropped (\\S+)%");
  ASSERT_EQ(dropped.size(), 3U) << some.text;
  for (const double share : dropped) EXPECT_GT(share, 5);
  double loads = 0;
  const auto shares = numbers(some, "\\s(\\d+\\.\\d)%(?=[ \n])");
  ASSERT_EQ(shares.size(), 3U + 2 * 8) << some.text;
  for (size_t i = 3; i < shares.size(); ++i) loads += shares[i];
  EXPECT_NEAR(loads / 2, 100 - dropped[2], 1);  // each is rounded
  for (const double balance : numbers(some, "balance (\\S+) "))
    EXPECT_GT(balance, 2);  // a block's 1
}

// A run without data says what is exchanged if experts are used alike.
TEST(Moe, PredictsWithoutData) {
  for (const std::string flags :
       {"--ranks 4", "--ranks 8 --ep 4 --experts 8 --batch 32", "--ranks 8 --ep 2 --cp 4",
        "--ranks 2 --experts-every 2 --capacity 2"}) {
    const Output output = run("moe --device dry " + flags);
    ASSERT_EQ(output.exitCode, 0) << output.text;
    const auto bytes = numbers(output, kBytes);
    ASSERT_EQ(bytes.size(), 2U) << output.text;
    EXPECT_EQ(bytes[0], bytes[1]) << flags;
    EXPECT_GT(bytes[0], 100000);
  }
}

void expectRefused(const std::string& command, const std::string& named) {
  const Output output = run(command);
  EXPECT_NE(output.exitCode, 0) << command;
  EXPECT_EQ(output.count(named), 1) << output.text;
}

TEST(Moe, RanksThatDoNotFitAreRefused) {
  expectRefused("moe --ranks 3", "4 experts cannot be dealt out to 3 ranks along ep");
  expectRefused("moe --ranks 4 --ep 3", "--ep 3 does not divide 4 ranks");
  expectRefused("moe --ranks 4 --cp 3", "--cp 3 does not divide 4 ranks");
  expectRefused("moe --ranks 6 --cp 2 --ep 2", "--ep 2 does not divide 3 ranks");
  expectRefused("moe --experts 0", "--experts 0");
  expectRefused("moe --experts-per-token 5", "a token cannot go to 5 of 4 experts");
  expectRefused("moe --capacity -1", "--capacity");
}

TEST(TrainGpt, TrainsAndWritesWithExperts) {
  const tests::TemporaryFolder folder;
  const std::string text = folder.path().string() + "/text",
                    json = folder.path().string() + "/json", root = folder.path().string() + "/run";
  std::ofstream file(text);
  for (int i = 0; i < 600; ++i) file << "line " << i * i % 97 << " of the text\n";
  file.close();
  const std::string training = "train_gpt --text " + text +
                               " --context 32 --layers 2 --width 32 --heads 2 --experts 4 " +
                               "--capacity 1.5 --generate 0 --checkpoints " + root;
  const Output first = run(training + " --steps 4 --ep 2 --json " + json);
  ASSERT_EQ(first.exitCode, 0) << first.text;
  std::ifstream lines(json);
  std::string line;
  std::getline(lines, line);
  for (const std::string member : {"balance_loss", "z_loss", "dropped", "expert_loads"})
    EXPECT_NE(line.find("\"" + member + "\":"), std::string::npos) << line;
  const Output rest = run(training + " --steps 6 --ranks 1 --resume");
  EXPECT_EQ(rest.exitCode, 0) << rest.text;
  EXPECT_EQ(rest.count("step 6/6"), 1) << rest.text;
  const Output written = run("generate --from " + root + " --prompt line --tokens 5 --greedy");
  EXPECT_EQ(written.exitCode, 0) << written.text;
  EXPECT_EQ(written.count("line"), 1) << written.text;
  const std::string out = folder.path().string() + "/out";
  expectRefused("generate --from " + root + " --tokens 0 --export " + out,
                "a GPT with experts has no Hugging Face folder");
  expectRefused("train_gpt --text " + text + " --experts 4 --ep 3",
                "4 experts cannot be dealt out to 3 ranks along ep: 2 or 4 would do");
  expectRefused("train_gpt --text " + text + " --ranks 2 --ep 2",
                "--ep 2 shares out experts, and the model has none; nearest to it are --dp 2");
  expectRefused("train_gpt --text " + text + " --capacity 1", "--experts");
  expectRefused("train_gpt --text " + text + " --experts 4 --export " + out, "--experts");
}

}  // namespace
}  // namespace tutti::parallel
