// train_gpt on eight ranks, laid out in every way: plain SGD in float32, whose losses are those of
// one rank. The programs are the arguments: tutti, train_gpt.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_main.h"

namespace tutti::parallel {
namespace {

using tests::Output;
using tests::runProgram;

std::string launcher, program;
const tests::Arguments commandLine{{"TUTTI", &launcher}, {"TRAIN_GPT", &program}};
constexpr int kSteps = 20;

class EightRanks : public testing::Test {
 protected:
  EightRanks() {
    std::string text;
    for (int i = 0; i < 900; ++i) text += "line " + std::to_string(i * i % 97) + " of a text, ";
    tests::setContents(folder_.path() / "text", text);
  }

  /// Of each step.
  std::vector<double> losses(const std::string& command, const std::string& flags) {
    const std::string json = folder_.path() / "losses.json";
    const Output output = runProgram(
        command + " --text " + std::string(folder_.path() / "text") + " --json " + json +
        " --steps " + std::to_string(kSteps) +
        " --optimizer sgd --lr 0.3 --warmup 0 --layers 4 --width 32 --heads 4 --context 32"
        " --batch 16 --micro-batches 8 --generate 0 " +
        flags);
    EXPECT_EQ(output.exitCode, 0) << flags << "\n" << output.text;
    std::vector<double> all;
    std::ifstream lines(json);
    for (std::string line; std::getline(lines, line);)
      all.push_back(nlohmann::json::parse(line).at("loss"));
    lines.close();
    std::filesystem::remove(json);
    return all;
  }

  /// Of `layouts`, each against one rank with the same other flags.
  void expectTheLossesOfOneRank(const std::vector<std::string>& layouts,
                                const std::string& flags = "") {
    const auto one = losses(program, flags);
    ASSERT_EQ(one.size(), size_t{kSteps});
    EXPECT_LT(one.back(), one.front() - 0.5);
    for (const std::string& layout : layouts) {
      const auto eight = losses(launcher + " run -n 8 " + program, layout + " " + flags);
      ASSERT_EQ(eight.size(), one.size()) << layout;
      double worst = 0;
      for (size_t i = 0; i < one.size(); ++i)
        worst = std::max(worst, std::abs(eight[i] - one[i]) / one[i]);
      std::printf("%-44s %.1e\n", layout.c_str(), worst);
      EXPECT_LT(worst, 1e-5) << layout;
    }
  }

 private:
  const tests::TemporaryFolder folder_;
};

TEST_F(EightRanks, HaveTheLossesOfOne) {
  expectTheLossesOfOneRank({"--dp 2 --tp 2 --pp 2", "--dp 8", "--fsdp 8", "--fsdp 2 --tp 4 --sp",
                            "--pp 4 --schedule zb-h1 --fsdp 2 --zero 1",
                            "--cp 2 --tp 2 --sp --pp 2", "--cp 4 --cp-attention heads --fsdp 2",
                            "--pp 2 --schedule interleaved --chunks 2 --cp 2 --dp 2"});
}

TEST_F(EightRanks, HaveTheLossesOfOneWithExperts) {
  expectTheLossesOfOneRank({"--dp 2 --ep 4", "--ep 2 --tp 2 --pp 2", "--fsdp 2 --ep 2 --tp 2 --sp",
                            "--cp 2 --ep 2 --pp 2 --schedule zb-h1"},
                           "--experts 4 --capacity 1.5");
}

/// Without a text, and with the model that it has by itself.
TEST_F(EightRanks, NeedNoMoreThanTheirLayout) {
  const Output output =
      runProgram(launcher + " run -n 8 " + program + " --dp 2 --tp 2 --pp 2 --steps 20");
  EXPECT_EQ(output.exitCode, 0) << output.text;
  EXPECT_EQ(output.count("validation loss"), 1) << output.text;
}

}  // namespace
}  // namespace tutti::parallel
