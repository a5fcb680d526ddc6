// The samples as their user meets them: they learn, on any number of ranks and under any layout to
// the same losses, a dry run says what they then hold and send, and what they are asked wrongly is
// refused by name, once. The folder of the programs is the first argument of this test.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/parallel/samples/sample_programs.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_main.h"

namespace tutti::parallel {
namespace {

const tests::Arguments commandLine{{"FOLDER_OF_SAMPLES", &programs}};

class Samples : public testing::Test {
 protected:
  void SetUp() override {
    write("adam.json", R"({"train_batch_size": 16, "gradient_accumulation_steps": 2,
      "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e4},
      "optimizer": {"type": "AdamW", "params": {"lr": 0.003, "betas": [0.9, 0.95], "weight_decay": 0.1}},
      "gradient_clipping": 1.0})");
  }
  std::string file(const std::string& name) const { return (folder_.path() / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name)) << text;
  }
  /// A configuration with `more` among its members.
  std::string config(const std::string& more) const {
    write("more.json", "{\"train_batch_size\": 16" + (more.empty() ? "" : ", " + more) + "}");
    return "--config " + file("more.json");
  }
  void expectRefused(const std::string& command, int exitCode, const std::string& named) const {
    const Output output = run(command);
    EXPECT_EQ(output.exitCode, exitCode) << command << "\n" << output.text;
    EXPECT_EQ(output.count(named), 1) << command << "\n" << output.text;
    EXPECT_EQ(output.count("\n"), exitCode == 2 ? 2 : 1) << output.text;
  }

  const tests::TemporaryFolder folder_;
};

/// From one number of ranks to another only the order of additions changes: float32, over 40 steps
/// that take the loss from 5.6 to 0.5; 2e-7 was seen.
constexpr double kClose = 1e-5;

TEST_F(Samples, Learn) {
  const std::string zero = "zero --config " + file("adam.json");
  std::vector<std::string> first;
  for (const std::string& sample : std::vector<std::string>{"ddp", "data_parallel", "fsdp", zero})
    for (const std::string ranks : {"1", "2", "4"}) {
      const Output output = run(sample + " --steps 40 --ranks " + ranks);
      const auto seen = losses(output);
      ASSERT_EQ(seen.size(), 40u) << output.text;
      EXPECT_GT(std::stod(seen.front()), 5) << sample;  // ln 256 is 5.5
      EXPECT_LT(std::stod(seen.back()), std::stod(seen.front()) - 2) << sample << ", " << ranks;
      if (first.empty()) first = seen;
      expectClose(seen, first, kClose, sample + " on " + ranks);
    }
}

// Layouts differ in what they share out, not in a bit of what they compute.
TEST_F(Samples, AgreeToTheBitWhenDeterministic) {
  const std::string flags = " --steps 6 --deterministic";
  const auto one = losses(run("ddp" + flags));
  ASSERT_EQ(one.size(), 6u);
  for (const std::string layout :
       {"ddp --ranks 2", "ddp --ranks 4", "data_parallel --ranks 1", "data_parallel --ranks 4",
        "fsdp --ranks 1", "fsdp --ranks 2 --reshard never", "fsdp --ranks 4",
        "fsdp --ranks 4 --dp 2 --reshard after-backward"})
    EXPECT_EQ(losses(run(layout + flags)), one) << layout;
  // 8 micro-batches on 2 and 4 ranks, as the others have.
  const std::string same =
      R"("optimizer": {"type": "Adam", "params": {"lr": 0.003, "betas": [0.9, 0.95],
      "eps": 1e-8, "weight_decay": 0.1}}, "gradient_clipping": 1)";
  for (const std::string stage : {"0", "1", "2", "3"})
    for (const auto& [ranks, steps] : std::map<std::string, std::string>{{"2", "4"}, {"4", "2"}})
      EXPECT_EQ(losses(run("zero --ranks " + ranks + flags + " " +
                           config("\"zero_optimization\": {\"stage\": " + stage +
                                  "}, \"gradient_accumulation_steps\": " + steps + ", " + same))),
                one)
          << "stage " << stage << ", " << ranks << " ranks";
}

TEST_F(Samples, DryRunsSayWhatIsHeldAndSent) {
  const std::string offloaded = config(
      R"("zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}, "bf16": {"enabled": true})");
  for (const std::string& sample :
       std::vector<std::string>{"ddp --ranks 4", "data_parallel --ranks 2", "fsdp --ranks 2",
                                "fsdp --ranks 4 --dp 2 --reshard never",
                                "zero --ranks 2 " + offloaded, "ddp --ranks 1"}) {
    const Output dry = run(sample + " --device dry"), host = run(sample + " --steps 2");
    EXPECT_EQ(dry.exitCode, 0) << dry.text;
    EXPECT_TRUE(losses(dry).empty()) << dry.text;
    EXPECT_EQ(use(dry), use(host)) << sample;
  }
  std::set<std::string> uses;
  for (const std::string when : {"after-forward", "after-backward", "never"})
    uses.insert(use(run("fsdp --ranks 2 --device dry --reshard " + when)));
  EXPECT_EQ(uses.size(), 3u);
  // A model that is not for this machine.
  const Output large =
      run("fsdp --device dry --ranks 512 --batch 512 --layers 80 --width 8192 --heads 64 --context "
          "2048");
  EXPECT_EQ(large.exitCode, 0) << large.text;
  EXPECT_NE(use(large).find("rank 0 of fsdp=512 holds "), std::string::npos) << large.text;
}

