// train_gpt and generate with --device, as their users meet them: on emulated GPUs they print the
// host's losses, on all axes; what one device has saved the other goes on from.
// Arguments: the folder of the shipped programs, of the emulated ones, and of models from
// elsewhere.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/parallel/samples/sample_output.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_main.h"

namespace tutti::parallel {
namespace {

std::string shipped, emulated, folders;
const tests::Arguments commandLine{
    {"FOLDER_OF_PROGRAMS", &shipped}, {"OF_EMULATED_PROGRAMS", &emulated}, {"OF_MODELS", &folders}};

// How far apart losses of two devices are. From a token to its logit there are some 40 operations
// one behind the other, in a model of four layers; their errors, which nothing correlates, add up
// to sqrt(40) of one. In 16 bits that is the rounding of its result, as sums are float32's. In
// float32 it is the 8 roundings that a sum of 64 products errs by with all likelihood, as such
// errors grow with the root (Higham and Mary, "A New Approach to Probabilistic Rounding Error
// Analysis"). A loss is a mean over 64 positions of differences of logits, which are below 1/2: it
// errs by twice as much as a logit, by an eighth of that as the mean of so many, and two devices
// differ by sqrt(2) of it. A step of rate 0.3 along a gradient whose norm is cut to 1 moves a loss
// by 0.3 of what the gradient errs, which is a mean over the positions too, and has errors of two
// passes, on two devices. For comparison: a rate that is wrong by 3% moves the third loss by 1e-2.
double boundOf(double ofOperation, int steps) {
  const double relative = std::sqrt(40) * ofOperation;
  return (2 * std::sqrt(2) * relative / 2 + (steps - 1) * 2 * 0.3 * relative) / 8;
}
constexpr double kBrainRounding = 0x1p-8, kHalfRounding = 0x1p-11;
const double kBound = boundOf(8 * 0x1p-24, 3);  // 1e-6
constexpr double kPrinted = 1e-4;               // losses are printed with four digits
const std::string kSmall = " --context 16 --width 16 --batch 4 --optimizer sgd --generate 0";
const std::string kTwo = " --layers 2 --heads 2", kFour = " --layers 4 --heads 4";

/// A line of --json.
struct Step {
  double loss;
  bool isSkipped;
};

class Devices : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_.path() / name; }

  /// What each step says, of which there must be so many.
  std::vector<Step> stepsOf(const std::string& program, const std::string& flags, int steps,
                            int before = 0) const {
    const std::string json = file("losses"),
                      size = flags.find("--layers") == flags.npos ? kTwo : "";
    const Output output = runProgram(program + "/train_gpt" + kSmall + size + flags + " --steps " +
                                     std::to_string(steps) + " --json " + json);
    EXPECT_EQ(output.exitCode, 0) << flags << "\n" << output.text;
    std::vector<Step> all;
    std::istringstream lines(tests::contentsOf(json));
    for (std::string line; std::getline(lines, line);) {
      const auto step = nlohmann::json::parse(line);
      all.push_back({step["loss"], step["skipped"]});
    }
    std::filesystem::remove(json);
    EXPECT_EQ(all.size(), static_cast<size_t>(steps - before)) << program << flags;
    return all;
  }
  /// Their losses; `before` are those that a checkpoint has behind it.
  std::vector<double> trained(const std::string& program, const std::string& flags, int steps = 3,
                              int before = 0) const {
    std::vector<double> all;
    for (const Step& step : stepsOf(program, flags, steps, before)) {
      EXPECT_FALSE(step.isSkipped) << program << flags;
      all.push_back(step.loss);
    }
    return all;
  }
  static void expectNear(const std::vector<double>& gpus, const std::vector<double>& host,
                         double bound, const std::string& flags) {
    ASSERT_EQ(gpus.size(), host.size()) << flags;
    double most = 0;
    for (size_t i = 0; i < host.size(); ++i) {
      EXPECT_NEAR(gpus[i], host[i], bound) << flags << ", loss " << i;
      most = std::max(most, std::abs(gpus[i] - host[i]));
    }
    std::printf("  %.1e of %.1e:%s\n", most, bound, flags.c_str());
  }
  void expectSame(const std::string& flags, double bound = kBound, int steps = 3) const {
    expectNear(trained(emulated, flags + " --device emulated", steps),
               trained(shipped, flags, steps), bound, flags);
  }
  static void expectRefused(const std::string& command, int exitCode, const std::string& named) {
    const Output output = runProgram(command);
    EXPECT_EQ(output.exitCode, exitCode) << output.text;
    EXPECT_NE(output.text.find(named), std::string::npos) << output.text << "\nnot: " << named;
  }

  tests::TemporaryFolder folder_;
};

TEST_F(Devices, OneRankTrainsAsOnTheHost) {
  expectSame("");
  expectSame(" --type bfloat16", boundOf(kBrainRounding, 3));
}

TEST_F(Devices, TwoRanksTrainAsOnTheHost) {
  for (const char* flags : {" --dp 2", " --fsdp 2", " --tp 2 --sp", " --pp 2", " --cp 2",
                            " --cp 2 --cp-attention heads", " --experts 4 --ep 2",
                            " --fsdp 2 --offload optimizer,gradients,parameters"})
    expectSame(flags);
}

TEST_F(Devices, FourRanksTrainAsOnTheHost) {
  for (const std::string& flags :
       {std::string(" --ranks 4"), std::string(" --fsdp 2 --tp 2"), " --pp 4" + kFour,
        " --tp 4 --sp" + kFour, std::string(" --cp 4"), std::string(" --experts 4 --ep 4")})
    expectSame(flags);
}

