// train_gpt as its user meets it: what it learns, counts and saves, and the same numbers on any
// number of ranks, each a process.

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/parallel/samples/train_gpt/train_gpt_run.h"
#include "tests/support/test_main.h"

namespace tutti::parallel {
namespace {

const tests::Arguments commandLine{{"TRAIN_GPT", &program}, {"TUTTI", &launcher}};

/// The line of the validation loss up to its " after 3 s".
std::string untilTime(const std::string& line) { return line.substr(0, line.find(" after ")); }

// Ranks that have no position of a sequence, no expert that a token goes to, no row of the token
// that is written next.
TEST_F(TrainGpt, SixteenBitsOnRanksWithoutRows) {
  const auto firstLoss = [&](const std::string& flags) {
    const Output output = run("--text " + file("text") + " --steps 1 --layers 1 --width 32 " +
                              flags + " --json " + file("a.json"));
    EXPECT_EQ(output.exitCode, 0) << flags << "\n" << output.text;
    EXPECT_EQ(output.lastLine().find("validation loss "), 0u) << flags << "\n" << output.text;
    return output.exitCode == 0 ? std::stod(column("a.json", "loss").at(0)) : 0;
  };
  const std::string few = "--batch 16 --context 3 --generate 0 --micro-batches 8 --type ",
                    text = "--batch 4 --context 16 --generate 4 --micro-batches 4 --type ",
                    experts = " --experts 8 --experts-per-token 1 --capacity 0";
  // Roundings differ: of bfloat16 they are 2^-9 of a number at most.
  const auto expectAsAlone = [&](const std::string& flags,
                                 const std::vector<std::string>& layouts) {
    const double alone = firstLoss(flags);
    for (const std::string& ranks : layouts) EXPECT_NEAR(firstLoss(flags + ranks), alone, 0.01);
  };
  expectAsAlone(few + "bfloat16", {" --cp 4", " --cp 2 --tp 2 --sp"});
  expectAsAlone(few + "float16", {" --cp 4 --cp-attention heads"});
  expectAsAlone(text + "bfloat16", {" --tp 2 --sp", " --cp 2"});
  expectAsAlone(text + "bfloat16" + experts, {" --ep 4"});
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

// Of what a line says, as far as it is not the training's own to say.
TEST_F(TrainGpt, WritesMetrics) {
  const std::string flags =
      "--generate 0 --steps 5 --peak-flops 1e12 --tp 2 --type float16 --json " + file("a.json");
  ASSERT_EQ(run(small(flags)).exitCode, 0);
  const auto rates = column("a.json", "tokens_per_second"), uses = column("a.json", "mfu"),
             seconds = column("a.json", "step_seconds"),
             waited = column("a.json", "waited_seconds");
  ASSERT_EQ(uses.size(), 5u);
  // Two blocks of 12 width^2 + 13 width, embeddings of 256 bytes and 32 positions, the last norm.
  const double parameters = 2 * (12 * 32 * 32 + 13 * 32) + (256 + 32) * 32 + 2 * 32;
  const double perToken = 6 * parameters + 12 * 2 * 32 * 32;
  for (size_t i = 0; i < uses.size(); ++i) {
    EXPECT_NEAR(std::stod(uses[i]), std::stod(rates[i]) * perToken / (2 * 1e12),
                1e-9 * std::stod(uses[i]));
    EXPECT_NEAR(std::stod(seconds[i]) * std::stod(rates[i]), 8 * 32, 1e-6);
    EXPECT_GT(std::stod(waited[i]), 0);
    EXPECT_LT(std::stod(waited[i]), std::stod(seconds[i]));
    double parts = 0;
    for (const std::string part : {"pipeline", "data", "tensor", "context", "experts", "all"})
      parts += std::stod(column("a.json", part).at(i));
    EXPECT_NEAR(parts, std::stod(waited[i]), 1e-12);
    EXPECT_GT(std::stod(column("a.json", "tensor").at(i)), 0);
    EXPECT_EQ(std::stod(column("a.json", "data").at(i)), 0);
  }
  EXPECT_EQ(std::stod(column("a.json", "loss_scale").front()), 65536);
  for (const std::string& skipped : column("a.json", "skipped"))
    EXPECT_TRUE(skipped == "true" || skipped == "false") << skipped;
  for (const std::string kind : {"masters", "gradients", "optimizer", "activations", "scratch"})
    EXPECT_GT(std::stod(column("a.json", kind).back()), 0) << kind;
  ASSERT_EQ(run(small("--generate 0 --steps 2 --json " + file("a.json"))).exitCode, 0);
  EXPECT_GT(std::stod(column("a.json", "mfu").back()), 0) << "against what was measured";
  EXPECT_LT(std::stod(column("a.json", "mfu").back()), 1);
}

// Whoever has which part of the batch, a step is of all of it, and no second counts twice.
TEST_F(TrainGpt, CountsTheTokensOfAllRanks) {
  for (const std::string ranks : {"--ranks 1", "--dp 2", "--fsdp 2", "--pp 2", "--cp 2"}) {
    const auto begin = std::chrono::steady_clock::now();
    const Output output =
        run(small("--generate 0 --steps 20 " + ranks + " --json " + file("a.json")));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    ASSERT_EQ(output.exitCode, 0) << output.text;
    const auto rates = column("a.json", "tokens_per_second"),
               seconds = column("a.json", "step_seconds");
    double sum = 0;
    for (size_t i = 0; i < rates.size(); ++i) {
      EXPECT_NEAR(std::stod(seconds[i]) * std::stod(rates[i]), 8 * 32, 1e-6) << ranks;
      EXPECT_EQ(column("a.json", "tokens")[i], "256") << ranks;
      sum += std::stod(seconds[i]);
    }
    EXPECT_EQ(rates.size(), 20u);
    EXPECT_LT(sum, taken.count()) << ranks;
  }
}

// Bytes of a rank of two. All sizes are multiples of a cache line but halves of the vectors of 32,
// 9 in each block and 2 behind them, of which each is padded by another 16 elements.
TEST_F(TrainGpt, SaysWhatARankHoldsByKind) {
  const Output output =
      run(small("--generate 0 --steps 2 --type bfloat16 --fsdp 2 --zero 1 "
                "--json " +
                file("a.json")));
  ASSERT_EQ(output.exitCode, 0) << output.text;
  const int64_t parameters = 2 * (12 * 32 * 32 + 13 * 32) + (256 + 32) * 32 + 2 * 32;
  const auto bytes = [&](const char* kind) { return std::stoll(column("a.json", kind).back()); };
  EXPECT_EQ(bytes("weights"), 2 * parameters);
  const int64_t half = parameters / 2 + (2 * 9 + 2) * 16;
  EXPECT_EQ(bytes("masters"), 4 * half);
  EXPECT_EQ(bytes("gradients"), 4 * parameters);
  EXPECT_EQ(bytes("optimizer"), 8 * parameters / 2);
  for (const char* kind : {"staging", "activations", "scratch"}) EXPECT_GT(bytes(kind), 0) << kind;
  for (const char* kind : {"between_stages", "checkpoint"}) EXPECT_EQ(bytes(kind), 0) << kind;
  ASSERT_EQ(run(small("--generate 0 --steps 2 --pp 2 --checkpoints " + file("run") +
                      " --save-every 1 --async-checkpoints --json " + file("a.json")))
                .exitCode,
            0);
  for (const char* kind : {"between_stages", "checkpoint"}) EXPECT_GT(bytes(kind), 0) << kind;
  EXPECT_EQ(bytes("masters"), 0) << "weights are float32 themselves";
}

// A token has a use for the experts that it goes to alone, each of 8 width^2 + 5 width.
TEST_F(TrainGpt, CountsTheExpertsThatATokenGoesTo) {
  const auto perToken = [&](const std::string& experts) {
    const Output output = run(small("--generate 0 --steps 1 --peak-flops 1e12 --experts 4 " +
                                    experts + " --json " + file("a.json")));
    EXPECT_EQ(output.exitCode, 0) << output.text;
    return std::stod(column("a.json", "mfu").back()) /
           std::stod(column("a.json", "tokens_per_second").back()) * 1e12;
  };
  const double difference = perToken("--experts-per-token 4") - perToken("--experts-per-token 1");
  EXPECT_NEAR(difference, 6 * 2 * 3 * (8 * 32 * 32 + 5 * 32), 1e-3);
}

// Lines of which nothing goes on into the next, and whose beginnings are not learned.
TEST_F(TrainGpt, LearnsLines) {
  std::ofstream text(file("text"));
  for (int i = 0; i < 700; ++i)
    text << "line " << i << ": " << std::string(i % 41, 'a' + i % 26) << "\n";
  text.close();
  const std::string flags = "--generate 0 --optimizer sgd --steps 5 --json ";
  const auto tokens = [&](const std::string& more) {
    const Output output = run(small(flags + file("a.json") + " " + more));
    EXPECT_EQ(output.exitCode, 0) << output.text;
    return column("a.json", "tokens");
  };
  EXPECT_EQ(tokens(""), std::vector<std::string>(5, "256"));
  const auto lines = tokens("--lines"), answers = tokens("--lines --prompt-end :");
  ASSERT_EQ(lines.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_LT(std::stoi(lines[i]), 256);
    EXPECT_LT(std::stoi(answers[i]), std::stoi(lines[i]));
    EXPECT_GT(std::stoi(answers[i]), 0);
  }
  const auto losses = column("a.json", "loss");
  for (const std::string ranks : {"--ranks 4", "--tp 2 --sp --fsdp 2"}) {
    EXPECT_EQ(tokens("--lines --prompt-end : " + ranks), answers);
    const auto many = column("a.json", "loss");
    for (size_t i = 0; i < 5; ++i)
      EXPECT_NEAR(std::stod(many[i]), std::stod(losses[i]), 1e-5) << ranks << ", step " << i + 1;
  }
  expectRefused(small("--steps 1 --prompt-end :"), 2, "--lines");
  expectRefused(small("--steps 1 --lines --prompt-end ::"), 2, "--prompt-end");
  expectRefused(small("--steps 1 --lines --tokenizer tokenizer.json"), 2, "--tokenizer");
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

// Layers and sequences that are cut over ranks: the losses of one rank, and a text.
TEST_F(TrainGpt, RanksThatComputeTogetherAgreeOverTwentySteps) {
  const std::string flags = "--optimizer sgd --steps 20 --check-replicas --generate 20 --json ";
  ASSERT_EQ(run(small(flags + file("a.json"))).exitCode, 0);
  const auto one = column("a.json", "loss");
  ASSERT_EQ(one.size(), 20u);
  for (const std::string ranks :
       {"--tp 2", "--tp 2 --sp --dp 2", "--tp 2 --sp --fsdp 2", "--dp 2 --tp 2 --pp 2", "--cp 2",
        "--cp 2 --fsdp 2 --cp-attention heads"}) {
    const Output output = run(small(flags + file("b.json") + " " + ranks));
    ASSERT_EQ(output.exitCode, 0) << output.text;
    const auto many = column("b.json", "loss");
    ASSERT_EQ(many.size(), one.size());
    for (size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(std::stod(many[i]), std::stod(one[i]), 1e-5) << ranks << ", step " << i + 1;
  }
}

// Ranks that were started with other learning rates have other weights after one step: nobody sees
// it, unless they compare.
TEST_F(TrainGpt, ReplicasThatDifferEndTheRunThatChecksThem) {
  const auto differing = [&](const std::string& flags) {
    return runProgram(launcher + " run -n 2 -- sh -c '" + program + " " +
                      small("--generate 0 --steps 2 --warmup 1 " + flags) +
                      " --lr 0.0$((TUTTI_RANK + 1))'");
  };
  for (const std::string ranks : {"", "--tp 2"}) {
    const Output unseen = differing(ranks);
    EXPECT_EQ(unseen.exitCode, 0) << ranks << "\n" << unseen.text;
    const Output seen = differing(ranks + " --check-replicas");
    EXPECT_EQ(seen.exitCode, 1) << ranks << "\n" << seen.text;
    EXPECT_GE(seen.count("train_gpt: after step 1 the ranks' copies of "), 1) << seen.text;
    EXPECT_EQ(seen.count("after step 2"), 0) << seen.text;
    EXPECT_EQ(seen.count("validation loss"), 0) << seen.text;
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

// What is shared out changes no bit, and all ranks write the text together.
TEST_F(TrainGpt, ShardedRanksGiveTheSameBits) {
  const std::string flags = "--generate 20 --deterministic --steps 5 --check-replicas --json ";
  const Output one = run(small(flags + file("a.json")));
  ASSERT_EQ(one.exitCode, 0) << one.text;
  ASSERT_EQ(column("a.json", "loss").size(), 5u);
  const auto untilText = [](const Output& output) {
    return output.text.substr(output.text.rfind("\n\n"), 22);
  };
  const std::string files = " --offload-folder " + folder_ + " --offload ";
  for (const std::string& ranks : std::vector<std::string>{
           "--zero 1 --ranks 2", "--zero 2 --fsdp 4", "--fsdp 2", "--dp 2 --fsdp 2",
           "--dp 2 --fsdp 2 --zero 0", "--ranks 4 --dp 2", "--ranks 4 --fsdp 2 --zero 1",
           "--fsdp 2 --reshard never --offload parameters",
           "--fsdp 2 --reshard after-backward --backwards 2" + files +
               "optimizer,gradients,parameters",
           "--zero 2 --ranks 2" + files + "gradients", "--dp 2" + files + "optimizer", "--pp 2",
           "--pp 2 --schedule zb-h1 --fsdp 2", "--pp 2 --schedule naive --stages 1,1"}) {
    const Output output = run(small(flags + file("b.json") + " " + ranks));
    ASSERT_EQ(output.exitCode, 0) << ranks << "\n" << output.text;
    EXPECT_EQ(column("b.json", "loss"), column("a.json", "loss")) << ranks;
    EXPECT_EQ(column("b.json", "grad_norm"), column("a.json", "grad_norm")) << ranks;
    EXPECT_EQ(untilText(output), untilText(one)) << ranks;
  }
  const Output rounds = run(small(flags + file("b.json") + " --fsdp 2 --batch 16 --rounds 2"));
  EXPECT_EQ(rounds.exitCode, 0) << rounds.text;
}

// Stopped after 4 steps on two ranks, gone on with on four, of which two share weights out.
TEST_F(TrainGpt, ResumesOnOtherRanks) {
  const std::string flags = "--generate 0 --deterministic --steps 8 --lr 0.01 --warmup 1 ";
  const std::string whole = flags + "--json " + file("a.json");
  ASSERT_EQ(run(small(whole)).exitCode, 0);
  const auto losses = column("a.json", "loss");
  const std::string folder = "--checkpoints " + file("checkpoints");
  const auto resumed = [&](const std::string& more) {
    const Output output = run(small(flags + folder + " --resume --json " + file("b.json") + more));
    EXPECT_EQ(output.exitCode, 0) << output.text;
    return column("b.json", "loss");
  };
  EXPECT_EQ(resumed(" --zero 1 --ranks 2 --save-every 3"), losses);  // there is none to go on from
  EXPECT_TRUE(std::filesystem::exists(file("checkpoints/step-000006/manifest.json")));
  EXPECT_FALSE(std::filesystem::exists(file("checkpoints/step-000003")));  // two are kept
  std::filesystem::remove_all(file("checkpoints/step-000008"));
  EXPECT_EQ(resumed(" --dp 2 --fsdp 2"), losses);  // the two steps that are lost came once more
  std::filesystem::remove(file("b.json"));
  EXPECT_TRUE(resumed("").empty());  // it has ended
  for (const std::string ranks : {"1", "2"}) {
    const std::string on = folder + " --resume --ranks " + ranks;
    const Output ended = run(small("--generate 0 --steps 5 " + on));
    EXPECT_EQ(ended.count("goes on behind step 8 of " + file("checkpoints") +
                          ": nothing is left to train, with --steps 5\n"),
              1)
        << ended.text;
    expectRefused(small(folder + " --steps 9 --ranks " + ranks), 1,
                  file("checkpoints") + " has a run up to step 8 already: give --resume");
  }
  expectRefused(small("--steps 1 --resume"), 2, "--checkpoints");
  expectRefused(small("--steps 1 --save-every 1"), 2, "--checkpoints");
  expectRefused(small("--resume --steps 9 --optimizer sgd " + folder), 1, "nobody expects");
  expectRefused(small("--resume --steps 9 --seed 7 " + folder), 1,
                "--seed: it was saved with 1, not 7");
  expectRefused(small("--resume --steps 9 --batch 16 " + folder), 1,
                "--batch: it was saved with 8, not 16");
  expectRefused(small("--resume --steps 9 --lines " + folder), 1,
                "--lines: it was saved with no, not");
  expectRefused("--text " + file("text") + " --layers 2 --width 32 --heads 1 --context 32 " +
                    "--batch 8 --resume --steps 9 " + folder,
                1, file("checkpoints") + " has a model of --heads 2, not --heads 1\n");
  tests::setContents(file("text"), tests::contentsOf(file("text")) + "a line more\n");
  expectRefused(small("--resume --steps 9 " + folder), 1, "text: it was saved with ");
  std::filesystem::remove_all(file("checkpoints"));
}

}  // namespace
}  // namespace tutti::parallel
