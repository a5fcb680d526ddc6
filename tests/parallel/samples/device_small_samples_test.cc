// The samples but train_gpt and generate with --device, as their users meet them: on emulated GPUs
// they print what they print on the host. Arguments: the folders of the shipped programs and of
// the emulated ones.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/parallel/samples/sample_output.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_main.h"

namespace tutti::parallel {
namespace {

std::string shipped, emulated;
const tests::Arguments commandLine{{"FOLDER_OF_PROGRAMS", &shipped},
                                   {"OF_EMULATED_PROGRAMS", &emulated}};

// Of float32 and of float64: sums are of the same numbers in other orders.
constexpr double kSingle = 1e-6, kDouble = 1e-12;
const std::string kSmall = " --context 8 --width 16 --heads 2 --batch 4 --steps 2";

Output onHost(const std::string& command) { return runProgram(shipped + "/" + command); }
Output onGpus(const std::string& command) {
  return runProgram(emulated + "/" + command + " --device emulated");
}

void expectSameLosses(const std::string& command, double bound) {
  const auto host = losses(onHost(command));
  EXPECT_FALSE(host.empty()) << command;
  expectClose(losses(onGpus(command)), host, bound, command);
}

/// Without times, and what rounding makes of them.
std::string withoutMeasurements(const std::string& text) {
  return std::regex_replace(text, std::regex(", [0-9]+ us|worst difference [^\n]*"), "");
}

TEST(SmallSamples, TrainOnGpusToo) {
  tests::TemporaryFolder folder;
  const std::string zero = folder.path() / "zero.json";
  std::ofstream(zero) << R"({"train_batch_size": 4, "zero_optimization": {"stage": 2},
      "optimizer": {"type": "AdamW", "params": {"lr": 0.003}}})";
  for (const std::string& sample :
       {std::string("ddp"), std::string("data_parallel"), std::string("fsdp"),
        "zero --config " + zero, std::string("model_parallel"), std::string("moe")})
    expectSameLosses(sample + kSmall + " --ranks 2", kSingle);
}

TEST(SmallSamples, PlaceOperatorsOnGpusToo) {
  for (const char* flags : {"", " --ranks 2", " --ranks 2 --cut"})
    expectSameLosses("operator_placement" + kSmall + flags, kDouble);
}

TEST(SmallSamples, CutAnMlpOnGpusToo) {
  const std::string mlp = "tensor_parallel_mlp --rows 6 --width 4 --steps 3";
  for (const char* flags : {"", " --ranks 2", " --ranks 2 --sp"})
    expectSameLosses(mlp + flags, kDouble);
  expectSameLosses(mlp + " --ranks 2 --type float32", kSingle);
}

// It fails by itself where a result is wrong, or something else is sent than the algebra says.
TEST(SmallSamples, MultiplyMatricesOnGpusToo) {
  for (const char* flags : {" --sizes I=8,J=6,K=4", " --sizes I=7,J=5,K=3 --type float32",
                            " --sizes I=7,J=5,K=3 'A[I,J]{Ux} B[J,K] -> C[I,Kx]'",
                            " --sizes I=6,J=9,K=4 --ways 3 'A[Jx,I] B[Kx,J] -> C[I,K]'"}) {
    const std::string command = std::string("sharded_matmul --ranks 2") + flags;
    const Output host = onHost(command), gpus = onGpus(command);
    EXPECT_EQ(gpus.exitCode, 0) << gpus.text;
    EXPECT_GT(gpus.count("worst difference"), 0) << gpus.text;
    EXPECT_GT(gpus.count(" us\n"), 0) << gpus.text;
    EXPECT_EQ(withoutMeasurements(gpus.text), withoutMeasurements(host.text));
  }
}

// It fails by itself where what a rank holds is not what was planned.
TEST(SmallSamples, HoldWhatWasPlannedOnGpusToo) {
  const std::string sample = "fsdp_tp" + kSmall + " --n-layers 2 --ranks 2";
  for (const char* flags : {"", " --tp 2", " --tp 2 --sp"}) {
    expectSameLosses(sample + flags, kSingle);
    const Output gpus = onGpus(sample + flags);
    EXPECT_EQ(gpus.count("as planned; a step takes "), 1) << gpus.text;
  }
  const Output compared = onGpus(sample + " --compare");
  EXPECT_EQ(compared.exitCode, 0) << compared.text;
  EXPECT_EQ(compared.count(" ms "), 2) << compared.text;
  const Output refused = onGpus(sample + " --memory-limit 10k");
  EXPECT_EQ(refused.exitCode, 1) << refused.text;
  EXPECT_EQ(refused.count("which is more than --memory-limit"), 1) << refused.text;
}

// It fails by itself where ranks differ from one rank, or take and send what the formulas do not
// say. Beside scores, for which a GPU's kernels have memory of their own, that is the host's.
TEST(SmallSamples, AttendOnGpusToo) {
  const std::regex atMost("peak activations [^\n]*\n");
  for (const char* flags : {" --length 8 --width 8 --heads 2 --kv-heads 2",
                            " --ranks 2 --length 12 --width 8 --heads 2 --kv-heads 2",
                            " --ranks 2 --length 8 --width 16 --heads 4 --kv-heads 2"}) {
    const std::string command = std::string("ring_attention") + flags;
    const Output host = onHost(command), gpus = onGpus(command);
    EXPECT_EQ(gpus.exitCode, 0) << gpus.text;
    const auto rest = [&](const std::string& text) {
      return std::regex_replace(withoutMeasurements(text), atMost, "");
    };
    EXPECT_EQ(rest(gpus.text), rest(host.text));
    EXPECT_NE(withoutMeasurements(gpus.text), withoutMeasurements(host.text)) << flags;
  }
}

