// What train_gpt refuses, and how it says so; and what it does to files that are there.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/parallel/samples/train_gpt/train_gpt_run.h"

namespace tutti::parallel {
namespace {

TEST_F(TrainGpt, NamesWrongFlags) {
  expectRefused("--text x --wrong 1", 2, "--wrong");
  expectRefused("--text x --steps none", 2, "--steps");
  expectRefused("--text x --steps 0", 2, "--steps");
  expectRefused("--text x --optimizer adagrad", 2, "--optimizer");
  expectRefused("--text x --ranks 0", 2, "--ranks");
  expectRefused("--text x --dp 0", 2, "--dp");
  expectRefused("--text x --fsdp 2000", 2, "--fsdp");
  expectRefused("--text x --zero 4", 2, "--zero");
  expectRefused("--text x --tp 0", 2, "--tp");
  expectRefused("--text x --sp", 2, "--sp");
  expectRefused("--text x --rounds 0", 2, "--rounds");
  expectRefused("--text x --width 100 --heads 3", 2, "3 heads");
  expectRefused("--help", 0, "--deterministic");
}

// A number that is none, has another sign, or fits no variable: named, and not with a range of 309
// digits.
TEST_F(TrainGpt, NamesNumbersThatCannotBe) {
  const auto expectNamed = [&](const std::string& flag, const std::string& value) {
    const std::string given = flag + "=" + value;
    const Output output = run("--text x " + given);
    EXPECT_EQ(output.exitCode, 2) << given << "\n" << output.text;
    EXPECT_TRUE(output.text.starts_with("train_gpt: " + flag + ": ")) << given << "\n"
                                                                      << output.text;
    EXPECT_NE(output.text.find(value), std::string::npos) << given << "\n" << output.text;
    EXPECT_LT(output.text.size(), 200u) << output.text;
  };
  for (const std::string flag : {"--lr", "--weight-decay", "--clip"})
    for (const std::string value : {"nan", "inf", "-inf", "-1", "1e400", "none"})
      expectNamed(flag, value);
  expectNamed("--lr", "0");
  for (const std::string value : {"-1", "18446744073709551616", "1e3", "seed"})
    expectNamed("--seed", value);
  for (const std::string flag : {"--steps", "--batch", "--micro-batches", "--context", "--layers",
                                 "--width", "--heads", "--warmup", "--generate"})
    for (const std::string value :
         {"-1", "1000000001", "9223372036854775807", "99999999999999999999"})
      expectNamed(flag, value);
  EXPECT_EQ(run(small("--generate 0 --steps 1 --seed 18446744073709551615")).exitCode, 0);
}

// Where there is a GPU, it is the text that is missed.
TEST_F(TrainGpt, SaysWhatIsMissingWhereThereIsNoGpu) {
  const Output output = run("--text " + file("absent") + " --device cuda");
  EXPECT_EQ(output.exitCode, 1) << output.text;
  if (output.count(file("absent")) > 0) GTEST_SKIP() << "there is a GPU";
  EXPECT_TRUE(output.text.starts_with("train_gpt: --device cuda: ")) << output.text;
  EXPECT_EQ(output.count("this build of Tutti has no CUDA: configure it with -D TUTTI_CUDA=ON") +
                output.count("CUDA finds no GPU: "),
            1)
      << output.text;
  EXPECT_TRUE(output.lastLine().ends_with("; --device host needs none")) << output.text;
}

TEST_F(TrainGpt, NamesBadFiles) {
  expectRefused("--text " + file("absent"), 1, file("absent"));
  expectRefused("--text " + file("empty"), 1, file("empty") + " is empty");
  expectRefused("--text " + folder_, 1, "directory");
  expectRefused(small("--steps 1 --json /no/such/folder/x"), 1, "/no/such/folder/x");
  expectRefused("--context 100000 --text " + file("text"), 1, "too few");
  expectRefused("--context 1000000000 --text " + file("text"), 1, "too few");
  expectRefused("--text /proc/self/mem", 1, "the text /proc/self/mem cannot be read: ");
}

// Each rank reads the text, so a pipe would give each a part of it.
TEST_F(TrainGpt, TakesRegularFilesOnly) {
  ASSERT_EQ(mkfifo(file("pipe").c_str(), 0600), 0);
  for (const std::string ranks : {"1", "2"}) {
    expectRefused("--text " + file("pipe") + " --ranks " + ranks, 1, "every rank reads all of it");
    expectRefused("--text /dev/zero --ranks " + ranks, 1, "the text /dev/zero is a device");
    const Output piped =
        runProgram("cat " + file("text") + " | " + program + " --text /dev/stdin --ranks " + ranks);
    EXPECT_EQ(piped.exitCode, 1);
    EXPECT_EQ(piped.text.find("train_gpt: the text /dev/stdin is a pipe"), 0u) << piped.text;
  }
}

// One file, under whatever name, is either read or written.
TEST_F(TrainGpt, DoesNotWriteOverItsText) {
  const auto content = [&] {
    std::ifstream text(file("text"));
    return std::string(std::istreambuf_iterator<char>(text), {});
  };
  const std::string before = content();
  ASSERT_EQ(symlink("text", file("symlink").c_str()), 0);
  ASSERT_EQ(link(file("text").c_str(), file("link").c_str()), 0);
  const std::string roundabout = "../" + folder_.substr(folder_.rfind('/') + 1) + "/text";
  for (const std::string& name :
       {std::string("text"), roundabout, std::string("symlink"), std::string("link")})
    for (const std::string ranks : {"", " --ranks 2"}) {
      const std::string json = file(name);
      expectRefused(small("--steps 1 --json " + json + ranks), 1,
                    "train_gpt: --json " + json + " is the text");
    }
  EXPECT_EQ(content(), before);
  expectRefused("--text " + file("absent") + " --json " + file("./absent"), 1, "is the text");
  EXPECT_NE(access(file("absent").c_str(), F_OK), 0);
}

TEST_F(TrainGpt, SaysThatADiskIsFull) {
  const std::string noSpace = "No space left on device\n";
  const auto expectSaid = [&](const std::string& flags) {
    const Output output = runProgram("(" + program + " " + flags + " >/dev/full)");
    EXPECT_EQ(output.exitCode, 1) << flags << "\n" << output.text;
    EXPECT_EQ(output.count("train_gpt: standard output cannot be written: " + noSpace), 1)
        << output.text;
  };
  for (const std::string ranks : {"", " --ranks 2"}) {
    const std::string flags = small("--generate 0 --steps 2" + ranks);
    expectRefused(flags + " --json /dev/full", 1,
                  "train_gpt: --json: cannot write /dev/full: " + noSpace);
    expectSaid(flags);
  }
  expectSaid("--help");
}

// A path that is none is refused before the first step; what ends only when the trace does not fit
// on the disk has learned and saved all.
TEST_F(TrainGpt, KeepsWhatIsSavedWhenTheTraceDoesNotFit) {
  for (const std::string ranks : {"1", "2"}) {
    const std::string folder = file("run" + ranks);
    const std::string flags = small("--generate 0 --steps 2 --ranks " + ranks + " --json " +
                                    file("a.json") + " --checkpoints " + folder);
    std::ofstream(file("a.json")).flush();
    const Output refused = run(flags + " --trace /no/such/folder/x");
    EXPECT_EQ(refused.exitCode, 1) << refused.text;
    EXPECT_EQ(refused.count("--trace: cannot create /no/such/folder/x: No such file"), 1)
        << refused.text;
    EXPECT_TRUE(column("a.json", "loss").empty());
    const std::string full = file("full" + ranks);
    std::filesystem::create_symlink("/dev/full", full);
    const Output output = run(flags + " --trace " + full);
    EXPECT_EQ(output.exitCode, 1) << output.text;
    EXPECT_GE(output.count("--trace: cannot write " + full + ": No space left on"), 1)
        << output.text;
    EXPECT_EQ(column("a.json", "loss").size(), 2u);
    EXPECT_TRUE(std::filesystem::exists(folder + "/step-000002/manifest.json"));
  }
}

// A run that fails leaves what an earlier one has written; one that ends has its own in its place.
TEST_F(TrainGpt, WritesOverNothingBeforeThereIsSomethingBetter) {
  const std::string files = "--json " + file("a.json") + " --trace " + file("trace") + " ";
  const std::string out = " --export " + file("out");
  for (const char* name : {"a.json", "trace"}) std::ofstream(file(name)) << "earlier\n";
  std::filesystem::create_directory(file("out.partial"));
  std::ofstream(file("out.partial/x")) << "mine";
  for (const std::string ranks : {"1", "2"}) {
    const std::string flags = small("--generate 0 --steps 2 " + files + "--ranks " + ranks);
    // The folder of checkpoints is none: it fails before there is a step.
    EXPECT_EQ(run(flags + " --resume --checkpoints " + file("text") + out).exitCode, 1);
    for (const char* name : {"a.json", "trace"}) {
      std::ifstream left(file(name));
      std::string line;
      EXPECT_TRUE(std::getline(left, line) && line == "earlier") << name << ": " << line;
    }
  }
  EXPECT_EQ(run(small("--generate 0 --steps 2 " + files) + out).exitCode, 0);
  EXPECT_EQ(column("a.json", "loss").size(), 2u);
  EXPECT_NE(std::filesystem::file_size(file("trace")), 8u);
  EXPECT_TRUE(std::filesystem::exists(file("out.partial/x")));
  EXPECT_TRUE(std::filesystem::exists(file("out/config.json")));
}

// Not after the last one, when the model would be lost: whoever starts the ranks.
TEST_F(TrainGpt, RefusesAFolderToExportToBeforeTheFirstStep) {
  const std::string flags =
      small("--generate 0 --steps 2 --export " + folder_ + " --json " + file("a.json"));
  const std::string said =
      "train_gpt: --export " + folder_ + " is there already: choose another folder\n";
  for (const std::string& command : {program + " " + flags, program + " " + flags + " --ranks 2",
                                     launcher + " run -n 2 " + program + " " + flags}) {
    const Output output = runProgram(command);
    EXPECT_EQ(output.exitCode, 1) << output.text;
    EXPECT_GE(output.count(said), 1) << command << "\n" << output.text;
    EXPECT_EQ(output.count("step 1/2"), 0) << output.text;
    EXPECT_FALSE(std::filesystem::exists(file("a.json")));
  }
}

// All ranks see that the loss is no number; one says so.
TEST_F(TrainGpt, StopsWhenTheLossIsNotFinite) {
  const std::string diverging = "--generate 0 --lr 1e30 --json " + file("a.json");
  for (const std::string ranks : {"1", "2", "4"}) {
    const Output output = run(small(diverging + " --steps 5 --ranks " + ranks));
    EXPECT_EQ(output.exitCode, 1) << output.text;
    EXPECT_EQ(output.count("train_gpt: step 2: the loss is "), 1) << output.text;
    EXPECT_EQ(output.count("train_gpt: "), 1) << output.text;
    EXPECT_EQ(column("a.json", "loss").size(), 2u);
    EXPECT_EQ(column("a.json", "loss").back(), "null");
    // The last step's loss is still that of the weights before it.
    const Output one = run(small(diverging + " --steps 1 --ranks " + ranks));
    EXPECT_EQ(one.exitCode, 1) << one.text;
    EXPECT_EQ(one.count("train_gpt: after the last step the validation loss is "), 1) << one.text;
  }
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
  expectOnce(small("--steps 1 --offload optimizer --offload-folder " + file("absent")),
             "--offload-folder " + file("absent") + " is no folder");
  expectOnce(small("--steps 1 --batch 3"), "--batch 3");
  expectOnce(small("--steps 1 --micro-batches 6"), "6 micro-batches");
  expectOnce("--text " + file("text") + " --width 1000000000", "--width 1000000000");
  expectOnce("--text " + file("text") + " --layers 1000000000", "--layers 1000000000");
  expectOnce("--text " + file("text") + " --batch 1000000000", "--batch 1000000000");
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

// The ranks of a launcher's job are what a layout has to suit, as --ranks are.
TEST_F(TrainGpt, NamesLayoutsOfTheLaunchersRanks) {
  const Output output = run("--steps 1 --heads 4 --tp 3", "RANK=0 WORLD_SIZE=8");
  EXPECT_EQ(output.exitCode, 2) << output.text;
  EXPECT_EQ(output.count("--tp 3 does not divide 8 ranks; nearest to it are --dp 2 --tp 4"), 1)
      << output.text;
  EXPECT_EQ(output.count("one rank"), 0) << output.text;
}

TEST_F(TrainGpt, SaysOnceThatATextIsShort) {
  const std::string said = "fewer than --batch 500";
  EXPECT_EQ(run(small("--generate 0 --steps 2 --batch 500 --ranks 2")).count(said), 1);
  EXPECT_EQ(run(small("--generate 0 --steps 1")).count("fewer than"), 0);
}

TEST_F(TrainGpt, RefusesRanksThatDoNotLieAlongItsAxes) {
  expectRefused(small("--steps 1 --ranks 3 --dp 2 --fsdp 2"), 2, "--ranks 3");
  expectRefused(small("--steps 1 --ranks 3 --fsdp 2"), 2, "--fsdp 2 does not divide 3 ranks");
  expectRefused(small("--steps 1 --ranks 3 --dp 2"), 2, "--dp 2 does not divide 3 ranks");
  expectRefused(small("--steps 1 --rounds 3"), 1, "fewer --rounds");
  expectRefused(small("--steps 1 --ranks 2 --fsdp 4"), 2, "--fsdp 4 does not divide 2 ranks");
  expectRefused(small("--steps 1 --ranks 3 --tp 2"), 2, "--tp 2 does not divide 3 ranks");
  expectRefused(small("--steps 1 --ranks 4 --tp 2 --fsdp 4"), 2,
                "--fsdp 4 does not divide 4 ranks by --tp 2");
  expectRefused(small("--steps 1 --ranks 6 --tp 2 --fsdp 2 --dp 2"), 2,
                "--ranks 6, but --dp 2, --fsdp 2 and --tp 2 are 8");
  expectRefused(small("--steps 1 --tp 3"), 2, "cannot be dealt out to 3 ranks");
  expectRefused(small("--steps 1 --cp 3 --cp-attention heads"), 2,
                "cannot be exchanged among 3 ranks of context parallelism");
  expectRefused("--text x --cp-attention all", 2, "--cp-attention");
  expectRefused(small("--steps 1 --ranks 3 --pp 2"), 2, "--pp 2 does not divide 3 ranks");
  expectRefused(small("--steps 1 --pp 64"), 2, "none for some of 64 stages");
}

// train_options_test has the others.
TEST_F(TrainGpt, RefusesWhatItsPolicyDoesNotAllow) {
  expectRefused(small("--steps 1 --ranks 2 --reshard never"), 1, "train_gpt: --reshard never: ");
  expectRefused(small("--steps 1 --ranks 2 --offload gradients"), 1, "--offload gradients: ");
  expectRefused(small("--steps 1 --offload tape"), 2, "--offload");
  expectRefused(small("--steps 1 --reshard later"), 2, "--reshard");
  expectRefused(small("--steps 1 --backwards 0"), 2, "--backwards");
  expectRefused(small("--steps 1 --offload optimizer --offload-folder " + file("absent")), 1,
                file("absent"));
}

TEST_F(TrainGpt, RefusesThreeRanksToBeDeterministic) {
  expectRefused(small("--deterministic --ranks 3 --steps 1"), 1, "1, 2, 4, 8");
}

}  // namespace
}  // namespace tutti::parallel
