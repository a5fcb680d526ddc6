// The programs with nccl-tests' names in parts: their flags, table and ranks, and that their checks
// can fail.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "src/tools/nccl_perf/nccl_perf.h"
#include "src/tools/nccl_perf/nccl_perf_options.h"
#include "src/tools/nccl_perf/nccl_perf_ranks.h"
#include "src/tools/nccl_perf/nccl_perf_report.h"
#include "src/tools/nccl_perf/nccl_perf_run.h"

namespace tutti::tools {
namespace {

constexpr const char* kPrograms[] = {"all_reduce_perf", "all_gather_perf", "reduce_scatter_perf",
                                     "broadcast_perf",  "reduce_perf",     "alltoall_perf",
                                     "gather_perf",     "scatter_perf",    "sendrecv_perf",
                                     "hypercube_perf",  "alltoallv_perf"};

NcclPerfOptions parse(const std::vector<const char*>& words) {
  return std::get<NcclPerfOptions>(parseNcclPerf(static_cast<int>(words.size()), words.data()));
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

/// Standard error of a command line that is none.
std::string complaint(const std::vector<const char*>& words) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const auto parsed = parseNcclPerf(static_cast<int>(words.size()), words.data());
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(std::get<int>(parsed), 2);
  return testing::internal::GetCapturedStderr();
}

TEST(NcclPerfNames, AreElevenWithAnyFolder) {
  for (const char* program : kPrograms) {
    EXPECT_TRUE(isNcclPerf(program));
    EXPECT_TRUE(isNcclPerf("/usr/bin/" + std::string(program)));
    EXPECT_TRUE(collectiveOf(program).has_value());
  }
  for (const char* other : {"tutti", "perf", "_perf", "scan_perf", "barrier_perf", "all_reduce",
                            "all_reduce_perf2", "x_all_reduce_perf", "all_reduceXperf", ""})
    EXPECT_FALSE(isNcclPerf(other)) << other;
}

TEST(NcclPerfOptions, HaveNcclTestsDefaults) {
  const NcclPerfOptions o = parse({"reduce_perf"});
  EXPECT_EQ(o.perf.collective, Collective::Reduce);
  EXPECT_EQ(o.perf.sizes(), std::vector<uint64_t>{32u << 20});
  EXPECT_EQ(o.types, std::vector{DataType::Float32});
  EXPECT_EQ(o.ops, std::vector{ReduceOp::Sum});
  EXPECT_EQ(o.root, 0);
  EXPECT_EQ(o.ranksHere(), 1);
  EXPECT_EQ(o.iterations, 20);
  EXPECT_EQ(o.warmups, 5);
  EXPECT_EQ(o.aggregated, 1);
  EXPECT_EQ(o.cycles, 1);
  EXPECT_EQ(o.checks, 1);
  EXPECT_EQ(o.average, PerfAverage::Mean);
  EXPECT_TRUE(o.nullStream.value_or(true));
  EXPECT_FALSE(o.perf.windows || o.parallelInit || o.blocking || o.cpuTime || o.timestamps);
  EXPECT_EQ(o.timeout.count(), 0);
  EXPECT_EQ(parse({"reduce_perf", "-b", "0", "-e", "3M"}).perf.sizes().size(), 4u);
  EXPECT_EQ(parse({"reduce_perf", "-b", "1.5M", "-e", "1.5M"}).perf.sizes(),
            std::vector<uint64_t>{3 << 19});
}

TEST(NcclPerfOptions, TakeNcclTestsFlags) {
  const NcclPerfOptions o =
      parse({"reduce_perf", "-t", "2",      "-g", "3",    "-b", "8",  "-e", "64K", "-f",       "4",
             "-n",          "7",  "-m",     "2",  "-w",   "0",  "-N", "4",  "-p",  "1",        "-c",
             "5",           "-o", "mulsum", "-d", "half", "-r", "5",  "-z", "1",   "-y",       "0",
             "-T",          "9",  "-G",     "0",  "-C",   "1",  "-S", "1",  "-J",  "out.json", "-a",
             "3",           "-R", "2",      "-D", "0",    "-M", "0"});
  EXPECT_EQ(o.ranksHere(), 6);
  EXPECT_EQ(o.perf.sizes(), (std::vector<uint64_t>{8, 32, 128, 512, 2048, 8192, 32768}));
  EXPECT_EQ(o.iterations, 7);
  EXPECT_EQ(o.aggregated, 2);
  EXPECT_EQ(o.warmups, 0);
  EXPECT_EQ(o.cycles, 4);
  EXPECT_TRUE(o.parallelInit && o.blocking && o.cpuTime && o.timestamps && o.perf.windows);
  EXPECT_FALSE(o.nullStream.value_or(true));
  EXPECT_EQ(o.checks, 5);
  EXPECT_EQ(o.ops, std::vector{ReduceOp::PreMulSum});
  EXPECT_EQ(o.types, std::vector{DataType::Float16});
  EXPECT_EQ(o.root, 5);
  EXPECT_EQ(o.timeout, std::chrono::seconds(9));
  EXPECT_EQ(o.jsonFile, "out.json");
  EXPECT_EQ(o.average, PerfAverage::Most);
}

TEST(NcclPerfOptions, TakeAllAndTheLastOfSeveral) {
  const NcclPerfOptions o =
      parse({"reduce_perf", "-d", "all", "-o", "all", "-r", "all", "-n", "3", "-n", "4"});
  EXPECT_EQ(o.types.size(), 12u);
  EXPECT_EQ(std::set(o.types.begin(), o.types.end()).size(), 12u);
  EXPECT_EQ(std::set(o.ops.begin(), o.ops.end()).size(), 6u);
  EXPECT_EQ(o.root, std::nullopt);
  EXPECT_EQ(o.iterations, 4);
}

TEST(NcclPerfOptions, AreRefusedByName) {
  EXPECT_EQ(refusal({"all_reduce_perf", "-G", "1"}),
            "-G 1: there are no CUDA graphs of calls on host memory");
  for (const auto& [flag, value] : {std::pair{"-y", "1"}, std::pair{"-z", "1"}})
    EXPECT_EQ(
        refusal({"all_reduce_perf", "--device", "cuda", "-G", "1", flag, value}),
        "-G 1: calls of a graph are queued, so -y is 0, and no iteration is waited for, so -z "
        "is 0");
  EXPECT_EQ(parse({"all_reduce_perf", "--device", "cuda", "-G", "3"}).graphLaunches, 3);
  EXPECT_EQ(refusal({"all_reduce_perf", "-b", "2", "-e", "1"}), "-b 2 is larger than -e 1");
  EXPECT_EQ(refusal({"all_reduce_perf", "-t", "4096", "-g", "2"}),
            "-t 4096 -g 2 are more than 4096 ranks in one process");
  EXPECT_EQ(refusal({"all_reduce_perf", "-N", "0", "-J", "f"}),
            "-J f is written after the last cycle, and -N 0 has none");
  for (const char* program : {"sendrecv_perf", "alltoallv_perf", "hypercube_perf"})
    EXPECT_TRUE(refusal({program, "-m", "2"}).starts_with("-m 2: calls of ")) << program;
  for (const auto& [flag, value] :
       std::vector<std::pair<const char*, const char*>>{{"-D", "1"},
                                                        {"-M", "1"},
                                                        {"-x", "0"},
                                                        {"-V", "16"},
                                                        {"-b", "1T"},
                                                        {"-e", "x"},
                                                        {"-i", "-1"},
                                                        {"-o", "xor"},
                                                        {"-d", "float32"},
                                                        {"-r", "-1"},
                                                        {"-r", "1x"},
                                                        {"-r", ""}})
    EXPECT_TRUE(
        refusal({"all_reduce_perf", flag, value}).starts_with(flag + std::string(" ") + value))
        << refusal({"all_reduce_perf", flag, value});
  EXPECT_NE(refusal({"all_reduce_perf", "-b", "1", "-e", "1G", "-i", "1"}).find("10000 sizes"),
            std::string::npos);
}

TEST(NcclPerfOptions, OutOfRangeAreExitCodeTwoAndNamed) {
  for (const auto& [flag, value, name] :
       std::vector<std::tuple<const char*, const char*, const char*>>{
           {"-t", "0", "--nthreads"},
           {"-g", "0", "--ngpus"},
           {"-n", "0", "--iters"},
           {"-m", "0", "--agg_iters"},
           {"-w", "-1", "--warmup_iters"},
           {"-f", "0", "--stepfactor"},
           {"-c", "-1", "--check"},
           {"-a", "4", "--average"},
           {"-R", "3", "--local_register"},
           {"-z", "2", "--blocking"},
           {"-p", "2", "--parallel_init"},
           {"-y", "2", "--stream_null"},
           {"-C", "2", "--report_cputime"},
           {"-T", "-1", "--timeout"},
           {"-Q", "1", "-Q"}})
    EXPECT_NE(complaint({"all_reduce_perf", flag, value}).find(name), std::string::npos) << flag;
}

std::string wordsOf(const std::string& line) {
  std::istringstream in(line);
  std::string all;
  for (std::string word; in >> word;) all += (all.empty() ? "" : " ") + word;
  return all;
}

TEST(NcclPerfReport, HasNcclTestsColumns) {
  NcclPerfOptions o = parse({"reduce_perf"});
  const NcclPerfRow row{DataType::Float16,
                        ReduceOp::PreMulSum,
                        2,
                        {.bytes = 64,
                         .count = 32,
                         .outOfPlace = {.timeUs = 2, .algorithmGBps = 4, .busGBps = 5, .wrong = 6},
                         .inPlace = PerfTiming{.timeUs = 123.4, .algorithmGBps = 1, .busGBps = 7}}};
  EXPECT_EQ(wordsOf(ncclPerfLine(o, row)),
            "64 32 half mulsum 2 2.00 4.00 5.00 6 123.4 1.00 7.00 N/A");
  // Columns as wide as nccl-tests', under their titles.
  EXPECT_EQ(ncclPerfLine(o, row),
            "          64            32      half  mulsum       2     2.00    4.00    5.00       6"
            "    123.4    1.00    7.00     N/A\n");
  NcclPerfRow other = row;
  other.times.inPlace.reset();
  o = parse({"sendrecv_perf", "-S", "1"});
  EXPECT_TRUE(wordsOf(ncclPerfLine(o, other))
                  .starts_with("64 32 half none -1 2.00 4.00 5.00 6 N/A N/A N/A N/A 20"))
      << ncclPerfLine(o, other);
}

TEST(NcclPerfReport, SaysWhatWasTimed) {
  const std::string header = ncclPerfHeader(
      parse({"all_reduce_perf", "-f", "2", "-a", "3", "-C", "1", "-m", "2"}), "rank 0\nrank 1\n");
  for (const char* line :
       {"# nThread 1 nGpus 1 minBytes 33554432 maxBytes 33554432 step: 2(factor) warmup iters: 5 "
        "iters: 20 agg iters: 2 validation: 1 graph: 0\n",
        "# rank 0\n# rank 1\n",
        "# time is that of 20 iterations of groups back to back, divided by the calls, on the "
        "slowest rank; cputime is how long they took to be made\n",
        "redop    root  cputime   algbw   busbw  #wrong  cputime   algbw   busbw  #wrong\n"})
    EXPECT_NE(header.find(line), std::string::npos) << line << header;
  std::istringstream lines(header);
  for (std::string line; std::getline(lines, line);) EXPECT_TRUE(line.starts_with("#")) << line;
}

/// What runNcclPerf() prints and returns on the ranks of this process.
struct Outcome {
  int code = -1;
  std::string table, json;
  std::vector<std::string> rows() const {
    std::istringstream in(table);
    std::vector<std::string> all;
    for (std::string line; std::getline(in, line);)
      if (!line.starts_with("#")) all.push_back(wordsOf(line));
    return all;
  }
};

Outcome measure(const std::vector<const char*>& words,
                const std::function<PerfSeam(int rank)>& seamOf = {}) {
  std::vector<const char*> all = words;
  all.insert(all.begin() + 1, {"-w", "0", "-n", "2"});
  const NcclPerfOptions options = parse(all);
  std::FILE* table = std::tmpfile();
  std::ostringstream json;
  Outcome outcome;
  outcome.code =
      onRanks({.count = options.ranksHere(), .join = options.parallelInit}, [&](Communicator& c) {
        const PerfOutput output{.table = table,
                                .json = c.rank() == 0 ? &json : nullptr,
                                .seam = seamOf ? seamOf(c.rank()) : PerfSeam()};
        return runNcclPerf(c, options, output);
      });
  std::rewind(table);
  for (int c; (c = std::fgetc(table)) != EOF;) outcome.table += static_cast<char>(c);
  std::fclose(table);
  outcome.json = json.str();
  return outcome;
}

TEST(NcclPerfRun, PassesWhatIsRightInEveryWay) {
  for (const char* program : kPrograms)
    for (const std::vector<const char*>& way : std::vector<std::vector<const char*>>{
             {}, {"-y", "0"}, {"-y", "0", "-z", "1"}, {"-R", "1"}, {"-p", "1"}}) {
      std::vector<const char*> words{program, "-b", "1200", "-e", "1200", "-t", "2", "-g", "2"};
      words.insert(words.end(), way.begin(), way.end());
      const Outcome right = measure(words);
      EXPECT_EQ(right.code, 0) << right.table;
      EXPECT_NE(right.table.find("# Out of bounds values : 0 OK\n"), std::string::npos)
          << right.table;
      EXPECT_EQ(right.rows().size(), 1u) << right.table;
    }
}

TEST(NcclPerfRun, GoesOverTypesReductionsRootsCyclesAndSizes) {
  const Outcome all = measure({"reduce_perf", "-b", "8", "-e", "16", "-f", "2", "-g", "2", "-d",
                               "all", "-o", "all", "-r", "all", "-N", "2"});
  EXPECT_EQ(all.code, 0) << all.table;
  const auto rows = all.rows();
  EXPECT_EQ(rows.size(), 12u * 6 * 2 * 2 * 2);
  std::set<std::string> combinations;
  for (const std::string& row : rows) {
    std::istringstream in(row);
    std::string bytes, count, type, op, root;
    in >> bytes >> count >> type >> op >> root;
    combinations.insert(bytes + type + op + root);
  }
  EXPECT_EQ(combinations.size(), 12u * 6 * 2 * 2);
  // Without a reduction and a root there is one of each.
  EXPECT_EQ(measure({"alltoall_perf", "-b", "8", "-e", "8", "-g", "2", "-o", "all", "-r", "all"})
                .rows()
                .size(),
            1u);
}

TEST(NcclPerfRun, AggregatesCalls) {
  for (const char* program : {"all_reduce_perf", "alltoall_perf", "gather_perf"})
    for (const char* nullStream : {"0", "1"}) {
      const Outcome right =
          measure({program, "-b", "1K", "-e", "1K", "-g", "3", "-m", "3", "-y", nullStream});
      EXPECT_EQ(right.code, 0) << right.table;
    }
}

TEST(NcclPerfRun, CountsOneWrongElementAndFailsOnAllRanks) {
  for (const char* program : kPrograms) {
    testing::internal::CaptureStderr();
    // The second check of three is wrong: the third is not made.
    std::atomic<int> calls = 0;
    const Outcome wrong =
        measure({program, "-b", "1200", "-e", "1200", "-t", "2", "-g", "2", "-c", "3", "-r", "1"},
                [&](int rank) -> PerfSeam {
                  if (rank != 1) return {};
                  return [&](const std::function<void()>& call, std::byte* result, size_t bytes) {
                    call();
                    if (++calls == 2) result[bytes / 2] ^= std::byte{0x10};
                  };
                });
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("rank 1: 1 elements of "), std::string::npos) << said;
    EXPECT_EQ(wrong.code, 1) << wrong.table;
    EXPECT_NE(wrong.table.find("# Out of bounds values : 1 FAILED\n"), std::string::npos)
        << wrong.table;
    const bool inPlace = parse({program}).perf.inPlace();
    EXPECT_EQ(calls, inPlace ? 5 : 2) << program;
    const auto json = nlohmann::json::parse(wrong.json);
    EXPECT_EQ(json["results"][0]["out_of_place"]["nwrong"], 1);
    EXPECT_EQ(json["out_of_bounds"]["okay"], false);
    EXPECT_EQ(json["ranks"], 4);
  }
}

TEST(NcclPerfRun, EachCheckHasDataOfItsOwn) {
  std::set<std::string> results;
  measure({"all_reduce_perf", "-b", "64", "-e", "64", "-g", "2", "-c", "3"}, [&](int rank) {
    if (rank != 0) return PerfSeam();
    return PerfSeam([&](const std::function<void()>& call, std::byte* result, size_t bytes) {
      call();
      results.emplace(reinterpret_cast<const char*>(result), bytes);
    });
  });
  EXPECT_EQ(results.size(), 3u) << "of six checks, in place as out of place";
}

size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST(NcclPerfRun, MakesAsManyCallsAsItsFlagsSay) {
  const auto operations = [](const std::vector<const char*>& flags) {
    std::vector<const char*> words{"broadcast_perf", "-b", "64", "-e", "64"};
    words.insert(words.end(), flags.begin(), flags.end());
    const NcclPerfOptions options = parse(words);
    std::FILE* table = std::tmpfile();
    std::string recorded;
    onRanks({.count = 2}, [&](Communicator& c) {
      const int code = runNcclPerf(c, options, {.table = table});
      if (c.rank() == 0) recorded = c.describe();
      return code;
    });
    std::fclose(table);
    return std::pair(occurrences(recorded, ": broadcast of"), occurrences(recorded, ": barrier"));
  };
  using Counts = std::pair<size_t, size_t>;
  // Out of place and in place: warm-ups, timed calls, checked ones; the timing begins together, and
  // so do ranks before they take memory.
  EXPECT_EQ(operations({"-w", "2", "-n", "3", "-c", "0"}), Counts(2 * (2 + 3), 1 + 2));
  EXPECT_EQ(operations({"-w", "0", "-n", "3", "-c", "4"}), Counts(2 * (1 + 3 + 4), 1 + 2));
  EXPECT_EQ(operations({"-w", "1", "-n", "3", "-c", "1", "-m", "2"}),
            Counts(2 * (1 + 6 + 1), 1 + 2));
  EXPECT_EQ(operations({"-w", "1", "-n", "3", "-c", "1", "-z", "1"}),
            Counts(2 * (1 + 3 + 1), 1 + 2 * (1 + 3)));
  EXPECT_EQ(operations({"-w", "1", "-n", "3", "-c", "1", "-y", "0", "-z", "1"}),
            Counts(2 * (1 + 3 + 1), 1 + 2 * (1 + 3)));
}

TEST(NcclPerfRun, SaysTheTimeOfOneCall) {
  const double begin = nowUs();
  const Outcome run =
      measure({"all_reduce_perf", "-b", "64", "-e", "64", "-g", "2", "-m", "50", "-n", "100"});
  const double wallUs = nowUs() - begin;
  const auto row = nlohmann::json::parse(run.json)["results"][0];
  for (const char* place : {"out_of_place", "in_place"}) {
    const double us = row[place]["time"], algorithm = row[place]["alg_bw"];
    EXPECT_GT(us, 0);
    EXPECT_LE(us * 50 * 100, wallUs);
    EXPECT_NEAR(algorithm * us, 64 / 1e3, 1e-6);
    EXPECT_DOUBLE_EQ(row[place]["bus_bw"], algorithm);  // 2 (n - 1) / n
  }
}

/// How long calls took to be made, as part of how long they took.
double partOfMaking(const char* nullStream) {
  const Outcome run = measure({"all_gather_perf", "-b", "4M", "-e", "4M", "-g", "2", "-n", "10",
                               "-c", "0", "-C", "1", "-y", nullStream});
  const auto row = nlohmann::json::parse(run.json)["results"][0];
  const double us = row["size"].get<double>() / row["out_of_place"]["alg_bw"].get<double>() / 1e3;
  return row["out_of_place"]["cpu_time"].get<double>() / us;
}

// A busy machine may make a thread slow to queue its calls, but not each time.
TEST(NcclPerfRun, QueuesCallsOnAStreamWhereOneIsWanted) {
  double least = 1;
  for (int i = 0; i < 20 && least > 0.5; ++i) least = std::min(least, partOfMaking("0"));
  EXPECT_LE(least, 0.5);
  double most = 0;
  for (int i = 0; i < 20 && most < 0.9; ++i) most = std::max(most, partOfMaking("1"));
  EXPECT_GE(most, 0.9);
}

TEST(NcclPerfRun, MakesOneTimeOfAllRanks) {
  std::mutex mutex;
  onRanks({.count = 3}, [&](Communicator& c) {
    const double own = std::array{3.0, 1.0, 8.0}[static_cast<size_t>(c.rank())];
    const double expected[] = {3, 4, 1, 8};
    for (const PerfAverage average :
         {PerfAverage::RankZero, PerfAverage::Mean, PerfAverage::Least, PerfAverage::Most}) {
      const double us = ofAllRanks(c, average, own);
      const std::lock_guard lock(mutex);
      EXPECT_EQ(us, expected[static_cast<size_t>(average)]);
    }
    return 0;
  });
}

TEST(NcclPerfRun, WithoutAnyCheckSaysSo) {
  const Outcome run = measure({"all_reduce_perf", "-b", "8", "-e", "8", "-c", "0"});
  EXPECT_EQ(run.code, 0);
  EXPECT_NE(run.table.find("NOT CHECKED"), std::string::npos) << run.table;
  EXPECT_TRUE(run.rows()[0].ends_with("N/A")) << run.table;
  EXPECT_TRUE(nlohmann::json::parse(run.json)["results"][0]["in_place"]["nwrong"].is_null());
}

TEST(NcclPerfRun, RefusesWhatDoesNotFitTheRanks) {
  const auto refused = [](const std::vector<const char*>& words) {
    try {
      measure(words);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused({"broadcast_perf", "-g", "2", "-r", "2"}), "--root 2 is not a rank of 0..1");
  EXPECT_EQ(refused({"hypercube_perf", "-g", "3"}),
            "hypercube needs a power of two of ranks, not 3");
}

TEST(NcclPerfRanks, HaveAllNumbersAndReturnTheWorst) {
  for (const bool join : {false, true}) {
    std::atomic<int> seen = 0;
    const int code = onRanks({.count = 3, .join = join}, [&](Communicator& c) {
      EXPECT_EQ(c.size(), 3);
      seen |= 1 << c.rank();
      return c.rank() == 1 ? 7 : c.rank();
    });
    EXPECT_EQ(code, 7);
    EXPECT_EQ(seen, 7);
  }
}

TEST(NcclPerfRanks, ThatFailEndTheOthersAndSayWhy) {
  for (const bool join : {false, true}) {
    std::atomic<int> ended = 0;
    try {
      onRanks({.count = 3, .join = join, .timeout = std::chrono::seconds(20)},
              [&](Communicator& c) {
                try {
                  c.barrier();  // all of them are made
                  if (c.rank() == 1) throw Error(ErrorCode::OutOfMemory, "no memory here");
                  c.barrier();
                } catch (const Error& error) {
                  EXPECT_NE(error.code(), ErrorCode::Timeout) << error.what();
                  ++ended;
                  throw;
                }
                return 0;
              });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "no memory here");
    }
    EXPECT_EQ(ended, 3);
  }
}

TEST(NcclPerfRanks, HaveTheirTimeout) {
  for (const bool join : {false, true}) {
    std::atomic<bool> over = false;
    try {
      onRanks({.count = 2, .join = join, .timeout = std::chrono::milliseconds(200)},
              [&](Communicator& c) {
                while (c.rank() == 1 && !over)
                  std::this_thread::sleep_for(std::chrono::milliseconds(1));
                if (c.rank() == 1) return 0;
                try {
                  c.barrier();
                } catch (...) {
                  over = true;
                  throw;
                }
                over = true;
                return 0;
              });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Timeout) << error.what();
    }
  }
}

}  // namespace
}  // namespace tutti::tools
