// `tutti plan-training`: what it says, what it refuses, and that docs/how-to/plan-a-training.md
// shows that. Arguments: the executable of tutti, the page.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/run_tutti.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_main.h"

namespace tutti::tools {
namespace {

using Json = nlohmann::json;
using launcher::contains;
using launcher::Result;
using launcher::runTutti;

std::string pagePath;
const tests::Arguments commandLine{{"TUTTI", &launcher::tuttiPath}, {"PAGE", &pagePath}};

Result planTraining(std::vector<std::string> options) {
  options.insert(options.begin(), "plan-training");
  return runTutti(options);
}

TEST(PlanTraining, RanksTheLayoutsThatFit) {
  const Result run = planTraining({"--model", "gpt2", "-n", "4", "--memory", "16G", "--batch", "8",
                                   "--json", "-", "--limit", "100"});
  ASSERT_EQ(run.exitCode, 0) << run.err;
  const Json plan = Json::parse(run.out);
  EXPECT_NEAR(plan["parameters"].get<double>(), 124e6, 1e6);
  ASSERT_GE(plan["layouts"].size(), 10u);
  double last = 0;
  for (const Json& row : plan["layouts"]) {
    EXPECT_GE(row["seconds"].get<double>(), last);
    last = row["seconds"];
    EXPECT_LE(row["bytes"].get<uint64_t>(), uint64_t{16} << 30);
    uint64_t bytes = 0;
    for (const auto& [kind, part] : row["memory"].items()) bytes += part.get<uint64_t>();
    EXPECT_EQ(bytes, row["bytes"].get<uint64_t>());
    double seconds = 0;
    for (const auto& [term, part] : row["terms"].items()) seconds += part.get<double>();
    EXPECT_NEAR(seconds, last, 1e-9 * last);
    EXPECT_FALSE(row["reason"].get<std::string>().empty());
  }
}

TEST(PlanTraining, SaysWhyNothingFits) {
  const Result run = planTraining({"--model", "llama-7b", "-n", "1", "--memory", "16G"});
  EXPECT_EQ(run.exitCode, 1);
  EXPECT_TRUE(contains(run.out, "No layout fits.")) << run.out;
  EXPECT_TRUE(contains(run.out, "too much; most of it optimizer")) << run.out;
}

TEST(PlanTraining, RefusesByName) {
  const auto refuses = [](std::vector<std::string> options, const std::string& words) {
    const Result run = planTraining(options);
    EXPECT_EQ(run.exitCode, 2) << words;
    EXPECT_TRUE(contains(run.err, words)) << run.err;
  };
  const std::vector<std::string> whole{"--model", "gpt2", "-n", "2", "--memory", "8G"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), whole.begin(), whole.end());
    return more;
  };
  refuses({"--model", "gpt9", "-n", "2", "--memory", "8G"}, "--model gpt9 is neither");
  refuses({"--model", "gpt2", "-n", "0", "--memory", "8G"}, "--devices");
  refuses({"--model", "gpt2", "-n", "2", "--memory", "much"}, "--memory");
  refuses({"--model", "gpt2", "-n", "2"}, "--memory");
  refuses(with({"--topology", "nowhere"}), "--topology nowhere");
  refuses(with({"--optimizer", "lion"}), "--optimizer lion");
  refuses(with({"--type", "float16"}), "--type: float16 is not bfloat16 or float32");
  refuses(with({"--type", ""}), "is not bfloat16 or float32");
  refuses(with({"--gradients", "int8"}), "--gradients int8");
  refuses(with({"--context", "2048"}), "--context 2048 is more than the 1024");
  refuses(with({"--batch", "0"}), "--batch");
  refuses(with({"--limit", "0"}), "--limit");
}

// A file may claim any number of tokens; what is planned takes memory for those of a sequence.
TEST(PlanTraining, AsksForAContextWhereTheModelHasTooLongAOne) {
  const tests::TemporaryFolder folder;
  std::ofstream(folder.path() / "config.json")
      << R"({"model_type":"llama","vocab_size":100,"max_position_embeddings":1000000000,)"
         R"("num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,"intermediate_size":64})";
  const std::vector<std::string> command{"--model", folder.path(), "-n", "2", "--memory", "8G"};
  const Result refused = planTraining(command);
  EXPECT_EQ(refused.exitCode, 2);
  EXPECT_TRUE(contains(refused.err, "--context is needed: ") &&
              contains(refused.err, " sees up to 1000000000 tokens"))
      << refused.err;
  std::vector<std::string> shorter = command;
  shorter.insert(shorter.end(), {"--context", "128"});
  EXPECT_EQ(planTraining(shorter).exitCode, 0);
}

/// What stands between ``` lines and begins with "$ tutti plan-training".
std::vector<std::string> blocksOfPage() {
  std::ifstream page(pagePath);
  std::vector<std::string> blocks;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) blocks.emplace_back();
    } else if (inside) {
      blocks.back() += line + "\n";
    }
  }
  std::erase_if(blocks, [](const auto& b) { return !b.starts_with("$ tutti plan-training"); });
  return blocks;
}

// Those that take long have a test of their own.
bool takesLong(const std::string& command) { return contains(command, "llama-405b"); }

int comparePage(bool longOnes) {
  int compared = 0;
  for (const std::string& block : blocksOfPage()) {
    const std::string command = block.substr(0, block.find('\n'));
    if (takesLong(command) != longOnes) continue;
    std::istringstream in(command.substr(std::string("$ tutti ").size()));
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    EXPECT_EQ(runTutti(words).out, block.substr(command.size() + 1)) << command;
    ++compared;
  }
  return compared;
}

TEST(PlanTraining, ThePageShowsWhatItPrints) { EXPECT_EQ(comparePage(false), 4); }

TEST(PlanTrainingLong, ThePageShowsWhatItPrints) { EXPECT_EQ(comparePage(true), 3); }

TEST(PlanTraining, LongSequencesAreSharedOut) {
  const Result run = planTraining({"--model", "llama-8b", "-n", "16", "--memory", "80G",
                                   "--context", "131072", "--batch", "2", "--json", "-"});
  ASSERT_EQ(run.exitCode, 0) << run.err;
  const Json plan = Json::parse(run.out);
  EXPECT_GT(plan["layouts"][0]["layout"]["mesh"].value("cp", 1), 1) << plan["layouts"][0];
}

}  // namespace
}  // namespace tutti::tools
