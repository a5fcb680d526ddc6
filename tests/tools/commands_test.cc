// The `tutti` command as people run it: what `tutti perf` prints for every collective, and that
// what it counts and what it returns agree; the plans that `tutti plan` shows.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/run_tutti.h"
#include "tests/support/test_main.h"

namespace tutti::launcher {
namespace {

const tests::Arguments commandLine{{"TUTTI", &tuttiPath}};

using Json = nlohmann::json;

std::vector<std::string> wordsOf(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// A file that is gone when the test ends.
class TemporaryFile {
 public:
  TemporaryFile()
      : path_(std::filesystem::temp_directory_path() /
              ("tutti_perf_" + std::to_string(getpid()) + ".jsonl")) {}
  ~TemporaryFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_; }
  std::vector<Json> json() const {
    std::vector<Json> all;
    std::ifstream in(path_);
    for (std::string line; std::getline(in, line);) all.push_back(Json::parse(line));
    return all;
  }

 private:
  std::filesystem::path path_;
};

struct Case {
  const char* collective;
  const char* op;    // as the table prints it
  const char* root;  // the same
  bool blocks;       // sizes are rounded down to whole blocks of all ranks
  double factor(int ranks) const {
    if (std::string(collective) == "all_reduce") return 2.0 * (ranks - 1) / ranks;
    return blocks ? (ranks - 1.0) / ranks : 1.0;
  }
};
constexpr Case kCases[] = {
    {"all_reduce", "sum", "-1", false},    {"all_gather", "none", "-1", true},
    {"reduce_scatter", "sum", "-1", true}, {"broadcast", "none", "0", false},
    {"reduce", "sum", "0", false},         {"barrier", "none", "-1", false},
};

class Perf : public testing::TestWithParam<int> {};

TEST_P(Perf, PrintsNcclTestsTable) {
  const int ranks = GetParam();
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.collective);
    TemporaryFile file;
    const Result run =
        runTutti({"perf", c.collective, "-n", std::to_string(ranks), "-b", "8", "-e", "64K", "-f",
                  "4", "--iters", "5", "-w", "1", "--json", file.path()});
    ASSERT_EQ(run.exitCode, 0) << run.err;
    EXPECT_EQ(run.err, "");
    const bool barrier = std::string(c.collective) == "barrier";
    uint64_t bytes = barrier ? 0 : 8;
    size_t rows = 0;
    std::string footer;
    const std::vector<Json> json = file.json();
    for (const std::string& line : lines(run.out)) {
      if (line.starts_with("#")) {
        if (line.find("Out of bounds") != std::string::npos) footer = line;
        continue;
      }
      const auto words = wordsOf(line);
      ASSERT_EQ(words.size(), 15u) << line;
      const uint64_t unit = 4 * (c.blocks ? static_cast<uint64_t>(ranks) : 1);
      EXPECT_EQ(words[0], std::to_string(bytes / unit * unit)) << line;
      EXPECT_EQ(words[1], std::to_string(bytes / unit)) << line;
      EXPECT_EQ(words[2], "float32");
      EXPECT_EQ(words[3], c.op);
      EXPECT_EQ(words[4], c.root);
      ASSERT_LT(rows, json.size());
      const Json& row = json[rows++];
      EXPECT_EQ(row["bytes"], bytes / unit * unit);
      EXPECT_EQ(row["ranks"], ranks);
      EXPECT_EQ(row["collective"], c.collective);
      for (const auto& [name, first] : {std::pair("out_of_place", 5), std::pair("in_place", 10)}) {
        const Json& timing = row[name];
        const double us = timing["median_us"], p99 = timing["p99_us"];
        EXPECT_GT(us, 0);
        EXPECT_GE(p99, us);
        EXPECT_NEAR(std::stod(words[first]), us, 0.0051) << line;
        EXPECT_NEAR(std::stod(words[first + 1]), p99, 0.0051) << line;
        const double algorithm = static_cast<double>(bytes / unit * unit) / us / 1e3;
        EXPECT_NEAR(timing["algbw_GBps"], algorithm, 1e-9 * algorithm);
        EXPECT_NEAR(timing["busbw_GBps"], algorithm * c.factor(ranks), 1e-9 * algorithm);
        EXPECT_EQ(timing["wrong"], 0);
        EXPECT_EQ(timing["iterations"], 5);
        EXPECT_EQ(words[first + 4], "0") << line;
      }
      bytes *= 4;
    }
    EXPECT_EQ(rows, barrier ? 1u : 7u) << run.out;
    EXPECT_EQ(json.size(), rows);
    EXPECT_EQ(footer, "# Out of bounds values : 0 OK");
    EXPECT_NE(run.out.find("# Avg bus bandwidth    : "), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Perf, testing::Values(1, 2, 3, 5));

TEST(PerfCommand, WithoutACheckSaysSo) {
  const Result run =
      runTutti({"perf", "all_reduce", "-n", "2", "-b", "8", "-e", "8", "-c", "0", "--iters", "1"});
  EXPECT_EQ(run.exitCode, 0) << run.err;
  EXPECT_NE(run.out.find("NOT CHECKED"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("N/A"), std::string::npos) << run.out;
}

TEST(PerfCommand, RefusesWithExitCodeTwoAndTheReason) {
  const Result run = runTutti({"perf", "all_reduce", "--root", "-1"});
  EXPECT_EQ(run.exitCode, 2);
  EXPECT_EQ(run.err, "tutti perf: --root -1 is not a rank\n");
  EXPECT_EQ(runTutti({"perf"}).exitCode, 2);
  EXPECT_EQ(runTutti({"perf", "--help"}).exitCode, 0);
}

TEST(PerfCommand, DrawsItsTable) {
  if (Command({"sh", "-c", "command -v gnuplot"}).wait().exitCode != 0)
    GTEST_SKIP() << "gnuplot is not installed (Debian's package gnuplot-nox)";
  const TemporaryFolder folder;
  const Result run = runTutti({"perf", "all_gather", "-n", "2", "-b", "8", "-e", "64K", "-f", "8",
                               "--iters", "1", "--plot", folder.path().string() + "/perf.svg"});
  EXPECT_EQ(run.exitCode, 0) << run.err;
  EXPECT_NE(run.out.find("values : 0 OK"), std::string::npos) << run.out;
  const std::string svg = folder.read("perf.svg");
  EXPECT_TRUE(svg.starts_with("<?xml")) << svg.substr(0, 80);
  EXPECT_NE(svg.find("</svg>"), std::string::npos);
  for (const char* text : {"all_gather of float32, 2 ranks", "time, us", "99th percentile",
                           "bus bandwidth, GB/s", "size, bytes", "median, in place"})
    EXPECT_NE(svg.find(std::string(">") + text + "<"), std::string::npos) << text;
  // Three curves of times and two of bandwidths, with a line each.
  for (const char* curve : {"plot_1a", "plot_2a", "plot_3a", "plot_1b", "plot_2b"}) {
    const size_t at = svg.find(std::string("id=\"gnuplot_") + curve);
    ASSERT_NE(at, std::string::npos) << curve;
    EXPECT_NE(svg.substr(at, svg.find("<g id=", at + 1) - at).find(" d='M"), std::string::npos)
        << curve;
  }
  const Result one = runTutti({"perf", "all_gather", "-n", "2", "-b", "8", "-e", "8", "--iters",
                               "1", "--plot", folder.path().string() + "/one.svg"});
  EXPECT_EQ(one.exitCode, 0);
  EXPECT_EQ(one.err, "");
  EXPECT_NE(folder.read("one.svg").find("</svg>"), std::string::npos);
}

TEST(PerfCommand, FailsBeforeItMeasuresWhenItsPlotCannotBeDrawn) {
  const TemporaryFolder folder;
  const auto plotOnPath = [&](const std::string& path, const std::string& file) {
    return Command({"env", "PATH=" + path, tuttiPath, "perf", "all_reduce", "-n", "2", "-b", "8",
                    "-e", "8", "--plot", file})
        .wait();
  };
  const Result missing = plotOnPath("/nowhere", folder.path().string() + "/perf.svg");
  EXPECT_EQ(missing.exitCode, 1);
  EXPECT_NE(missing.err.find("--plot needs gnuplot"), std::string::npos) << missing.err;
  EXPECT_EQ(missing.out, "");
  EXPECT_FALSE(std::filesystem::exists(folder.path().string() + "/perf.svg"));
  // One that is there, and is never called.
  std::filesystem::create_symlink("/bin/false", folder.path().string() + "/gnuplot");
  const Result lost = plotOnPath(folder.path().string(), "/nowhere/at/all.svg");
  EXPECT_EQ(lost.exitCode, 1);
  EXPECT_NE(lost.err.find("--plot /nowhere/at/all.svg"), std::string::npos) << lost.err;
  EXPECT_EQ(lost.out, "");
  // And one that fails, which is seen at the end.
  const Result failed = plotOnPath(folder.path().string(), folder.path().string() + "/perf.svg");
  EXPECT_EQ(failed.exitCode, 1);
  EXPECT_NE(failed.err.find("gnuplot failed"), std::string::npos) << failed.err;
  // And one whose picture the disk does not take.
  std::filesystem::remove(folder.path().string() + "/gnuplot");
  std::filesystem::create_symlink("/bin/echo", folder.path().string() + "/gnuplot");
  const Result full = plotOnPath(folder.path().string(), "/dev/full");
  EXPECT_EQ(full.exitCode, 1);
  EXPECT_NE(full.err.find("--plot /dev/full did not take the picture"), std::string::npos)
      << full.err;
}

TEST(PerfCommand, FailsBeforeItMeasuresWhenJsonCannotBeWritten) {
  const Result run = runTutti(
      {"perf", "all_reduce", "-n", "2", "-b", "8", "-e", "8", "--json", "/nowhere/at/all.jsonl"});
  EXPECT_EQ(run.exitCode, 1);
  EXPECT_NE(run.err.find("--json /nowhere/at/all.jsonl cannot be written"), std::string::npos)
      << run.err;
  EXPECT_EQ(run.out, "");
  const Result full =
      runTutti({"perf", "all_reduce", "-n", "2", "-b", "8", "-e", "8", "--json", "/dev/full"});
  EXPECT_EQ(full.exitCode, 1);
  EXPECT_NE(full.err.find("--json /dev/full did not take"), std::string::npos) << full.err;
}

TEST(PerfCommand, NamesVariablesThatCannotBe) {
  for (const char* variable :
       {"TUTTI_TIMEOUT_MS=0", "TUTTI_TIMEOUT_MS=1s", "TUTTI_SETUP_TIMEOUT_MS=-1",
        "TUTTI_STRAGGLER_MS=9223372036854775807", "TUTTI_DETERMINISTIC=2",
        "TUTTI_SLOT_BYTES=1000000000000", "TUTTI_LOG=loud", "TUTTI_ALGORITHM=bush"}) {
    const Result run = runTutti(
        {"run", "-n", "1", "env", variable, tuttiPath, "perf", "all_reduce", "-b", "8", "-e", "8"});
    EXPECT_EQ(run.exitCode, 1) << variable;
    const std::string name(variable, std::string(variable).find('='));
    const std::string value = std::string(variable).substr(name.size() + 1);
    EXPECT_NE(run.err.find(value), std::string::npos) << run.err;
    if (name != "TUTTI_ALGORITHM") {
      EXPECT_NE(run.err.find(variable), std::string::npos) << run.err;
    }
  }
}

TEST(PlanCommand, FailsWhenItsOutputIsLost) {
  const Result run = runTutti(
      {"run", "-n", "1", "sh", "-c", tuttiPath + " plan all_reduce -n 2 >/dev/full; echo code $?"});
  EXPECT_EQ(run.out, "[0] code 1\n");
  EXPECT_EQ(run.err, "[0] tutti: standard output could not be written\n");
}

TEST(PlanCommand, ShowsStepsAndAPicture) {
  const Result run = runTutti({"plan", "ring", "all_reduce", "-n", "2"});
  EXPECT_EQ(run.exitCode, 0) << run.err;
  EXPECT_EQ(
      run.out,
      R"(all_reduce ring simple, 2 ranks, 1 channel, divisions 2, message chunks 1, slots 2, in place, canonical order
rank 0
  lane 0, channel 0
    0: in 0 -> channel 1 chunk 0
    1: listed(channel 1 chunk 1, in 1) -> out 1, channel 1 chunk 1, completes
    2: channel 1 chunk 0 -> out 0
rank 1
  lane 0, channel 0
    0: in 1 -> channel 0 chunk 1
    1: listed(channel 0 chunk 0, in 0) -> out 0, channel 0 chunk 0, completes
    2: channel 0 chunk 1 -> out 1

all_reduce ring simple, 2 ranks, 1 channel, divisions 2, message chunks 1, slots 2, in place, canonical order
         0     1
step 1   o----->   0
         <-----o   1
step 2   o----->   1
         <-----o   0
)");
}

TEST(PlanCommand, WithoutAnAlgorithmSaysWhatWouldBeChosenAndWhy) {
  const Result run = runTutti({"plan", "all_reduce", "-n", "4", "-b", "4K", "--cores", "2"});
  EXPECT_EQ(run.exitCode, 0) << run.err;
  EXPECT_EQ(lines(run.out)[0], "4 ranks on 1 host, 2 cores, slots of 262144 bytes, oversubscribed");
  EXPECT_NE(run.out.find("all_reduce of 4096 uint8, sum: "), std::string::npos) << run.out;
  EXPECT_NE(run.out.find(" us  all_reduce ring simple, 4 ranks"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("\nrank 3\n"), std::string::npos) << run.out;
}

TEST(PlanCommand, WritesJsonAndSvg) {
  for (const char* algorithm : {"recursive", "two_shot", "mapped"}) {
    const Result run = runTutti({"plan", algorithm, "reduce", "-n", "5", "--root", "3", "--json"});
    EXPECT_EQ(run.exitCode, 0) << run.err;
    const Json json = Json::parse(run.out);
    EXPECT_EQ(json["spec"]["root"], 3);
    EXPECT_EQ(json["spec"]["protocol"], std::string(algorithm) == "mapped" ? "mapped" : "simple");
    EXPECT_EQ(json["programs"].size(), 5u);
  }
  const TemporaryFolder folder;
  const std::string file = folder.path().string() + "/plan.svg";
  const Result picture = runTutti({"plan", "barrier", "-n", "3", "--svg", file});
  EXPECT_EQ(picture.exitCode, 0) << picture.err;
  EXPECT_NE(picture.out.find("\nrank 2\n"), std::string::npos) << picture.out;
  const std::string svg = folder.read("plan.svg");
  EXPECT_TRUE(svg.starts_with("<svg")) << svg.substr(0, 80);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  for (const std::string wrong : {"/nowhere/at/all.svg", "/dev/full"}) {
    const Result lost = runTutti({"plan", "barrier", "-n", "3", "--svg", wrong});
    EXPECT_EQ(lost.exitCode, 1);
    EXPECT_EQ(lost.out, "");
    EXPECT_EQ(lost.err, "tutti plan: --svg " + wrong + " cannot be written\n");
  }
}

TEST(PlanCommand, PlacesRanksOnHosts) {
  const Result chosen = runTutti({"plan", "all_reduce", "-n", "8", "--hosts", "2x4", "-b", "64M"});
  EXPECT_EQ(chosen.exitCode, 0) << chosen.err;
  EXPECT_EQ(lines(chosen.out)[0],
            "8 ranks on 2 hosts, 4 cores each, slots of 131072 bytes in 4 channels; host of each "
            "rank: 0 0 0 0 1 1 1 1");
  EXPECT_TRUE(lines(chosen.out)[1].starts_with("all_reduce of 67108864 uint8, sum: hierarchical"))
      << lines(chosen.out)[1];
  EXPECT_NE(chosen.out.find("\nrank 7\n"), std::string::npos);
  EXPECT_NE(chosen.out.find("\nstep 4 "), std::string::npos);
  const Result uneven =
      runTutti({"plan", "hierarchical", "all_gather", "-n", "8", "--hosts", "3,1,4", "--json"});
  EXPECT_EQ(uneven.exitCode, 0) << uneven.err;
  EXPECT_EQ(Json::parse(uneven.out)["spec"]["hosts"], (std::vector<int>{0, 0, 0, 1, 2, 2, 2, 2}));
  const Result one = runTutti({"plan", "all_reduce", "-n", "2", "--hosts", "2", "-b", "1K"});
  EXPECT_EQ(one.exitCode, 0) << one.err;
  EXPECT_EQ(lines(one.out)[0], "2 ranks on 1 host, 2 cores, slots of 262144 bytes");
}

TEST(PlanCommand, RefusesByName) {
  const auto refusal = [](std::vector<std::string> words) {
    words.insert(words.begin(), "plan");
    const Result run = runTutti(words);
    EXPECT_EQ(run.exitCode, 2);
    EXPECT_EQ(run.out, "");
    return run.err;
  };
  EXPECT_EQ(refusal({"all_produce", "-n", "2"}),
            "tutti plan: there is no collective 'all_produce'\n");
  EXPECT_EQ(refusal({"reduce", "-n", "2", "--root", "2"}),
            "tutti plan: --root 2 is not a rank of 0..1\n");
  EXPECT_EQ(refusal({"ring", "barrier", "-n", "2"}),
            "tutti plan: algorithm ring does not exist for barrier on 2 ranks\n");
  EXPECT_EQ(refusal({"mapped", "barrier", "-n", "2"}),
            "tutti plan: algorithm mapped does not exist for barrier on 2 ranks\n");
  EXPECT_NE(refusal({"rings", "reduce", "-n", "2"}).find("\"rings\" is not ring"),
            std::string::npos);
  EXPECT_NE(refusal({"ring", "all_reduce", "-n", "4", "--deterministic"}).find("canonical order"),
            std::string::npos);
  EXPECT_NE(refusal({"reduce"}).find("--ranks"), std::string::npos);
  EXPECT_EQ(refusal({"hierarchical", "all_reduce", "-n", "4"}),
            "tutti plan: algorithm hierarchical does not exist for all_reduce on 4 ranks of one "
            "host\n");
  EXPECT_EQ(refusal({"mapped", "all_reduce", "-n", "4", "--hosts", "2x2"}),
            "tutti plan: algorithm mapped does not exist for all_reduce on 4 ranks of several "
            "hosts\n");
  for (const std::string hosts : {"2x4", "3,1,4", "2x", "2,", ",2", "x4", "4x0", "0", "2x2x", "2 2",
                                  "99999999999999999999", "4,4294967296"})
    EXPECT_TRUE(refusal({"all_reduce", "-n", "4", "--hosts", hosts})
                    .starts_with("tutti plan: --hosts " + hosts + " "))
        << hosts;
}

}  // namespace
}  // namespace tutti::launcher
