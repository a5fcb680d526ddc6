// `tutti simulate` as people run it. Arguments: the executable of tutti, and
// docs/reference/commands.md.

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/run_tutti.h"
#include "tests/support/test_main.h"

namespace tutti::launcher {
namespace {

using Json = nlohmann::json;

std::string pagePath;  // docs/reference/commands.md
const tests::Arguments commandLine{{"TUTTI", &tuttiPath}, {"PAGE", &pagePath}};

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> all;
  for (std::string word; in >> word;) all.push_back(word);
  return all;
}

Result simulate(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "simulate");
  return runTutti(arguments);
}

std::vector<Json> jsonLines(const std::string& text) {
  std::vector<Json> all;
  for (const std::string& line : lines(text)) all.push_back(Json::parse(line));
  return all;
}

TEST(SimulateCommand, PrintsARowForEachAlgorithm) {
  const TemporaryFolder folder;
  const Result run = simulate({"all_reduce", "--size", "1001,1M", "--ranks", "8,20,64",
                               "--topology", "h100-8", "--json", folder.path().string() + "/rows"});
  ASSERT_EQ(run.exitCode, 0) << run.err;
  EXPECT_EQ(run.err, "");
  const std::vector<Json> rows = jsonLines(folder.read("rows"));
  // Hierarchical needs several hosts.
  ASSERT_EQ(rows.size(), 2U * (5 + 6 + 6));
  std::map<std::pair<int, uint64_t>, double> fastest;
  for (const Json& row : rows) {
    auto& time = fastest.try_emplace({row["ranks"], row["bytes"]}, 1e300).first->second;
    time = std::min<double>(time, row["us"]);
  }
  EXPECT_EQ(fastest.size(), 6U);
  size_t next = 0;
  for (const std::string& line : lines(run.out)) {
    if (line.starts_with("#")) continue;
    ASSERT_LT(next, rows.size());
    const Json& row = rows[next++];
    SCOPED_TRACE(line);
    const bool best = row["us"] == (fastest[{row["ranks"], row["bytes"]}]);
    EXPECT_EQ(row["fastest"], best);
    const std::vector<std::string> shown = words(line);
    ASSERT_EQ(shown.size(), 10U);
    EXPECT_EQ(shown[0], row["ranks"].dump());
    EXPECT_EQ(shown[1], row["bytes"].dump());
    EXPECT_EQ(shown[2], (best ? "*" : "") + row["algorithm"].get<std::string>());
    const double us = row["us"], bytes = row["bytes"], ranks = row["ranks"];
    EXPECT_NEAR(std::stod(shown[3]), us, 0.01);
    EXPECT_NEAR(std::stod(shown[4]), bytes / us / 1e3, 1e-3);
    EXPECT_NEAR(std::stod(shown[5]), bytes / us / 1e3 * 2 * (ranks - 1) / ranks, 1e-3);
    const double latency = row["latency_bound_us"], bandwidth = row["bandwidth_bound_us"];
    EXPECT_NEAR(std::stod(shown[6]), latency, 0.01);
    EXPECT_NEAR(std::stod(shown[7]), bandwidth, 0.01);
    EXPECT_NEAR(std::stod(shown[8]), us / std::max(latency, bandwidth), 0.01);
    EXPECT_GE(std::stod(shown[8]), 1);
    EXPECT_EQ(shown[9], row["ranks_walked"].dump());
  }
  EXPECT_EQ(next, rows.size());
  EXPECT_EQ(rows[0]["bytes"], 1000);
  EXPECT_EQ(rows.back()["bytes"], 1 << 20);
  EXPECT_EQ(rows.back()["algorithm"], "hierarchical");
  EXPECT_EQ(rows.back()["ranks_walked"], 8);
}

TEST(SimulateCommand, CountsSizesAsPerfDoes) {
  const TemporaryFolder folder;
  for (const std::string collective : {"all_gather", "reduce_scatter", "alltoall", "gather"}) {
    const Result run =
        simulate({collective, "--size", "1001", "-n", "9", "--type", "float64", "--topology",
                  "a100-8", "--json", folder.path().string() + "/rows"});
    ASSERT_EQ(run.exitCode, 0) << run.err;
    // 13 elements to a block.
    EXPECT_EQ(jsonLines(folder.read("rows"))[0]["bytes"], 9 * 13 * 8) << collective;
  }
  const Result barrier = simulate({"barrier", "-n", "16", "--topology", "a100-8"});
  EXPECT_EQ(barrier.exitCode, 0) << barrier.err;
  EXPECT_EQ(lines(barrier.out).size(), 5U + 4);
  const Result alone = simulate({"barrier", "-n", "1", "--topology", "a100-8"});
  EXPECT_EQ(alone.exitCode, 0) << alone.err;
  EXPECT_FALSE(contains(alone.out, "nan")) << alone.out;
}

TEST(SimulateCommand, SaysWhatItSkips) {
  const TemporaryFolder folder;
  const Result run = simulate({"alltoall", "--size", "1G", "-n", "16384", "--topology", "h100-8",
                               "--algo", "pairwise", "--json", folder.path().string() + "/rows"});
  ASSERT_EQ(run.exitCode, 0) << run.err;
  const std::string reason = "more than 30000000 operands of steps, and no two ranks are alike";
  EXPECT_NE(run.out.find(" pairwise       skipped: " + reason + "\n"), std::string::npos)
      << run.out;
  const std::vector<Json> rows = jsonLines(folder.read("rows"));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["skipped"], reason);
  EXPECT_FALSE(rows[0].contains("us"));
}

