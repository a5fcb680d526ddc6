// What the flags and errors of all commands have in common, as people see it.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/run_tutti.h"
#include "tests/support/test_main.h"

namespace tutti::launcher {
namespace {

const tests::Arguments commandLine{{"TUTTI", &tuttiPath}};

using Json = nlohmann::json;
using Words = std::vector<std::string>;

/// Commands with --json that need nothing but a moment.
const std::vector<Words> kWithJson{
    {"perf", "all_reduce", "-n", "2", "-b", "8", "-e", "8", "--iters", "1"},
    {"plan", "ring", "all_reduce", "-n", "2"},
    {"explain", "all_reduce", "-n", "2"},
    {"simulate", "all_reduce", "-n", "8", "--size", "1K", "--topology", "h100-8"},
    {"shard", "A[I,Jx] B[J,K] -> C[I,K]", "--mesh", "x=2", "--sizes", "I=8,J=8,K=8"},
    {"schedule", "1f1b", "-p", "2", "-m", "2"},
    {"plan-training", "--model", "gpt2", "-n", "1", "--memory", "80G", "--batch", "1"},
    {"topo", "-n", "1"},
    {"doctor", "-n", "1"},
};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Each line an object.
void expectJson(const std::string& text, const std::string& what) {
  EXPECT_NE(text, "") << what;
  for (const std::string& line : lines(text))
    EXPECT_TRUE(Json::accept(line) && Json::parse(line).is_object()) << what << ": " << line;
}

TEST(Flags, JsonGoesToAFileBesideTheTextOrAloneToStandardOutput) {
  for (const Words& command : kWithJson) {
    const TemporaryFolder folder;
    const std::string file = folder.path() / "out.json";
    const Result both = runTutti(with(command, {"--json", file}));
    EXPECT_FALSE(both.out.empty() || Json::accept(lines(both.out)[0])) << command[0];
    expectJson(folder.read("out.json"), command[0]);
    EXPECT_FALSE(std::filesystem::exists("-")) << command[0];
    const Result alone = runTutti(with(command, {"--json", "-"}));
    EXPECT_EQ(alone.exitCode, both.exitCode) << command[0] << alone.err;
    expectJson(alone.out, command[0]);
  }
}

TEST(Flags, JsonWithoutAFileIsRefusedBehindTheProgramsName) {
  for (const Words& command : kWithJson) {
    const Result bare = runTutti(with(command, {"--json"}));
    EXPECT_EQ(bare.exitCode, 2) << command[0];
    EXPECT_EQ(bare.out, "") << command[0];
    EXPECT_EQ(bare.err, "tutti " + command[0] +
                            ": --json needs a FILE; - is standard output (tutti " + command[0] +
                            " --help shows the flags)\n");
    const Result empty = runTutti(with(command, {"--json", ""}));
    EXPECT_EQ(empty.exitCode, 2) << command[0] << empty.err;
  }
}

TEST(Flags, OneFileIsStandardOutput) {
  const Result run =
      runTutti({"plan", "ring", "all_reduce", "-n", "2", "--json", "-", "--svg", "-"});
  EXPECT_EQ(run.exitCode, 2);
  EXPECT_TRUE(contains(run.err, "--json and --svg cannot both be standard output")) << run.err;
  const Result svg = runTutti({"plan", "ring", "all_reduce", "-n", "2", "--svg", "-"});
  EXPECT_TRUE(svg.out.starts_with("<svg") && svg.out.ends_with("</svg>\n")) << svg.out;
  const Result lost = Command({"sh", "-c", tuttiPath + " topo --json - > /dev/full"}).wait();
  EXPECT_EQ(lost.exitCode, 1);
  EXPECT_EQ(lost.err, "tutti topo: --json - cannot be written: No space left on device\n");
}

TEST(Flags, AreProposedWhereOneIsNearlyRight) {
  const auto refusal = [](const Words& words) {
    const Result run = runTutti(words);
    EXPECT_EQ(run.exitCode, 2) << run.err;
    EXPECT_EQ(run.out, "");
    return run.err;
  };
  EXPECT_EQ(refusal({"topo", "--jsn", "x"}),
            "tutti topo: there is no flag --jsn; did you mean --json? (tutti topo --help shows the "
            "flags)\n");
  EXPECT_TRUE(
      contains(refusal({"perf", "--waarmup=3"}), "no flag --waarmup; did you mean --warmup?"));
  EXPECT_TRUE(contains(refusal({"perf", "all_reduce", "--colour"}), "no flag --colour ("));
  EXPECT_TRUE(contains(refusal({"perf", "all_reduce", "--memory", "windo"}),
                       "windo is not window or ordinary; did you mean window?"));
  EXPECT_TRUE(contains(refusal({"topo", "everything"}), "'everything' is one word too many"));
  EXPECT_TRUE(refusal({"prf"}).starts_with("tutti: there is no command prf; did you mean perf?\n"));
  EXPECT_TRUE(refusal({"dance"}).starts_with("tutti: there is no command dance\n"));
  const Result other = Command({besideTutti("all_reduce_perf"), "--datatyp", "int8"}).wait();
  EXPECT_TRUE(other.err.starts_with(
      "all_reduce_perf: there is no flag --datatyp; did you mean --datatype?"))
      << other.err;
  const Result type = Command({besideTutti("all_reduce_perf"), "-d", "flot"}).wait();
  EXPECT_TRUE(type.err.starts_with("all_reduce_perf: -d flot does not exist: int8, uint8, ") &&
              type.err.ends_with(" or all; did you mean float?\n"))
      << type.err;
}

TEST(Flags, HaveTheirDefaultsInTheHelp) {
  const auto help = [](const std::string& command) { return runTutti({command, "--help"}).out; };
  for (const char* flag :
       {"--type TEXT=float32", "--maxbytes TEXT=32M", "--warmup INT:INT in [0 - 100000]=5",
        "--memory TEXT:{window,ordinary}=window", "--device TEXT=host"})
    EXPECT_TRUE(contains(help("perf"), flag)) << flag;
  EXPECT_TRUE(contains(help("explain"), "--count TEXT=1M"));
  EXPECT_TRUE(contains(help("schedule"), "--costs F,B,W=1,1,1"));
  EXPECT_TRUE(contains(help("tune"), "--turns INT:INT in [1 - 1000]="));
  // What has none shows none.
  EXPECT_TRUE(contains(help("perf"), "--ranks INT:INT in [1 - 4096]\n"));
  EXPECT_TRUE(contains(help("schedule"), "--ranks INT:INT in [1 - 128] REQUIRED\n"));
}

Words cellsOf(const std::string& line) {
  Words cells;
  std::istringstream in(line + ",");
  for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
  return cells;
}

TEST(PerfCsv, SaysWhatRan) {
  for (const auto& [flags, algorithm, protocol] :
       {std::tuple{Words{"--algo", "ring"}, "ring", "simple"},
        {Words{"--algo", "two_shot"}, "two_shot", "simple"},
        {Words{"--algo", "mapped"}, "two_shot", "mapped"}}) {
    const Result run = runTutti(with({"perf", "all_reduce", "-n", "2", "-b", "4K", "-e", "16K",
                                      "-f", "4", "--iters", "3", "--repeat", "2", "--csv", "-"},
                                     flags));
    EXPECT_EQ(run.exitCode, 0) << run.err;
    const Words rows = lines(run.out);
    ASSERT_EQ(rows.size(), 5u) << run.out;
    const Words titles = cellsOf(rows[0]);
    for (size_t i = 1; i < rows.size(); ++i) {
      const Words cells = cellsOf(rows[i]);
      ASSERT_EQ(cells.size(), titles.size()) << rows[i];
      const auto cell = [&](const std::string& title) {
        return cells[static_cast<size_t>(std::find(titles.begin(), titles.end(), title) -
                                         titles.begin())];
      };
      EXPECT_EQ(cell("collective"), "all_reduce");
      EXPECT_EQ(cell("ranks"), "2");
      EXPECT_EQ(cell("bytes"), i < 3 ? "4096" : "16384");
      EXPECT_EQ(cell("in_place"), i % 2 == 0 ? "1" : "0");
      EXPECT_EQ(cell("algorithm"), algorithm) << rows[i];
      EXPECT_EQ(cell("protocol"), protocol) << rows[i];
      EXPECT_EQ(cell("wrong"), "0");
      EXPECT_EQ(cell("iterations"), "6");
      EXPECT_EQ(cell("repetitions"), "2");
      EXPECT_GT(std::stod(cell("time_us")), 0);
    }
    EXPECT_TRUE(contains(run.err, "# Out of bounds values : 0 OK")) << run.err;
  }
  const Result exchange = runTutti({"perf", "sendrecv", "-n", "2", "-b", "8", "-e", "8", "--iters",
                                    "1", "-c", "0", "--csv", "-"});
  ASSERT_EQ(lines(exchange.out).size(), 2u) << exchange.out << exchange.err;
  EXPECT_TRUE(contains(lines(exchange.out)[1], ",exchange,,,,1,1")) << exchange.out;
}

TEST(PerfCompareCommand, ReadsWhatPerfWrites) {
  const TemporaryFolder folder;
  const std::string a = folder.path() / "a", b = folder.path() / "b";
  const Words perf{"perf", "all_gather", "-n", "2", "-b",      "64",
                   "-e",   "1K",         "-f", "4", "--iters", "2"};
  ASSERT_EQ(runTutti(with(perf, {"--repeat", "3", "--json", a})).exitCode, 0);
  ASSERT_EQ(runTutti(with(perf, {"--repeat", "3", "--json", b})).exitCode, 0);
  const Result run = runTutti({"perf", "--compare", a, b});
  EXPECT_EQ(run.exitCode, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "in the geometric mean of 6 rows\n")) << run.out;
  EXPECT_FALSE(contains(run.out, "only in")) << run.out;
  const Result measured = runTutti({"perf", "--compare", a, b, "--iters", "3"});
  EXPECT_EQ(measured.exitCode, 2);
  EXPECT_EQ(measured.err, "tutti perf: --compare measures nothing: not with --iters\n");
  EXPECT_EQ(runTutti({"perf", "--compare", a}).exitCode, 2);
  if (Command({"sh", "-c", "command -v gnuplot"}).wait().exitCode != 0)
    GTEST_SKIP() << "gnuplot is not installed (Debian's package gnuplot-nox)";
  const std::string svg = folder.path() / "c.svg";
  EXPECT_EQ(runTutti({"perf", "--compare", a, b, "--plot", svg}).exitCode, 0);
  EXPECT_TRUE(contains(folder.read("c.svg"), "ratio of times"))
      << folder.read("c.svg").substr(0, 99);
}

TEST(ExplainJson, SaysWhatTheTextSays) {
  const Words command{"explain", "all_reduce", "-n", "8", "--cores", "2", "--count", "1M"};
  const std::string text = runTutti(command).out;
  const Json json = Json::parse(runTutti(with(command, {"--json", "-"})).out);
  EXPECT_EQ(json["ranks"], 8);
  EXPECT_EQ(json["block_bytes"], 4 << 20);
  EXPECT_TRUE(contains(text, json["topology"].get<std::string>() + "\n"));
  EXPECT_TRUE(contains(text, json["reason"].get<std::string>() + "\n"));
  int chosen = 0;
  for (const Json& row : json["algorithms"]) {
    chosen += row["chosen"].get<bool>();
    std::ostringstream predicted;
    predicted << std::fixed << std::setprecision(2) << row["predicted_us"].get<double>();
    EXPECT_TRUE(contains(text, " " + predicted.str() + " ")) << row;
    EXPECT_TRUE(row["measured_us"].is_null()) << row;
  }
  EXPECT_GE(chosen, 1);
  EXPECT_GE(json["algorithms"].size(), 5u);
  EXPECT_TRUE(json["ranges"].back()["most_bytes"].is_null());
  EXPECT_GE(json["ranges"].size(), 2u);
  EXPECT_TRUE(json["called_us"].is_null());
}

}  // namespace
}  // namespace tutti::launcher
