// train_gpt as its user meets it: flags, files, and the same numbers on any number of ranks, each a
// process. TRAIN_GPT is the program's path, the first argument of this test.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/parallel/run_program.h"

namespace tutti::parallel {
namespace {

std::string program;

Output run(const std::string& arguments, const std::string& variables = "") {
  return runProgram(variables + " " + program + " " + arguments);
}

/// The line of the validation loss up to its " after 3 s".
std::string untilTime(const std::string& line) { return line.substr(0, line.find(" after ")); }

/// A folder with a small text to learn.
class TrainGpt : public testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/tutti-train-XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    folder_ = path;
    std::ofstream text(file("text"));
    for (int i = 0; i < 700; ++i) text << "line " << i * i % 97 << " of the text, ";
    std::ofstream empty(file("empty"));
  }
  void TearDown() override {
    for (const std::string name : {"text", "empty", "a.json", "b.json"})
      std::remove(file(name).c_str());
    rmdir(folder_.c_str());
  }
  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  std::string small(const std::string& more) const {
    const bool sized = more.find("--batch ") != std::string::npos;
    return "--text " + file("text") + " --layers 2 --width 32 --heads 2 --context 32 " +
           (sized ? "" : "--batch 8 ") + more;
  }
  void expectRefused(const std::string& arguments, int exitCode, const std::string& named) {
    const Output output = run(arguments);
    EXPECT_EQ(output.exitCode, exitCode) << arguments << "\n" << output.text;
    EXPECT_NE(output.text.find(named), std::string::npos) << arguments << "\n" << output.text;
  }
  /// The values of `key`, one a line of the file, as they are written.
  std::vector<std::string> column(const std::string& name, const std::string& key) const {
    std::ifstream json(file(name));
    std::vector<std::string> values;
    for (std::string line; std::getline(json, line);) {
      const size_t at = line.find("\"" + key + "\": ");
      if (at == std::string::npos) return {};
      const size_t begin = at + key.size() + 4;
      values.push_back(line.substr(begin, line.find_first_of(",}", begin) - begin));
    }
    return values;
  }

  std::string folder_;
};

TEST_F(TrainGpt, NamesWrongFlags) {
  expectRefused("", 2, "--text");
  expectRefused("--text x --wrong 1", 2, "--wrong");
  expectRefused("--text x --steps none", 2, "--steps");
  expectRefused("--text x --steps 0", 2, "--steps");
  expectRefused("--text x --optimizer adagrad", 2, "--optimizer");
  expectRefused("--text x --ranks 0", 2, "--ranks");
  expectRefused("--text x --width 100 --heads 3", 2, "3 heads");
  expectRefused("--help", 0, "--deterministic");
}

TEST_F(TrainGpt, NamesBadFiles) {
  expectRefused("--text " + file("absent"), 1, file("absent"));
  expectRefused("--text " + file("empty"), 1, file("empty") + " is empty");
  expectRefused("--text " + folder_, 1, "directory");
  expectRefused(small("--steps 1 --json /no/such/folder/x"), 1, "/no/such/folder/x");
  expectRefused("--context 100000 --text " + file("text"), 1, "too few");
}

// What no rank could do is said once, before there are any.
TEST_F(TrainGpt, RefusesOnceBeforeItStartsRanks) {
  const auto expectOnce = [&](const std::string& arguments, const std::string& named) {
    const Output output = run(arguments + " --ranks 4");
    EXPECT_EQ(output.exitCode, 1) << output.text;
    EXPECT_EQ(output.count("train_gpt: "), 1) << output.text;
    EXPECT_EQ(output.count("\n"), 1) << output.text;
    EXPECT_EQ(output.count(named), 1) << output.text;
  };
  expectOnce("--text " + file("absent"), file("absent"));
  expectOnce("--text " + file("empty"), file("empty") + " is empty");
  expectOnce(small("--steps 1 --json /no/such/folder/x"), "/no/such/folder/x");
  expectOnce(small("--steps 1 --batch 3"), "--batch 3");
  expectOnce(small("--steps 1 --micro-batches 6"), "6 micro-batches");
}

TEST_F(TrainGpt, RefusesEmptyMicroBatches) {
  expectRefused(small("--steps 1 --batch 3"), 1, "--batch 3 cannot be cut into 4 micro-batches");
  expectRefused(small("--steps 1 --batch 7 --deterministic"), 1, "8 micro-batches");
  EXPECT_EQ(run(small("--generate 0 --steps 1 --batch 3 --micro-batches 3")).exitCode, 0);
}

// A size without a rank is no launcher (an salloc shell, a leftover variable): --ranks starts its
// own ranks. A size that a launcher did give must agree.
TEST_F(TrainGpt, RanksAreNotLostToLaunchersVariables) {
  const std::string flags = small("--generate 0 --steps 1 --ranks 2");
  for (const std::string variables : {"WORLD_SIZE=4", "SLURM_NTASKS=4", "WORLD_SIZE=junk",
                                      "SLURM_PROCID=0 SLURM_NTASKS=4", "RANK=0 WORLD_SIZE=1"}) {
    const Output output = run(flags, variables);
    EXPECT_EQ(output.exitCode, 0) << variables << "\n" << output.text;
    EXPECT_EQ(output.count(", 2 ranks, "), 1) << variables << "\n" << output.text;
  }
  for (const std::string variables : {"RANK=1 WORLD_SIZE=4", "RANK=0 WORLD_SIZE=junk"}) {
    const Output output = run(flags, variables);
    EXPECT_EQ(output.exitCode, 1) << variables << "\n" << output.text;
    EXPECT_EQ(output.count("train_gpt: "), 1) << output.text;
  }
}

