// train_gpt, generate and the small samples with --device, as their users meet them: on emulated
// GPUs they print the host's losses, on all axes; what one device has saved the other goes on from.
// Arguments: the folder of the shipped programs, of the emulated ones, and of models from
// elsewhere.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/parallel/sample_output.h"
#include "tests/parallel/temporary_folder.h"

namespace tutti::parallel {
namespace {

std::string shipped, emulated, folders;

// Rung 4 of the ladder: steps of SGD in float32 with losses within 1e-5 of another layout's.
constexpr double kBound = 1e-5;
constexpr double kPrinted = 1e-4;  // losses are printed with four digits
const std::string kSmall =
    " --context 16 --layers 2 --width 16 --heads 2 --batch 4 --optimizer sgd --generate 0";

class Devices : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_.path() / name; }

  /// The loss of each step.
  std::vector<double> trained(const std::string& program, const std::string& flags,
                              int steps = 3) const {
    const std::string json = file("losses");
    const Output output = runProgram(program + "/train_gpt" + kSmall + flags + " --steps " +
                                     std::to_string(steps) + " --json " + json);
    EXPECT_EQ(output.exitCode, 0) << flags << "\n" << output.text;
    std::vector<double> all;
    std::istringstream lines(tests::contentsOf(json));
    for (std::string line; std::getline(lines, line);)
      all.push_back(nlohmann::json::parse(line)["loss"]);
    return all;
  }
  void expectSame(const std::string& flags, double bound = kBound, int steps = 3) const {
    const std::vector<double> host = trained(shipped, flags, steps),
                              gpus = trained(emulated, flags + " --device emulated", steps);
    ASSERT_EQ(host.size(), gpus.size()) << flags;
    for (size_t i = 0; i < host.size(); ++i)
      EXPECT_NEAR(gpus[i], host[i], bound) << flags << ", loss " << i;
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
  // First logits are below 1/2, and a loss changes by at most twice what a logit does, which two
  // devices round to neighbours at most.
  expectSame(" --type bfloat16", 0x1p-8, 1);
}

TEST_F(Devices, TwoRanksTrainAsOnTheHost) {
  for (const char* flags : {" --dp 2", " --fsdp 2", " --tp 2 --sp", " --pp 2", " --cp 2",
                            " --cp 2 --cp-attention heads", " --experts 4 --ep 2",
                            " --fsdp 2 --offload optimizer,gradients,parameters"})
    expectSame(flags);
}

TEST_F(Devices, FourRanksTrainAsOnTheHost) {
  for (const char* flags : {" --ranks 4", " --fsdp 2 --tp 2"}) expectSame(flags);
}

TEST_F(Devices, GoOnFromEachOthersCheckpoints) {
  // One step there, from where one is done here: its loss.
  const auto goOn = [&](const std::string& there, const std::string& here) {
    const std::string run = " --checkpoints " + file(there + "-" + here);
    const auto on = [](const std::string& device) {
      return device == "host" ? std::string() : " --device emulated --ranks 2";
    };
    trained(there == "host" ? shipped : emulated, run + on(there), 1);
    return trained(here == "host" ? shipped : emulated, run + " --resume" + on(here), 2).back();
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
    losses.push_back(trained(shipped, " --resume --checkpoints " + run, 2).back());
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

TEST_F(Devices, SmallSamplesTrainThereToo) {
  const std::string small = " --context 8 --width 16 --heads 2 --batch 4 --steps 2";
  for (const std::string sample : {"ddp", "data_parallel", "fsdp"}) {
    const std::string flags = "/" + sample + small + " --ranks 2";
    expectClose(losses(runProgram(emulated + flags + " --device emulated")),
                losses(runProgram(shipped + flags)), kBound, sample);
  }
}

TEST_F(Devices, RefuseWhatIsNotThere) {
  const std::string here = "this program has no emulated GPUs";
  expectRefused(shipped + "/train_gpt --device emulated", 2, here);
  expectRefused(shipped + "/generate --from x --device emulated", 1, here);
  expectRefused(shipped + "/ddp --device emulated", 1, here);
  expectRefused(emulated + "/train_gpt --device cuda", 2,
                "this program runs on emulated GPUs alone");
  expectRefused(
      emulated + "/train_gpt --device emulated --offload optimizer --offload-folder .", 1,
      "--offload-folder .: with --device emulated state lies in the memory of the GPU or");
  expectRefused(shipped + "/tensor_parallel_mlp --device cuda", 1,
                "--device cuda: tensor_parallel_mlp computes on the host alone");
  expectRefused("TUTTI_EMULATION_DEVICES=0 " + emulated + "/train_gpt --ranks 2 --device emulated",
                1, "--device emulated: CUDA finds no GPU: ");
}

}  // namespace
}  // namespace tutti::parallel

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 4) {
    fprintf(stderr, "usage: %s FOLDER_OF_PROGRAMS OF_EMULATED_PROGRAMS OF_MODELS\n", argv[0]);
    return 2;
  }
  tutti::parallel::shipped = argv[1];
  tutti::parallel::emulated = argv[2];
  tutti::parallel::folders = argv[3];
  return RUN_ALL_TESTS();
}