TEST(SimulateCommand, TakesFilesWhoseNamesAreNoUtf8) {
  const TemporaryFolder folder;
  const std::string name = folder.path().string() + "/h\xF6st\x1B.json";
  std::ofstream(name) << R"({"ranks_per_host": 8})";
  const Result refused = simulate({"scan", "-n", "8", "--topology", name});
  EXPECT_TRUE(contains(refused.err, "/h?st?.json: there is no inside\n")) << refused.err;
  std::filesystem::copy_file(
      std::filesystem::path(pagePath).parent_path() / "../../src/tools/topologies/h100-8.json",
      name, std::filesystem::copy_options::overwrite_existing);
  const Result run = simulate({"all_reduce", "-n", "8", "--algo", "ring", "--topology", name,
                               "--json", folder.path().string() + "/rows"});
  ASSERT_EQ(run.exitCode, 0) << run.err;
  const std::vector<Json> rows = jsonLines(folder.read("rows"));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_TRUE(contains(rows[0]["topology"].get<std::string>(), "h\xEF\xBF\xBDst")) << rows[0];
}

TEST(SimulateCommand, RefusesByName) {
  const TemporaryFolder folder;
  std::ofstream(folder.path().string() + "/wrong.json") << "{\"ranks_per_host\": 8}";
  const auto refusal = [](std::vector<std::string> arguments, int exitCode = 2) {
    const Result run = simulate(std::move(arguments));
    EXPECT_EQ(run.exitCode, exitCode);
    EXPECT_EQ(run.out, "");
    return run.err;
  };
  EXPECT_EQ(refusal({"scan", "-n", "8", "--topology", folder.path().string() + "/wrong.json"}),
            "tutti simulate: " + folder.path().string() + "/wrong.json: there is no inside\n");
  EXPECT_TRUE(contains(refusal({"scan", "-n", "8", "--topology", "b100-8"}),
                       "/share/tutti/topologies: a100-8, h100-8, h100-8-one-nic, h100-8-pods; did "
                       "you mean a100-8?\n"));
  EXPECT_EQ(refusal({"all_reduce", "-n", "16,8", "--topology", "h100-8", "--algo", "hierarchical"}),
            "tutti simulate: --algo hierarchical does not exist for all_reduce on 8 ranks of one "
            "host\n");
  EXPECT_EQ(
      refusal({"scan", "-n", "8", "--topology", "h100-8", "--json", folder.path().string()}, 1),
      "tutti simulate: --json " + folder.path().string() + " cannot be written: Is a directory\n");
  EXPECT_TRUE(contains(refusal({"scan", "--topology", "h100-8"}), "--ranks"));
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Sanitizers take more memory than any limit that would say something, and ten times as long.
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

/// Where the docs show these rows, they are the ones that were printed.
void expectShown(const std::string& topology, const std::string& output) {
  std::ifstream in(pagePath);
  std::string line;
  const std::string command =
      "$ tutti simulate all_reduce --size 1G --ranks 100000 --topology " + topology;
  while (std::getline(in, line) && line != command) continue;
  ASSERT_EQ(!in, topology != "h100-8") << command;
  if (!in) return;
  std::vector<std::string> shown, printed;
  while (std::getline(in, line) && line != "```") shown.push_back(line);
  for (const std::string& row : lines(output))
    if (!row.starts_with("#")) printed.push_back(row);
  EXPECT_EQ(shown, printed);
}

class HundredThousandRanks : public testing::TestWithParam<std::string> {};

// In 8 GiB and a minute of one core.
TEST_P(HundredThousandRanks, TakeAMinuteAtMost) {
  const std::string ranks = kSanitized ? "8000" : "100000",
                    limit = kSanitized ? "" : "ulimit -v 8388608 && ulimit -t 60 && ";
  const TemporaryFolder folder;
  const std::string file = folder.path().string() + "/rows";
  Command run({"sh", "-c",
               limit + "exec '" + tuttiPath + "' simulate all_reduce --size 1G --ranks " + ranks +
                   " --topology " + GetParam() + " --json '" + file + "'"});
  const Result result = run.wait();
  ASSERT_EQ(result.exitCode, 0) << result.err;
  std::map<std::string, Json> rows;
  for (const Json& row : jsonLines(folder.read("rows"))) rows[row["algorithm"]] = row;
  const bool pods = GetParam() == "h100-8-pods";
  for (const std::string algorithm :
       {"ring", "double_tree", "recursive", "one_shot", "two_shot", "hierarchical"}) {
    ASSERT_TRUE(rows.contains(algorithm)) << result.out;
    const Json& row = rows[algorithm];
    // For 32 ranks of a pod these would take minutes.
    if (pods && !kSanitized && (algorithm == "recursive" || algorithm == "one_shot"))
      EXPECT_TRUE(contains(row.value("skipped", ""), "more than 40000000 steps of ")) << algorithm;
    else
      EXPECT_GT(row.value("us", 0.0), row["bandwidth_bound_us"]) << algorithm;
  }
  for (const char* algorithm : {"ring", "one_shot", "two_shot", "hierarchical"}) {
    if (rows[algorithm].contains("skipped")) continue;
    EXPECT_EQ(rows[algorithm]["ranks_walked"], pods ? 32 : 8) << algorithm;
  }
  if (!kSanitized) expectShown(GetParam(), result.out);
}
INSTANTIATE_TEST_SUITE_P(Files, HundredThousandRanks, testing::Values("h100-8"));
INSTANTIATE_TEST_SUITE_P(LongFiles, HundredThousandRanks,
                         testing::Values("a100-8", "h100-8-one-nic", "h100-8-pods"));

}  // namespace
}  // namespace tutti::launcher