TEST_F(TrainGpt, SaysOnceThatATextIsShort) {
  const std::string said = "fewer than --batch 500";
  EXPECT_EQ(run(small("--generate 0 --steps 2 --batch 500 --ranks 2")).count(said), 1);
  EXPECT_EQ(run(small("--generate 0 --steps 1")).count("fewer than"), 0);
}

TEST_F(TrainGpt, LearnsAndWrites) {
  const Output output =
      run(small("--steps 60 --generate 40 --prompt 'line ' --json " + file("a.json")));
  ASSERT_EQ(output.exitCode, 0) << output.text;
  EXPECT_EQ(output.lastLine().find("validation loss "), 0u) << output.text;
  EXPECT_NE(output.text.find("\nline "), std::string::npos) << output.text;
  const auto losses = column("a.json", "loss");
  ASSERT_EQ(losses.size(), 60u);
  EXPECT_EQ(column("a.json", "step").back(), "60");
  EXPECT_EQ(column("a.json", "grad_norm").size(), 60u);
  EXPECT_EQ(column("a.json", "tokens_per_second").size(), 60u);
  EXPECT_LT(std::stod(losses.back()), std::stod(losses.front()) - 1);
}

// Linear warm-up to --lr, then half a cosine down to a tenth of it at the last step.
TEST_F(TrainGpt, LearningRateFollowsItsSchedule) {
  const std::string flags = "--generate 0 --steps 9 --lr 0.5 --warmup 2 --json ";
  ASSERT_EQ(run(small(flags + file("a.json"))).exitCode, 0);
  const auto rates = column("a.json", "learning_rate");
  ASSERT_EQ(rates.size(), 9u);
  EXPECT_DOUBLE_EQ(std::stod(rates[0]), 0.25);
  EXPECT_DOUBLE_EQ(std::stod(rates[1]), 0.5);
  for (size_t i = 2; i < 9; ++i) EXPECT_LT(std::stod(rates[i]), std::stod(rates[i - 1])) << i;
  EXPECT_DOUBLE_EQ(std::stod(rates[8]), 0.05);
}

// Each flag of the training reaches it: the losses differ from those without it, which are the
// same in every run.
TEST_F(TrainGpt, FlagsAreNotIgnored) {
  const auto losses = [&](const std::string& more) {
    const std::string flags = "--generate 0 --steps 4 --json " + file("a.json") + " " + more;
    EXPECT_EQ(run(small(flags)).exitCode, 0) << more;
    return column("a.json", "loss");
  };
  const auto plain = losses("");
  ASSERT_EQ(plain.size(), 4u);
  EXPECT_EQ(losses(""), plain);
  for (const std::string flag :
       {"--seed 2", "--lr 0.01", "--warmup 3", "--weight-decay 0", "--optimizer sgd", "--batch 6"})
    EXPECT_NE(losses(flag), plain) << flag;
  EXPECT_NE(losses("--optimizer sgd --clip 0.01"), losses("--optimizer sgd --clip 0.02"));
  EXPECT_NE(losses("--optimizer sgd --clip 0"), losses("--optimizer sgd --clip 0.01"));
  EXPECT_NE(losses("--optimizer sgd --weight-decay 0.5"), losses("--optimizer sgd"));
}

TEST_F(TrainGpt, RanksAgreeOverTwentySteps) {
  const std::string flags = "--generate 0 --optimizer sgd --steps 20 --check-replicas --json ";
  ASSERT_EQ(run(small(flags + file("a.json"))).exitCode, 0);
  const auto one = column("a.json", "loss");
  ASSERT_EQ(one.size(), 20u);
  for (const std::string ranks : {"2", "4"}) {
    const Output output = run(small(flags + file("b.json") + " --ranks " + ranks));
    ASSERT_EQ(output.exitCode, 0) << output.text;
    const auto many = column("b.json", "loss");
    ASSERT_EQ(many.size(), one.size());
    for (size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(std::stod(many[i]), std::stod(one[i]), 1e-5) << ranks << " ranks, step " << i + 1;
  }
}

TEST_F(TrainGpt, DeterministicRanksGiveTheSameBits) {
  for (const std::string optimizer : {"sgd", "adamw"}) {
    const std::string flags =
        "--generate 0 --deterministic --steps 10 --optimizer " + optimizer + " --json ";
    const Output one = run(small(flags + file("a.json")));
    ASSERT_EQ(one.exitCode, 0) << one.text;
    for (const std::string ranks : {"1", "2", "4", "8"}) {
      const Output output = run(small(flags + file("b.json") + " --ranks " + ranks));
      ASSERT_EQ(output.exitCode, 0) << output.text;
      ASSERT_EQ(column("a.json", "loss").size(), 10u);
      // 17 digits name a double, so equal text is equal bits.
      EXPECT_EQ(column("b.json", "loss"), column("a.json", "loss")) << ranks << " " << optimizer;
      EXPECT_EQ(column("b.json", "grad_norm"), column("a.json", "grad_norm")) << ranks << optimizer;
      // All digits that it prints; ddp_test compares the bits.
      EXPECT_EQ(untilTime(output.lastLine()), untilTime(one.lastLine())) << ranks << optimizer;
    }
  }
}

TEST_F(TrainGpt, RefusesThreeRanksToBeDeterministic) {
  expectRefused(small("--deterministic --ranks 3 --steps 1"), 1, "1, 2, 4, 8");
}

}  // namespace
}  // namespace tutti::parallel

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s TRAIN_GPT\n", argv[0]);
    return 2;
  }
  tutti::parallel::program = argv[1];
  return RUN_ALL_TESTS();
}
