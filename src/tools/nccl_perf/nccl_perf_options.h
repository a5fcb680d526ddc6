#pragma once

// What a program with one of nccl-tests' names was asked for.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/tools/perf/perf_options.h"

namespace tutti::tools {

/// How the times of the ranks become one, with nccl-tests' numbers.
enum class PerfAverage : uint8_t { RankZero, Mean, Least, Most };

struct NcclPerfOptions {
  std::string program;  ///< "all_reduce_perf"
  /// Of all measurements; type, op and root are of one of them, and its iterations, warmups and
  /// check have no meaning.
  PerfOptions perf;
  std::vector<DataType> types{DataType::Float32};
  std::vector<ReduceOp> ops{ReduceOp::Sum};
  std::optional<int> root = 0;  ///< none: every rank in turn

  int threads = 1, gpus = 1;  ///< of this process, and of each thread
  bool parallelInit = false;

  int warmups = 5, iterations = 20;
  int aggregated = 1;     ///< calls of a group, in each iteration
  int cycles = 1;         ///< 0: for ever
  int graphLaunches = 0;  ///< of a graph of all timed calls; 0: they are made one by one
  int checks = 1;         ///< checked calls after each timing
  PerfAverage average = PerfAverage::Mean;
  bool blocking = false;           ///< each iteration is waited for, by a barrier too
  std::optional<bool> nullStream;  ///< calls complete before they return
  bool cpuTime = false, timestamps = false;
  std::chrono::seconds timeout{0};  ///< of one operation; 0: the library's
  std::string jsonFile;

  int ranksHere() const { return threads * gpus; }
  /// Where it was not said: of a GPU calls are queued, on the host they complete.
  bool completesCalls() const { return nullStream.value_or(perf.device == "host"); }
};

/// The collective of "all_reduce_perf", by its name in `tutti perf`; nothing when the program is
/// none of nccl-tests'.
std::optional<std::string> collectiveOf(std::string_view program);

/// nccl-tests' names: "half", "float", ...; "mulsum".
const char* ncclName(DataType type);
const char* ncclName(ReduceOp op);

/// As parsePerf(); argv[0] is the program's name.
std::variant<NcclPerfOptions, int> parseNcclPerf(int argc, const char* const* argv);

}  // namespace tutti::tools