TEST_F(Samples, NameWhatTheyRefuse) {
  for (const std::string& sample : std::vector<std::string>{"ddp", "data_parallel", "fsdp",
                                                            "zero --config " + file("adam.json")}) {
    expectRefused(sample + " --device gpu", 2, "--device: gpu");
    expectRefused(sample + " --device emulated", 1, "this program has no emulated GPUs");
    expectRefused(sample + " --ranks 0", 2, "--ranks");
    expectRefused(sample + " --ranks 4 --heads 3", 1, "3 heads");
    const bool zero = sample.starts_with("zero");  // 2 micro-batches on each rank
    expectRefused(sample + " --ranks 3 --deterministic", 1, zero ? "3 ranks" : "1, 2, 4, 8");
    EXPECT_EQ(run(sample + " --help").exitCode, 0);
    EXPECT_EQ(run(sample + " --help >/dev/full").exitCode, 1);
  }
  expectRefused("ddp --ranks 4 --batch 3", 1, "a batch of 3 sequences");
  expectRefused("fsdp --ranks 4 --dp 3", 1, "--dp 3 does not divide 4 ranks");
  expectRefused("fsdp --reshard later", 2, "--reshard");
  expectRefused("zero", 2, "--config");
  expectRefused("zero --ranks 4 --config " + file("absent.json"), 1, "absent.json");
}

TEST_F(Samples, ZeroFollowsItsConfiguration) {
  const auto trained = [&](const std::string& more) {
    return losses(run("zero --steps 6 " + config(more)));
  };
  const auto plain = trained("");
  ASSERT_EQ(plain.size(), 6u);
  EXPECT_EQ(trained(""), plain);
  const auto optimizer = [](const std::string& type, const std::string& params) {
    return "\"optimizer\": {\"type\": \"" + type + "\", \"params\": {" + params + "}}";
  };
  EXPECT_EQ(trained(optimizer("AdamW", "\"lr\": 0.001")), plain);
  for (const std::string params :
       {"\"lr\": 0.002", "\"betas\": [0.5, 0.9]", "\"eps\": 0.01", "\"weight_decay\": 0.5"})
    EXPECT_NE(trained(optimizer("AdamW", params)), plain) << params;
  const auto sgd = trained(optimizer("SGD", "\"lr\": 0.3"));
  EXPECT_NE(sgd, plain);
  EXPECT_NE(trained(optimizer("SGD", "\"lr\": 0.3, \"momentum\": 0.5")), sgd);
  EXPECT_NE(trained(optimizer("SGD", "\"lr\": 0.3, \"weight_decay\": 0.5")), sgd);
  EXPECT_NE(trained("\"gradient_clipping\": 0.01"), plain);
  EXPECT_NE(trained("\"bf16\": {\"enabled\": true}"), plain);
  EXPECT_EQ(
      trained("\"bf16\": {\"enabled\": false}, \"fp16\": {\"enabled\": false, \"loss_scale\": 0}"),
      plain);

  const auto half = trained("\"fp16\": {\"enabled\": true}");
  EXPECT_NE(half, plain);
  // Of a scale that float16 cannot hold, steps are skipped until it is small enough.
  const auto scaled = [&](const std::string& more) {
    return trained("\"fp16\": {\"enabled\": true, " + more + "}");
  };
  EXPECT_EQ(scaled("\"loss_scale\": 0, \"initial_scale_power\": 16"), half);
  const auto late = scaled("\"initial_scale_power\": 40, \"hysteresis\": 1");
  EXPECT_EQ(late[0], half[0]);
  EXPECT_NE(late[1], half[1]);
  EXPECT_EQ(scaled("\"loss_scale\": 1024")[5], scaled("\"initial_scale_power\": 10")[5]);

  // Any two of the three numbers, or one of the first two, make a batch of 16 in 4 micro-batches.
  const auto batched = [&](const std::string& numbers, const std::string& ranks) {
    write("batch.json", "{" + numbers + "}");
    return losses(
        run("zero --steps 3 --deterministic --ranks " + ranks + " --config " + file("batch.json")));
  };
  const std::string all = "\"train_batch_size\": 16",
                    micro = "\"train_micro_batch_size_per_gpu\": 4",
                    two = "\"gradient_accumulation_steps\": 2";
  const auto whole = batched(all + ", " + two, "2");
  EXPECT_EQ(batched(all + ", " + micro, "2"), whole);
  EXPECT_EQ(batched(micro + ", " + two, "2"), whole);
  EXPECT_EQ(batched(all + ", " + micro + ", " + two, "2"), whole);
  EXPECT_EQ(batched(all, "4"), whole);
  EXPECT_EQ(batched(micro, "4"), whole);

  const auto held = [&](const std::string& zero) {
    return use(
        run("zero --device dry --ranks 2 " + config("\"zero_optimization\": {" + zero + "}")));
  };
  const std::string stage2 = held("\"stage\": 2");
  EXPECT_NE(held("\"stage\": 3"), stage2);
  EXPECT_NE(held("\"stage\": 0"), stage2);
  // Smaller buckets are more of them, of which only some are there at one time from stage 2 on.
  const std::string small = ", \"reduce_bucket_size\": 100";
  EXPECT_NE(held("\"stage\": 2" + small), stage2);
  EXPECT_NE(held("\"stage\": 2" + small), held("\"stage\": 1" + small));
  EXPECT_EQ(held("\"stage\": 2, \"reduce_bucket_size\": 262144"), stage2);  // this store's own
  const std::string files =
      "\"device\": \"nvme\", \"nvme_path\": \"" + folder_.path().string() + "\"";
  EXPECT_EQ(trained("\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {" + files +
                    "}, \"offload_param\": {" + files + "}}"),
            plain);
}

