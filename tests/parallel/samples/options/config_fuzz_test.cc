// Files that people hand to a training, fed with seeded mutations of good ones: flags in TOML, a
// configuration of DeepSpeed, and the lines of a run that goes on. Any bytes are taken, or refused
// by file and line (TOML) or file and key (JSON); the sanitizers see the rest. With the argument
// "long" many more of them.

#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <regex>
#include <sstream>
#include <string>

#include "parallel/checkpoint/json.h"
#include "parallel/samples/options/deepspeed_config.h"
#include "parallel/samples/reports/progress.h"
#include "parallel/samples/train_gpt/train_options.h"
#include "parallel/tensor/check.h"
#include "tests/support/leftovers.h"
#include "tests/support/mutator.h"
#include "tests/support/outcome.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_main.h"

namespace tutti::parallel {
namespace {

bool isLong = false;
const tests::Arguments commandLine{{"[long]", &isLong}};
int casesOfAFile() { return isLong ? 60'000 : 1500; }

constexpr const char* kToml = R"(# a run
text = "x"
dp = 2
pp = 2
stages = [3, 1]
schedule = 'zb-h1'
lr = 2.5e-3
deterministic = true
offload = ["optimizer"]
seed = 7
prompt = """
of two
lines"""
steps = 0x10
clip = 0.5
)";
constexpr const char* kDeepSpeed = R"({"train_batch_size": 16, "gradient_clipping": 1.0,
 "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "betas": [0.9, 0.99], "weight_decay": 0.1}},
 "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e4, "overlap_comm": true,
                       "offload_optimizer": {"device": "nvme", "nvme_path": "f"}},
 "fp16": {"enabled": true, "initial_scale_power": 12, "loss_scale_window": 50, "hysteresis": 2}})";

class ConfigFuzz : public testing::Test {
 protected:
  /// `take` gets the file with changes, and says "" where it took them.
  void run(const std::string& good, const std::function<std::string()>& take,
           const std::function<bool(const std::string&)>& isNamed) {
    int accepted = 0, refused = 0;
    const auto* data = reinterpret_cast<const std::byte*>(good.data());
    for (int i = 0; i < casesOfAFile(); ++i) {
      const base::Bytes changed = mutator_.mutate(base::Bytes(data, data + good.size()));
      setFile(changed);
      const std::string refusal = take();
      refusal.empty() ? ++accepted : ++refused;
      if (refusal.empty()) continue;
      ASSERT_TRUE(isNamed(refusal)) << refusal << "\nof\n" << bytes_;
    }
    EXPECT_GT(accepted, casesOfAFile() / 100) << "no input is good: the test tests nothing";
    EXPECT_GT(refused, casesOfAFile() / 100) << "no input is bad: the test tests nothing";
    std::cout << accepted << " accepted, " << refused << " refused\n";
  }

  /// A new one: some file systems write the bytes of a file that was truncated to the disk.
  void setFile(const base::Bytes& bytes) {
    bytes_.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    std::filesystem::remove(file_);
    tests::setContents(file_, bytes_);
  }

  tests::Mutator mutator_{tests::testSeed()};
  tests::TemporaryFolder folder_;
  const std::string file_ = folder_.path() / "file";
  std::string bytes_;
};

/// What train_gpt prints about its flags; "" if it takes them.
std::string refusalOfFlags(const std::vector<std::string>& flags) {
  std::vector<std::string> words = flags;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  TrainOptions options;
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  const std::optional<int> exitCode =
      parse(static_cast<int>(arguments.size()), arguments.data(), options);
  const std::string printed = testing::internal::GetCapturedStderr();
  testing::internal::GetCapturedStdout();
  EXPECT_TRUE(!exitCode || exitCode == 2) << *exitCode;
  return exitCode ? printed + "." : "";
}

TEST_F(ConfigFuzz, Toml) {
  int byLine = 0;
  run(
      kToml,
      [&] {
        return refusalOfFlags({"train_gpt", "--config", file_});
      },
      [&](const std::string& refusal) {
        if (refusal.find(file_ + ", line ") != std::string::npos) return ++byLine > 0;
        // Flags that are good each, and not together; what is about one of them is "--lr: ...".
        return refusal.find(file_) == std::string::npos &&
               !std::regex_search(refusal, std::regex("^--[a-z-]+: "));
      });
  EXPECT_GT(byLine, casesOfAFile() / 10);
}

TEST_F(ConfigFuzz, DeepSpeed) {
  run(
      kDeepSpeed,
      [&] {
        const tests::Outcome outcome = tests::outcomeOf([&] { readDeepSpeedConfig(file_); });
        if (outcome.text == "no error") return std::string();
        EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument) << outcome.text;
        return outcome.text;
      },
      [&](const std::string& refusal) { return refusal.find(file_) != std::string::npos; });
}

// Lines up to a step stay as they are, whatever they say of it; nothing else does.
// A file that does not begin with one is another file: it is refused, and stays.
TEST_F(ConfigFuzz, LinesOfARun) {
  constexpr int kSteps = 9, kLast = 6;
  std::string good;
  for (int step = 1; step <= kSteps; ++step)
    good += message("{\"step\":", step, ",\"loss\":", 4.0 / step, "}\n");
  TrainOptions options;
  options.json = file_;
  options.resume = true;
  int whole = 0, less = 0, refused = 0;
  const auto* data = reinterpret_cast<const std::byte*>(good.data());
  for (int i = 0; i < casesOfAFile(); ++i) {
    const base::Bytes changed = mutator_.mutate(base::Bytes(data, data + good.size()));
    setFile(changed);
    const tests::Outcome outcome =
        tests::outcomeOf([&] { TrainingProgress(options, true).resumed(kLast); });
    if (outcome.text != "no error") {
      ASSERT_EQ(outcome.code, ErrorCode::InvalidArgument) << outcome.text;
      ASSERT_FALSE(bytes_.starts_with("{\"step\":")) << bytes_;
      ASSERT_EQ(tests::contentsOf(file_), bytes_);
      ++refused;
      continue;
    }
    const std::string kept = tests::contentsOf(file_);
    ASSERT_TRUE(bytes_.starts_with(kept)) << bytes_;
    ASSERT_TRUE(kept.empty() || kept.back() == '\n') << kept;
    std::istringstream lines(kept);
    for (std::string line; std::getline(lines, line);)
      ASSERT_LE(Json::parse(line).at("step").get<int64_t>(), kLast) << kept;
    kept == good.substr(0, good.find("{\"step\":7")) ? ++whole : ++less;
  }
  EXPECT_GT(whole, 0);
  EXPECT_GT(less, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace tutti::parallel