TEST_F(Devices, RanksTrainIn16BitsAsOnTheHost) {
  for (const char* flags : {" --ranks 2", " --fsdp 2 --tp 2"})
    expectSame(flags + std::string(" --type bfloat16"), boundOf(kBrainRounding, 3));
  expectSame(" --ranks 4 --type float16", boundOf(kHalfRounding, 3));
}

// Gradients of 2^22 and 2^21 times the loss are more than float16 has, of 2^20 times they are not.
TEST_F(Devices, RanksSkipTheStepsThatOverflow) {
  constexpr int kSteps = 5, kSkipped = 2;
  for (const char* ranks : {"", " --ranks 2", " --fsdp 2 --tp 2"}) {
    const std::string flags = std::string(" --type float16 --loss-scale 4194304") + ranks;
    const auto host = stepsOf(shipped, flags, kSteps),
               gpus = stepsOf(emulated, flags + " --device emulated", kSteps);
    ASSERT_EQ(gpus.size(), host.size());
    std::vector<double> hostLosses, gpuLosses;
    for (size_t i = 0; i < host.size(); ++i) {
      EXPECT_EQ(host[i].isSkipped, i < kSkipped) << ranks << ", step " << i;
      EXPECT_EQ(gpus[i].isSkipped, host[i].isSkipped) << ranks << ", step " << i;
      hostLosses.push_back(host[i].loss), gpuLosses.push_back(gpus[i].loss);
    }
    expectNear(gpuLosses, hostLosses, boundOf(kHalfRounding, kSteps - kSkipped), flags);
  }
}

TEST_F(Devices, GoOnFromEachOthersCheckpoints) {
  // One step there, from where one is done here: its loss.
  const auto goOn = [&](const std::string& there, const std::string& here) {
    const std::string run = " --checkpoints " + file(there + "-" + here);
    const auto on = [](const std::string& device) {
      return device == "host" ? std::string() : " --device emulated --ranks 2";
    };
    trained(there == "host" ? shipped : emulated, run + on(there), 1);
    return trained(here == "host" ? shipped : emulated, run + " --resume" + on(here), 2, 1).back();
  };
  const double expected = goOn("host", "host");
  EXPECT_NEAR(goOn("host", "gpu"), expected, kBound);
  EXPECT_NEAR(goOn("gpu", "host"), expected, kBound);
}

// Each writes a checkpoint behind its first step while it goes on, from which the host goes on.
TEST_F(Devices, SaveWhileTheyTrain) {
  const std::string flags = " --save-every 1 --async-checkpoints --keep 0 --checkpoints ";
  trained(shipped, flags + file("host"));
  trained(emulated, flags + file("gpu") + " --device emulated --ranks 2");
  std::vector<double> losses;
  for (const std::string& run : {file("host"), file("gpu")}) {
    for (const char* later : {"/step-000002", "/step-000003"})
      ASSERT_GT(std::filesystem::remove_all(run + later), 0u);
    losses.push_back(trained(shipped, " --resume --checkpoints " + run, 2, 1).back());
  }
  EXPECT_NEAR(losses[1], losses[0], kBound);
}

// A Llama of a Hugging Face folder, into another one that the host reads.
TEST_F(Devices, TakeAndGiveHuggingFaceFolders) {
  const std::string how =
      "/train_gpt --context 16 --batch 4 --steps 1 --optimizer sgd --generate 0 --init-from ";
  const auto lossOf = [&](const std::string& command) {
    return std::stod(losses(runProgram(command)).at(0));
  };
  const std::string from = folders + "/llama-bytes";
  const double host = lossOf(shipped + how + from + " --export " + file("host")),
               gpus = lossOf(emulated + how + from + " --device emulated --fsdp 2 --export " +
                             file("gpu"));
  EXPECT_NEAR(gpus, host, kBound + kPrinted);
  EXPECT_NEAR(lossOf(shipped + how + file("gpu")), lossOf(shipped + how + file("host")),
              kBound + kPrinted);
}

TEST_F(Devices, WriteTheSameText) {
  trained(shipped, " --checkpoints " + file("run"), 20);
  const std::string how = "/generate --from " + file("run") + " --greedy --tokens 6 --prompt abc";
  const Output host = runProgram(shipped + how);
  ASSERT_EQ(host.exitCode, 0) << host.text;
  for (const char* ranks : {"", " --ranks 2"}) {
    const Output gpus = runProgram(emulated + how + " --device emulated" + ranks);
    EXPECT_EQ(gpus.exitCode, 0) << gpus.text;
    EXPECT_EQ(gpus.text, host.text);
  }
}

TEST_F(Devices, RefuseWhatIsNotThere) {
  const std::string here = "this program has no emulated GPUs";
  expectRefused(shipped + "/train_gpt --device emulated", 2, here);
  expectRefused(shipped + "/generate --from x --device emulated", 1, here);
  expectRefused(emulated + "/train_gpt --device cuda", 2,
                "this program runs on emulated GPUs alone");
  expectRefused(
      emulated + "/train_gpt --device emulated --offload optimizer --offload-folder .", 1,
      "--offload-folder .: with --device emulated state lies in the memory of the GPU or");
  expectRefused("TUTTI_EMULATION_DEVICES=0 " + emulated + "/train_gpt --ranks 2 --device emulated",
                1, "--device emulated: CUDA finds no GPU: ");
}

}  // namespace
}  // namespace tutti::parallel