using Json = nlohmann::json;

std::map<std::string, Json> rowsOf(const Output& output) {
  EXPECT_EQ(output.exitCode, 0) << output.text;
  std::map<std::string, Json> rows;
  std::istringstream lines(output.text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("{")) rows[Json::parse(line)["strategy"]] = Json::parse(line);
  return rows;
}

/// Every strategy learns what it learns on the host, sends as much, and is measured.
void expectSameStrategies(const std::string& flags) {
  const std::string command =
      "compare_strategies --json - --ranks 2 --layers 4 --context 4 --width 8 --heads 2 --batch 2 "
      "--steps 2" +
      flags;
  const auto host = rowsOf(onHost(command)), gpus = rowsOf(onGpus(command));
  EXPECT_GT(host.size(), 10u);
  EXPECT_EQ(gpus.size(), host.size());
  for (const auto& [name, row] : gpus) {
    ASSERT_TRUE(host.contains(name)) << name;
    EXPECT_EQ(row["collectives"], host.at(name)["collectives"]) << name;
    EXPECT_NEAR(row["loss"].get<double>(), host.at(name)["loss"].get<double>(), 10 * kSingle)
        << name;
    for (const char* time : {"seconds", "predicted_seconds", "tokens_per_second"})
      EXPECT_GT(row[time].get<double>(), 0) << row;
  }
}

TEST(SmallSamples, CompareStrategiesOnGpusToo) { expectSameStrategies(""); }
TEST(SmallSamples, CompareStrategiesOfExpertsOnGpusToo) { expectSameStrategies(" --experts 4"); }

/// Shares of time, in percent, by schedule.
struct Idle {
  double predicted = 0, measured = 0;
};
std::map<std::string, Idle> idleOf(const Output& output) {
  EXPECT_EQ(output.exitCode, 0) << output.text;
  std::map<std::string, Idle> rows;
  std::istringstream lines(output.text);
  std::string line;
  for (std::getline(lines, line); std::getline(lines, line);) {
    std::istringstream words(line);
    std::string schedule, predicted, measured;
    words >> schedule >> predicted >> measured;
    rows[schedule] = {std::stod(predicted), std::stod(measured)};
  }
  return rows;
}

// Ranks that did not wait for each other's GPUs would sleep at the same time, and idle for next to
// nothing. Half of what is predicted leaves room for one that sleeps too long on a busy machine.
TEST(SmallSamples, SchedulesIdleOnGpusToo) {
  const auto gpus =
      idleOf(onGpus("pipeline_schedules --ranks 2 --micro-batches 2 --costs 20,20,20"));
  ASSERT_EQ(gpus.size(), 6u);
  for (const auto& [schedule, idle] : gpus) EXPECT_LT(idle.measured, 100) << schedule;
  for (const char* schedule : {"naive", "gpipe", "1f1b"})
    EXPECT_GE(gpus.at(schedule).measured, gpus.at(schedule).predicted / 2) << schedule;
  EXPECT_EQ(gpus.at("naive").predicted, 50);
}

class AllSamples : public testing::Test {
 protected:
  AllSamples() : zero_(folder_.path() / "zero.json") {
    std::ofstream(zero_) << R"({"train_batch_size": 4, "zero_optimization": {"stage": 2}})";
  }
  /// Each with the flags that it needs.
  std::vector<std::string> all() const {
    return {"compare_strategies",
            "data_parallel",
            "ddp",
            "fsdp",
            "fsdp_tp" + kSmall,
            "model_parallel",
            "moe",
            "operator_placement",
            "pipeline_schedules",
            "ring_attention",
            "sharded_matmul",
            "tensor_parallel_mlp",
            "zero --config " + zero_};
  }
  static void expectRefused(const std::string& command, const std::string& named) {
    const Output output = runProgram(command);
    EXPECT_EQ(output.exitCode, 1) << command << "\n" << output.text;
    EXPECT_GE(output.count(named), 1) << command << "\n" << output.text;
  }

 private:
  tests::TemporaryFolder folder_;
  const std::string zero_;
};

TEST_F(AllSamples, RefuseDevicesThatAreNotThere) {
  for (const std::string& sample : all()) {
    expectRefused(shipped + "/" + sample + " --device emulated",
                  "this program has no emulated GPUs");
    expectRefused(emulated + "/" + sample + " --device cuda",
                  "this program runs on emulated GPUs alone");
    expectRefused("TUTTI_EMULATION_DEVICES=0 " + emulated + "/" + sample + " --device emulated",
                  "--device emulated: CUDA finds no GPU: ");
  }
}

// In so little memory nothing has room.
TEST_F(AllSamples, HaveTheirTensorsOnGpus) {
  for (const std::string& sample : all())
    expectRefused("TUTTI_EMULATION_MEMORY=1 " + emulated + "/" + sample + " --device emulated",
                  "failed on cuda:0: cudaErrorMemoryAllocation (out of memory)");
}

}  // namespace
}  // namespace tutti::parallel
