// compare_strategies as its user meets it: every strategy learns the same, holds what was planned
// (the sample itself refuses to go on otherwise), and is in the table. The folder of the programs
// is the argument.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/parallel/sample_output.h"

namespace tutti::parallel {
namespace {

using Json = nlohmann::json;

std::string programs;

Output compare(const std::string& flags) {
  return runProgram(programs + "/compare_strategies --layers 8 --width 32 --context 16 " + flags);
}

TEST(CompareStrategies, AllLearnTheSame) {
  const Output output = compare("--ranks 4 --steps 6 --json");
  ASSERT_EQ(output.exitCode, 0) << output.text;
  std::set<std::string> strategies;
  double loss = 0;
  std::istringstream lines(output.text);
  for (std::string line; std::getline(lines, line);) {
    const Json row = Json::parse(line);
    if (strategies.empty()) loss = row["loss"];
    strategies.insert(row["strategy"]);
    EXPECT_NEAR(row["loss"].get<double>(), loss, 1e-5) << line;
    EXPECT_GE(row["predicted_bytes"].get<uint64_t>(), row["bytes"].get<uint64_t>())
        << "no rank holds more than that of which the prediction is: " << line;
    EXPECT_GT(row["seconds"].get<double>(), 0) << line;
    EXPECT_GT(row["predicted_seconds"].get<double>(), 0) << line;
    uint64_t bytes = 0;
    for (const auto& [kind, part] : row["memory"].items()) bytes += part.get<uint64_t>();
    EXPECT_EQ(bytes, row["bytes"].get<uint64_t>()) << line;
  }
  EXPECT_EQ(strategies.size(), 20u) << output.text;
  for (const char* name : {"DDP", "ZeRO-1", "FSDP", "TP with SP", "PP zb-v", "PP x TP"})
    EXPECT_TRUE(strategies.contains(name)) << name;
}

// Of one run on a quiet machine: times of one run are comparable with each other only.
TEST(CompareStrategies, ThePlannersFirstChoiceWasNearlyTheFastest) {
  std::ifstream file(TUTTI_MEASURED_STRATEGIES);
  std::vector<Json> rows;
  for (std::string line; std::getline(file, line);) rows.push_back(Json::parse(line));
  ASSERT_EQ(rows.size(), 20u);
  const auto by = [](const char* key) {
    return [key](const Json& row) { return row[key].get<double>(); };
  };
  const Json first = *std::ranges::min_element(rows, {}, by("predicted_seconds"));
  const Json fastest = *std::ranges::min_element(rows, {}, by("seconds"));
  EXPECT_LE(first["seconds"].get<double>(), 1.3 * fastest["seconds"].get<double>()) << first;
}

TEST(CompareStrategies, MakesTables) {
  const Output markdown = compare("--ranks 2 --steps 2 --markdown");
  EXPECT_EQ(markdown.exitCode, 0) << markdown.text;
  EXPECT_EQ(markdown.count("| strategy | rank 0 holds"), 1) << markdown.text;
  EXPECT_EQ(markdown.count("| DDP | "), 1) << markdown.text;
  const Output alone = compare("--ranks 1 --steps 2");
  EXPECT_EQ(alone.exitCode, 0) << alone.text;
  EXPECT_EQ(compare("--ranks 4 --device dry").exitCode, 0);
}

}  // namespace
}  // namespace tutti::parallel

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) return 2;
  tutti::parallel::programs = argv[1];
  return RUN_ALL_TESTS();
}