TEST_F(Samples, ZeroNamesWhatItDoesNotKnow) {
  const auto refused = [&](const std::string& more, const std::string& named) {
    expectRefused("zero --ranks 2 " + config(more), 1, named);
  };
  refused("\"scheduler\": {}", "\"scheduler\" is no member");
  refused("\"fp16\": {\"enabled\": true, \"loss_scale\": 100}",
          "loss_scale: 100 is no power of two");
  refused("\"fp16\": {\"enabled\": true, \"hysteresis\": 0}", "hysteresis: 0");
  refused("\"fp16\": {\"enabled\": true, \"min_loss_scale\": 131072}", "min_loss_scale: 131072");
  refused("\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}", "fp16 is enabled too");
  refused("\"fp16\": {\"consecutive_hysteresis\": true}", "consecutive_hysteresis");
  refused("\"zero_optimization\": {\"stage\": 4}", "stage: 4 is not between 0 and 3");
  refused("\"zero_optimization\": {\"stage\": 1, \"cpu_offload\": true}",
          "\"cpu_offload\" is no member");
  refused("\"zero_optimization\": {\"stage\": 1, \"reduce_bucket_size\": 0.5}",
          "reduce_bucket_size: 0.5");
  refused("\"zero_optimization\": {\"stage\": 0, \"offload_optimizer\": {\"device\": \"cpu\"}}",
          "offload_optimizer");
  refused("\"zero_optimization\": {\"stage\": 2, \"offload_param\": {\"device\": \"cpu\"}}",
          "offload_param");
  refused("\"zero_optimization\": {\"stage\": 1, \"offload_optimizer\": {\"device\": \"nvme\"}}",
          "nvme_path");
  refused("\"zero_optimization\": {\"stage\": 1, \"offload_optimizer\": {\"device\": \"tape\"}}",
          "\"tape\"");
  refused("\"optimizer\": {\"type\": \"Lamb\"}", "\"Lamb\"");
  refused("\"optimizer\": {\"type\": \"Adam\", \"params\": {\"adam_w_mode\": false}}",
          "adam_w_mode");
  refused("\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"betas\": [0.9]}}", "betas");
  refused("\"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": -1}}", "lr: -1 is below 0");
  refused("\"gradient_clipping\": \"auto\"", "gradient_clipping: this is no number");
  refused("\"gradient_accumulation_steps\": 3", "train_batch_size 16 is not a multiple of");
  refused("\"gradient_accumulation_steps\": 2, \"train_micro_batch_size_per_gpu\": 2",
          "train_micro_batch_size_per_gpu 2 times");
  write("none.json", "{}");
  expectRefused("zero --ranks 2 --config " + file("none.json"), 1, "train_batch_size or");
  write("bad.json", "{\"train_batch_size\": 16,}");
  expectRefused("zero --ranks 2 --config " + file("bad.json"), 1, "this is no JSON");

  // What only makes DeepSpeed faster is named, and taken.
  const Output noted = run("zero --steps 1 --ranks 2 " +
                           config(R"("steps_per_print": 5, "zero_optimization": {"stage": 2,
                             "overlap_comm": true, "allgather_bucket_size": 5e8})"));
  EXPECT_EQ(noted.exitCode, 0) << noted.text;
  for (const std::string key : {"steps_per_print", "overlap_comm", "allgather_bucket_size"})
    EXPECT_EQ(noted.count(key + " has no effect here"), 1) << noted.text;
}

}  // namespace
}  // namespace tutti::parallel
