// `tutti perf` as people run it: what it prints for every collective, and that what it counts and
// what it returns agree.

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

// Each of a launcher's ranks would start a job of its own.
TEST(PerfCommand, StartsNoRanksInALaunchersRank) {
  const std::vector<std::string> ofTwo{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2"};
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"perf", "all_reduce", "-n", "2", "-b", "8", "-e", "8"},
        {"tune", "-n", "2"}}) {
    std::vector<std::string> command{launcher::tuttiPath};
    command.insert(command.end(), words.begin(), words.end());
    const Result run = Command(command, "", ofTwo).wait();
    EXPECT_EQ(run.exitCode, 1) << run.err;
    EXPECT_EQ(run.err, "tutti " + words[0] +
                           ": -n 2 would start 2 ranks in each of the 2 ranks that the launcher "
                           "(Open MPI) started: leave -n out, and these are the ranks\n");
  }
  const Result explained =
      Command({launcher::tuttiPath, "explain", "all_reduce", "--measure", "-n", "3"}, "", ofTwo)
          .wait();
  EXPECT_EQ(explained.exitCode, 1);
  EXPECT_NE(explained.err.find("-n 3: --measure measures the 2 ranks"), std::string::npos)
      << explained.err;
  // Of a job of one rank it may start more.
  EXPECT_EQ(Command({launcher::tuttiPath, "perf", "all_reduce", "-n", "2", "-b", "8", "-e", "8",
                     "-w", "1"},
                    "", {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1"})
                .wait()
                .exitCode,
            0);
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
  EXPECT_NE(full.err.find("--plot /dev/full cannot be written: No space left"), std::string::npos)
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
  EXPECT_NE(full.err.find("--json /dev/full cannot be written: No space left"), std::string::npos)
      << full.err;
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

}  // namespace
}  // namespace tutti::launcher
