// `tutti perf` in parts: its command line, sizes and table, and that its checks can fail.

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include <tutti/tutti.h>

#include "src/base/check.h"
#include "src/base/cores.h"
#include "src/tools/common/machine_use.h"
#include "src/tools/common/names.h"
#include "src/tools/perf/perf_call.h"
#include "src/tools/perf/perf_check.h"
#include "src/tools/perf/perf_plot.h"
#include "src/tools/perf/perf_report.h"
#include "src/tools/perf/perf_run.h"
#include "tests/support/local_ranks.h"
#include "tests/support/temporary_folder.h"

namespace tutti::tools {
namespace {

PerfOptions parse(std::vector<const char*> words) {
  words.insert(words.begin(), "perf");
  return std::get<PerfOptions>(parsePerf(static_cast<int>(words.size()), words.data()));
}

std::string refusal(const std::vector<const char*>& words) {
  try {
    parse(words);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    return error.what();
  }
  return "accepted";
}

TEST(PerfOptions, TakeNcclTestsFlags) {
  const PerfOptions o = parse(
      {"reduce", "-n",   "4",        "-b",       "8",   "-e",       "64K",      "-f",
       "4",      "-t",   "bfloat16", "-o",       "max", "-r",       "3",        "-w",
       "0",      "-c",   "0",        "--iters",  "7",   "--memory", "ordinary", "--deterministic",
       "--algo", "ring", "--json",   "out.jsonl"});
  EXPECT_EQ(o.collective, Collective::Reduce);
  EXPECT_EQ(o.ranks, 4);
  EXPECT_EQ(o.sizes(), (std::vector<uint64_t>{8, 32, 128, 512, 2048, 8192, 32768}));
  EXPECT_EQ(o.type, DataType::BFloat16);
  EXPECT_EQ(o.op, ReduceOp::Max);
  EXPECT_EQ(o.root, 3);
  EXPECT_EQ(o.warmups, 0);
  EXPECT_FALSE(o.check || o.windows);
  EXPECT_EQ(o.iterations, 7);
  EXPECT_TRUE(o.deterministic);
  EXPECT_EQ(o.algorithm, "ring");
  EXPECT_EQ(o.jsonFile, "out.jsonl");
}

TEST(PerfOptions, AreRefusedByName) {
  EXPECT_EQ(refusal({"all_produce"}),
            "there is no collective 'all_produce': all_reduce, all_gather, reduce_scatter, "
            "broadcast, reduce, gather, scatter, alltoall, scan, barrier, sendrecv, alltoallv, "
            "hypercube, all_gatherv or reduce_scatterv; did you mean all_reduce?");
  for (const char* tooMuch : {"100000000000G", "17592186044416M", "18446744073709551616",
                              "17179869183.99999999999999999999G"})
    EXPECT_EQ(refusal({"all_reduce", "-b", tooMuch}),
              base::message("-b ", tooMuch, " is more than 2^64 - 1 bytes"));
  for (const char* text : {"99999999999999999999x", "1.5", "x", "1.K2", "-1"})
    EXPECT_EQ(refusal({"all_reduce", "-b", text}),
              base::message("-b ", text,
                            " is not a size: a whole number of bytes, or a number with K, M or G"));
  EXPECT_TRUE(refusal({}).starts_with("a collective is needed: all_reduce, "));
  EXPECT_EQ(refusal({"sendrecv", "--algo", "ring"}),
            "--algo ring is of collectives: sendrecv is made of sends and receives");
  EXPECT_EQ(refusal({"hypercube", "-n", "6"}), "hypercube needs a power of two of ranks, not 6");
  EXPECT_EQ(refusal({"reduce", "--root", "-1"}), "--root -1 is not a rank");
  EXPECT_EQ(refusal({"reduce", "-n", "2", "--root", "2"}), "--root 2 is not a rank of 0..1");
  EXPECT_EQ(refusal({"reduce", "-b", "2", "-e", "1"}), "-b 2 is larger than -e 1");
  EXPECT_EQ(refusal({"reduce", "-t", "int3"}),
            "--type int3 is no element type: " + listOfNames(typeNames()) + "; did you mean int8?");
  EXPECT_EQ(refusal({"reduce", "-o", "xor"}),
            "--op xor is no reduction: " + listOfNames(opNames()));
  EXPECT_EQ(
      refusal({"reduce", "--algo", "rings"}),
      "--algo rings does not exist: ring, double_tree, recursive, one_shot, two_shot, pairwise, "
      "hierarchical, mapped, attached or file; did you mean ring?");
  EXPECT_EQ(parse({"reduce", "--algo", "ring/2"}).algorithm, "ring/2");
  EXPECT_EQ(refusal({"all_reduce", "-b", "1", "-e", "1000G", "-i", "1"}),
            "-b 1 -e 1073741824000 -f 1 -i 1 are more than 10000 sizes");
  EXPECT_NE(refusal({"all_reduce", "--algo", "mapped", "--memory", "ordinary"}).find("allocate"),
            std::string::npos);
  EXPECT_NE(refusal({"all_reduce", "--algo", "mapped", "-o", "premulsum"}).find("premulsum"),
            std::string::npos);
}

TEST(PerfOptions, WhatIsNoCommandLineIsExitCodeTwo) {
  const auto code = [](std::vector<const char*> words) {
    words.insert(words.begin(), "perf");
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const auto parsed = parsePerf(static_cast<int>(words.size()), words.data());
    testing::internal::GetCapturedStdout();
    testing::internal::GetCapturedStderr();
    return std::get<int>(parsed);
  };
  EXPECT_EQ(code({"--help"}), 0);
  EXPECT_EQ(code({"reduce", "--no-such-flag"}), 2);
  EXPECT_EQ(code({"reduce", "-n", "0"}), 2);
  EXPECT_EQ(code({"reduce", "--memory", "swap"}), 2);
}

TEST(PerfSizes, GoByFactorOrByStepAndEnd) {
  using Sizes = std::vector<uint64_t>;
  const auto sizes = [](uint64_t least, uint64_t most, int factor, uint64_t step) {
    return PerfOptions{.minBytes = least, .maxBytes = most, .stepBytes = step, .factor = factor}
        .sizes();
  };
  EXPECT_EQ(sizes(8, 8, 1, 0), Sizes{8});
  EXPECT_EQ(sizes(8, 64, 2, 0), (Sizes{8, 16, 32, 64}));
  EXPECT_EQ(sizes(8, 63, 2, 0), (Sizes{8, 16, 32}));
  EXPECT_EQ(sizes(0, 16, 2, 0), (Sizes{0, 4, 8, 16}));
  EXPECT_EQ(sizes(1, 10, 1, 4), (Sizes{1, 5, 9}));
  EXPECT_EQ(sizes(0, 3u << 20, 1, 0), (Sizes{0, 1u << 20, 2u << 20, 3u << 20}));
  EXPECT_EQ(sizes(UINT64_MAX - 3, UINT64_MAX, 1, 2), (Sizes{UINT64_MAX - 3, UINT64_MAX - 1}));
  EXPECT_EQ(sizes(UINT64_MAX / 2, UINT64_MAX, 3, 0), Sizes{UINT64_MAX / 2});
  EXPECT_EQ(sizes(1, 10'000, 1, 1).size(), PerfOptions::kMostSizes);
  EXPECT_THROW(sizes(1, 10'001, 1, 1), Error);
}

TEST(PerfShape, RoundsDownToWholeBlocks) {
  const auto shapeOf = [](const char* name, int rank, int ranks, uint64_t elements) {
    return perfShape(parse({name}), rank, ranks, elements);
  };
  const PerfShape gather = shapeOf("all_gather", 0, 3, 10);
  EXPECT_EQ(gather.count, 3u);
  EXPECT_EQ(gather.inCount, 3u);
  EXPECT_EQ(gather.outCount, 9u);
  const PerfShape scatter = shapeOf("reduce_scatter", 1, 3, 10);
  EXPECT_EQ(scatter.inCount, 9u);
  EXPECT_EQ(scatter.outCount, 3u);
  EXPECT_EQ(shapeOf("reduce", 0, 3, 10).outCount, 10u);
  EXPECT_EQ(shapeOf("barrier", 0, 3, 10).inCount, 0u);
  EXPECT_EQ(shapeOf("sendrecv", 0, 3, 10).outCount, 10u);
  EXPECT_EQ(shapeOf("hypercube", 0, 4, 10).outCount, 8u);
  // Rank 1 of 4 exchanges blocks of 2, 3, 1 and 2 units with them.
  EXPECT_EQ(shapeOf("alltoallv", 1, 4, 25).inCount, 16u);
  EXPECT_EQ(unevenCounts(1, 4, 2), (std::vector<size_t>{4, 6, 2, 4}));
  // The blocks of ranks 0 to 3 are 1, 2, 3 and 1 units, whoever asks.
  const PerfShape gatherV = shapeOf("all_gatherv", 2, 4, 25);
  EXPECT_EQ(gatherV.count, 2u);
  EXPECT_EQ(gatherV.inCount, 6u);
  EXPECT_EQ(gatherV.outCount, 14u);
  EXPECT_EQ(gatherV.own, 6u);
  const PerfShape scatterV = shapeOf("reduce_scatterv", 3, 4, 25);
  EXPECT_EQ(scatterV.inCount, 14u);
  EXPECT_EQ(scatterV.outCount, 2u);
  EXPECT_EQ(scatterV.own, 12u);
}

TEST(PerfReport, HasNcclTestsFactors) {
  EXPECT_DOUBLE_EQ(busFactor(Collective::AllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(busFactor(Collective::AllGather, 4), 0.75);
  EXPECT_DOUBLE_EQ(busFactor(Collective::ReduceScatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(busFactor(Collective::Broadcast, 4), 1);
  EXPECT_DOUBLE_EQ(busFactor(Collective::AllReduce, 1), 0);
}

TEST(PerfReport, FormatsRowsAndFooter) {
  PerfOptions o{.collective = Collective::Reduce, .collectiveName = "reduce", .root = 1};
  const PerfRow row{
      .bytes = 64,
      .count = 16,
      .outOfPlace =
          {.timeUs = 2, .p99Us = 3, .algorithmGBps = 4, .busGBps = 5, .wrong = 6, .iterations = 7},
      .inPlace = PerfTiming{.timeUs = 1, .p99Us = 1, .algorithmGBps = 1, .busGBps = 7}};
  std::istringstream words(perfLine(o, row));
  std::vector<std::string> columns;
  for (std::string word; words >> word;) columns.push_back(word);
  EXPECT_EQ(columns,
            (std::vector<std::string>{"64", "16", "float32", "sum", "1", "2.00", "3.00", "4.00",
                                      "5.00", "6", "1.00", "1.00", "1.00", "7.00", "N/A"}));
  PerfTotals totals;
  totals.add(row);
  EXPECT_EQ(perfFooter(totals, true),
            "# Out of bounds values : 6 FAILED\n# Avg bus bandwidth    : 6\n#\n");
  EXPECT_NE(perfFooter({}, true).find(": 0 OK"), std::string::npos);
  EXPECT_NE(perfFooter(totals, false).find("NOT CHECKED"), std::string::npos);
  o.collective = Collective::AllGather;
  EXPECT_NE(perfLine(o, row).find("none    -1"), std::string::npos);
}

TEST(PerfPlot, SaysWhatToDrawAndWhatIsMissing) {
  PerfOptions o = parse({"all_gather"});
  const PerfTiming timing{.timeUs = 2, .p99Us = 3, .algorithmGBps = 4, .busGBps = 5};
  const std::vector<PerfRow> rows{{.bytes = 0, .outOfPlace = timing, .inPlace = timing},
                                  {.bytes = 64, .outOfPlace = timing, .inPlace = timing}};
  const std::string script = plotScript(o, 4, rows);
  EXPECT_NE(script.find("\"all_gather of float32, 4 ranks\""), std::string::npos) << script;
  EXPECT_NE(script.find("$OUT << EOD\n64 2 3 5\nEOD\n"), std::string::npos) << script;
  EXPECT_NE(script.find("in place"), std::string::npos) << script;
  o = parse({"sendrecv"});
  EXPECT_EQ(plotScript(o, 2, {{.bytes = 64, .outOfPlace = timing}}).find("in place\""),
            std::string::npos);
  EXPECT_EQ(refusal({"barrier", "--plot", "x.svg"}),
            "--plot draws times over sizes, and a barrier has none");
  EXPECT_EQ(refusal({"all_gather", "-b", "0", "-e", "0", "--plot", "x.svg"}),
            "--plot draws nothing of 0 bytes");
  EXPECT_THROW(writePlot("/nowhere/at/all.svg", script), Error);
}

/// What runPerf() says, and what it returns on each rank.
struct Outcome {
  std::vector<int> codes;
  std::string table, json;
};
using Seam = decltype(PerfOutput::seam);

/// On three ranks; a hypercube on four.
Outcome measure(const std::string& name, const std::function<Seam(int rank)>& seamOf) {
  const int ranks = name == "hypercube" ? 4 : 3;
  auto members = Communicator::createLocal(ranks);
  Outcome outcome{std::vector<int>(static_cast<size_t>(ranks), -1), {}, {}};
  const PerfOptions options =
      parse({name.c_str(), "-b", "1200", "-e", "1200", "--root", "1", "--iters", "1", "-w", "0"});
  std::FILE* table = std::tmpfile();
  std::ostringstream json;
  tests::runRanks(members, [&](Communicator& c) {
    outcome.codes[static_cast<size_t>(c.rank())] = runPerf(
        c, options,
        {.table = table, .json = c.rank() == 0 ? &json : nullptr, .seam = seamOf(c.rank())});
  });
  std::rewind(table);
  for (int c; (c = std::fgetc(table)) != EOF;) outcome.table += static_cast<char>(c);
  std::fclose(table);
  outcome.json = json.str();
  return outcome;
}

constexpr const char* kWithData[] = {"all_reduce",  "all_gather",     "reduce_scatter", "broadcast",
                                     "reduce",      "gather",         "scatter",        "alltoall",
                                     "scan",        "sendrecv",       "alltoallv",      "hypercube",
                                     "all_gatherv", "reduce_scatterv"};

TEST(PerfCheck, PassesWhatIsRight) {
  std::vector<std::string> names(std::begin(kWithData), std::end(kWithData));
  names.push_back("barrier");
  for (const std::string& name : names) {
    const Outcome right = measure(name, [](int) { return Seam(); });
    EXPECT_EQ(right.codes, std::vector<int>(right.codes.size(), 0)) << right.table;
    EXPECT_NE(right.table.find("values : 0 OK"), std::string::npos) << right.table;
    const bool inPlace = parse({name.c_str()}).inPlace();
    EXPECT_EQ(right.table.find("N/A") == std::string::npos, inPlace) << right.table;
  }
}

TEST(PerfCheck, CountsOneWrongElementAndFailsOnAllRanks) {
  for (const char* const name : kWithData)
    // Each size is checked before and after it is timed, out of place and then in place; it has as
    // many wrong elements as the worse of the two checks.
    for (const auto& wrongCalls : std::vector<std::set<int>>{{1}, {2}, {1, 2}, {4}, {1, 3}}) {
      const bool both = wrongCalls.contains(3);
      if (*wrongCalls.rbegin() > 2 && !parse({name}).inPlace()) continue;
      int calls = 0;
      size_t element = 0;
      testing::internal::CaptureStderr();
      const Outcome wrong = measure(name, [&](int rank) -> Seam {
        if (rank != 1) return {};
        return [&](const std::function<void()>& call, std::byte* result, size_t bytes) {
          call();
          element = bytes / 2 / sizeof(float);
          if (wrongCalls.contains(++calls)) result[bytes / 2] ^= std::byte{0x10};
        };
      });
      const std::string said = testing::internal::GetCapturedStderr();
      const std::string where = *wrongCalls.begin() > 2 ? "rank 1, in place" : "rank 1";
      EXPECT_NE(said.find(where + ": 1 elements of "), std::string::npos) << said;
      EXPECT_NE(said.find("the first is " + std::to_string(element) + "\n"), std::string::npos)
          << said;
      EXPECT_EQ(wrong.codes, std::vector<int>(wrong.codes.size(), 1)) << wrong.table;
      EXPECT_NE(wrong.table.find("values : " + std::to_string(both ? 2 : 1) + " FAILED"),
                std::string::npos)
          << wrong.table;
      EXPECT_NE(wrong.json.find("\"wrong\":1"), std::string::npos) << wrong.json;
    }
}

/// Nothing that lay in the buffers before may pass for a result: first right calls, out of place,
/// then some in place that deliver nothing on any rank.
TEST(PerfCheck, SeesACallInPlaceThatDeliversNothing) {
  for (const char* const name : kWithData) {
    if (!parse({name}).inPlace()) continue;
    const Outcome wrong = measure(name, [](int) -> Seam {
      return [calls = 0](const std::function<void()>& call, std::byte*, size_t) mutable {
        if (++calls <= 2) call();
      };
    });
    EXPECT_EQ(wrong.codes, std::vector<int>(wrong.codes.size(), 1)) << wrong.table;
    EXPECT_EQ(wrong.table.find("values : 0"), std::string::npos) << wrong.table;
  }
}

TEST(PerfCheck, SeesABarrierThatHoldsNobody) {
  const Outcome wrong = measure("barrier", [](int) -> Seam {
    return [](const std::function<void()>&, std::byte*, size_t) {};
  });
  EXPECT_EQ(wrong.codes, (std::vector<int>{1, 1, 1})) << wrong.table;
  EXPECT_NE(wrong.table.find("FAILED"), std::string::npos) << wrong.table;
}

TEST(PerfRun, RefusesWhatDoesNotFitTheRanks) {
  auto alone = Communicator::createLocal(1), two = Communicator::createLocal(2);
  const auto refusal = [](Communicator& c, const PerfOptions& o) {
    try {
      runPerf(c, o, {});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal(alone[0], {.root = 1}), "--root 1 is not a rank of 0..0");
  EXPECT_EQ(refusal(two[0], {.collective = Collective::AllGather,
                             .collectiveName = "all_gather",
                             .algorithm = "double_tree"}),
            "--algo double_tree does not exist for all_gather on 2 ranks of 1 host");
  auto three = Communicator::createLocal(3);
  EXPECT_EQ(refusal(three[0], {.collective = Collective::ReduceScatter,
                               .exchange = PerfExchange::ReduceScatterV,
                               .collectiveName = "reduce_scatterv",
                               .algorithm = "recursive"}),
            "--algo recursive does not exist for reduce_scatterv on 3 ranks of 1 host");
  EXPECT_EQ(refusal(two[0], {.collective = Collective::Barrier,
                             .collectiveName = "barrier",
                             .algorithm = "mapped"}),
            "--algo mapped does not exist for barrier on 2 ranks of 1 host");
}

TEST(PerfPlot, DoesNotWaitForAGnuplotThatDoesNotEnd) {
  const tests::TemporaryFolder folder;
  const std::string program = folder.path().string() + "/gnuplot", file = program + ".svg";
  std::ofstream(program) << "#!/bin/sh\nexec sleep 1000\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const std::string path = std::getenv("PATH");
  ASSERT_EQ(setenv("PATH", (folder.path().string() + ":" + path).c_str(), 1), 0);
  for (const size_t bytes : {size_t{10}, size_t{10'000'000}}) try {  // more than a socket holds
      writePlot(file, std::string(bytes, '\n'), std::chrono::milliseconds(200));
      ADD_FAILURE() << "it is drawn";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("it drew for too long"), std::string::npos)
          << error.what();
    }
  EXPECT_EQ(setenv("PATH", path.c_str(), 1), 0);
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(MachineUse, CountsProgramsAndWhatTheHypervisorKeeps) {
  const char* const text =
      "cpu  100 20 30 4000 500 6 7 50 40 0\n"
      "cpu0 1 2 3 4 5 6 7 8 9 10\n";
  EXPECT_EQ(workedSeconds(text, 100), 2.0);
  EXPECT_FALSE(workedSeconds("", 100));
  EXPECT_FALSE(workedSeconds("cpu0 1 2 3 4 5 6 7 8 9 10\n", 100));
  EXPECT_FALSE(workedSeconds("cpu  100 20 30 4000 500 6 7\n", 100));
}

bool kernelTells() {
  std::ifstream file("/proc/stat");
  return workedSeconds(std::string(std::istreambuf_iterator<char>(file), {}), 100).has_value();
}

TEST(MachineUse, IsNotOfTheRanks) {
  if (!kernelTells()) GTEST_SKIP() << "/proc/stat tells nothing here";
  const auto cores = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  if (base::usableCores() < cores)
    GTEST_SKIP() << "others may have the cores that this process may not use";
  auto alone = Communicator::createLocal(1);
  // Threads that have so much of a core in all; as much as others leave them, whatever runs here.
  constexpr double kSeconds = 0.3;
  const double begin = nowUs();
  MachineUse working(alone[0]);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < static_cast<int>(cores); ++i)
      threads.emplace_back([] {
        const auto had = [] {
          timespec time{};
          ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
          return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
        };
        while (had() < kSeconds) continue;
      });
  }
  const double beside = working.coresOfOthers();
  const double own = cores * kSeconds / ((nowUs() - begin) * 1e-6);
  EXPECT_LT(beside, cores - 0.8 * own);
}

TEST(MachineUse, IsOfOthers) {
  if (!kernelTells()) GTEST_SKIP() << "/proc/stat tells nothing here";
  auto alone = Communicator::createLocal(1);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(10);  // whatever becomes of the test
    for (;;) continue;
  }
  MachineUse waiting(alone[0]);
  ::usleep(500'000);
  const double others = waiting.coresOfOthers();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_GT(others, 0.2);
}

TEST(MachineUse, IsSaidWhereItCounts) {
  EXPECT_EQ(busyText(0.09, 2), "");
  EXPECT_EQ(busyText(0.11, 2), "meanwhile other work took the time of 0.1 cores");
  EXPECT_EQ(busyText(1.2, 128), "");  // daemons
  EXPECT_EQ(busyText(1.4, 128), "meanwhile other work took the time of 1.4 cores");
}

}  // namespace
}  // namespace tutti::tools
