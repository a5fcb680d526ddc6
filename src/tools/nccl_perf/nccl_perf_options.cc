#include "src/tools/nccl_perf/nccl_perf_options.h"

#include <array>

#include "src/base/check.h"
#include "src/tools/common/command_line.h"
#include "src/tools/common/device_option.h"
#include "src/tools/common/names.h"
#include "src/tools/common/values.h"

namespace tutti::tools {
namespace {

constexpr std::array kPrograms{"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                               "reduce",     "alltoall",   "gather",         "scatter",
                               "sendrecv",   "hypercube",  "alltoallv"};

template <class Value>
struct Named {
  const char* name;
  Value value;
};
constexpr Named<DataType> kTypes[] = {
    {"int8", DataType::Int8},         {"uint8", DataType::UInt8},
    {"int32", DataType::Int32},       {"uint32", DataType::UInt32},
    {"int64", DataType::Int64},       {"uint64", DataType::UInt64},
    {"half", DataType::Float16},      {"float", DataType::Float32},
    {"double", DataType::Float64},    {"bfloat16", DataType::BFloat16},
    {"f8e4m3", DataType::Float8E4M3}, {"f8e5m2", DataType::Float8E5M2},
};
constexpr Named<ReduceOp> kOps[] = {
    {"sum", ReduceOp::Sum}, {"prod", ReduceOp::Prod}, {"max", ReduceOp::Max},
    {"min", ReduceOp::Min}, {"avg", ReduceOp::Avg},   {"mulsum", ReduceOp::PreMulSum},
};

template <class Value, size_t N>
std::vector<std::string> namesOf(const Named<Value> (&table)[N]) {
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(entry.name);
  names.emplace_back("all");
  return names;
}

/// The one of `table` that `text` names, or all of them.
template <class Value, size_t N>
std::vector<Value> parseNamed(const char* flag, const Named<Value> (&table)[N],
                              const std::string& text) {
  std::vector<Value> values;
  for (const auto& entry : table)
    if (text == "all" || text == entry.name) values.push_back(entry.value);
  requireName(flag, text.empty() ? "\"\"" : text, namesOf(table));
  return values;
}

template <class Value, size_t N>
const char* nameIn(const Named<Value> (&table)[N], Value value) {
  for (const auto& entry : table)
    if (entry.value == value) return entry.name;
  return toString(value);
}

std::optional<int> parseRoot(const std::string& text) {
  if (text == "all") return std::nullopt;
  return static_cast<int>(parseWhole("-r", text, 0, INT32_MAX));
}

/// Flags of nccl-tests about what Tutti does not have. Their defaults there are accepted.
struct RefusedFlags {
  int deviceImplementation = 0, memoryReport = 0;
  std::optional<int> ctaPolicy, ctaCount;

  void refuse() const {
    TUTTI_REQUIRE(deviceImplementation == 0, "-D ", deviceImplementation,
                  ": there are no kernels that communicate by themselves, only the library's");
    TUTTI_REQUIRE(memoryReport == 0, "-M ", memoryReport, ": no memory is reported");
    TUTTI_REQUIRE(!ctaPolicy, "-x ", *ctaPolicy,
                  ": the library chooses thread blocks; TUTTI_GPU_BLOCKS bounds them");
    TUTTI_REQUIRE(!ctaCount, "-V ", *ctaCount,
                  ": there are no kernels that communicate by themselves, whose blocks it counts");
  }
};

void requireGraphs(const NcclPerfOptions& o) {
  if (o.graphLaunches == 0) return;
  TUTTI_REQUIRE(o.perf.device != "host", "-G ", o.graphLaunches,
                ": there are no CUDA graphs of calls on host memory");
  TUTTI_REQUIRE(
      !o.completesCalls() && !o.blocking, "-G ", o.graphLaunches,
      ": calls of a graph are queued, so -y is 0, and no iteration is waited for, so -z is 0");
}

void validate(const NcclPerfOptions& o) {
  TUTTI_REQUIRE(o.perf.minBytes <= o.perf.maxBytes, "-b ", o.perf.minBytes, " is larger than -e ",
                o.perf.maxBytes);
  TUTTI_REQUIRE(o.ranksHere() <= 4096, "-t ", o.threads, " -g ", o.gpus,
                " are more than 4096 ranks in one process");
  // Receives of one group must not share memory, and hypercube's exchanges need their order.
  TUTTI_REQUIRE(o.aggregated == 1 || !o.perf.exchange, "-m ", o.aggregated, ": calls of ",
                o.program, " receive into the same memory, so they cannot be one group");
  TUTTI_REQUIRE(o.cycles > 0 || o.jsonFile.empty(), "-J ", o.jsonFile,
                " is written after the last cycle, and -N 0 has none");
  requireGraphs(o);
  for (const DataType type : o.types) {
    PerfOptions sizes = o.perf;
    sizes.type = type;
    sizes.sizes();
  }
}

/// The values that are not what they are kept as.
struct PerfWords {
  std::string minBytes = "32M", maxBytes = "32M", step = "1M";
  std::string type = "float", op = "sum", root = "0";
  int average = 1, localRegister = 0;
  int timeout = 0;
};

CLI::Range zeroOrOne() { return {0, 1}; }

void addRanksAndSizes(CommandLine& app, NcclPerfOptions& o, PerfWords& words) {
  app.add_option("-t,--nthreads", o.threads, "threads per process")->check(CLI::Range(1, 4096));
  app.add_option("-g,--ngpus", o.gpus,
                 "ranks per thread, each a thread of its own here: a process has threads x ranks")
      ->check(CLI::Range(1, 4096));
  app.add_option("-b,--minbytes", words.minBytes, "smallest size, bytes (K, M, G)");
  app.add_option("-e,--maxbytes", words.maxBytes, "largest size");
  app.add_option("-i,--stepbytes", words.step, "distance of sizes, without -f");
  app.add_option("-f,--stepfactor", o.perf.factor, "ratio of sizes; 1: by -i")
      ->check(CLI::Range(1, 1024));
}

void addIterations(CommandLine& app, NcclPerfOptions& o) {
  app.add_option("-n,--iters", o.iterations, "timed iterations of each size")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("-m,--agg_iters", o.aggregated, "calls of each iteration, in one group")
      ->check(CLI::Range(1, 10'000));
  app.add_option("-w,--warmup_iters", o.warmups, "calls before each timing, at least one")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("-N,--run_cycles", o.cycles, "times to go over all sizes; 0 for ever")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("-p,--parallel_init", o.parallelInit,
                 "1: ranks of one process join by themselves, at the same time; they always do "
                 "where there are several processes")
      ->check(zeroOrOne());
  app.add_option("-c,--check", o.checks, "calls after each timing whose every element is checked")
      ->check(CLI::Range(0, 1'000'000));
}

void addData(CommandLine& app, PerfWords& words) {
  app.add_option("-o,--op", words.op, "of reductions: " + listOfNames(namesOf(kOps)));
  app.add_option("-d,--datatype", words.type, listOfNames(namesOf(kTypes)));
  app.add_option("-r,--root", words.root, "of collectives with a root: a rank, or all");
}

void addCalls(CommandLine& app, NcclPerfOptions& o, PerfWords& words) {
  app.add_option("-z,--blocking", o.blocking,
                 "1: each iteration is waited for, and a barrier follows it")
      ->check(zeroOrOne());
  app.add_option("-y,--stream_null", o.nullStream,
                 "1: calls complete before they return; 0: they are queued on a stream of their "
                 "rank, which on the host costs them a hand-over to another thread; default 1, and "
                 "of a GPU 0")
      ->check(zeroOrOne());
  app.add_option("-T,--timeout", words.timeout, "seconds that a call may take; 0: TUTTI_TIMEOUT_MS")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("-G,--cudagraph", o.graphLaunches,
                 "of a GPU: the timed iterations become one CUDA graph, which is launched so many "
                 "times; 0: none")
      ->check(CLI::Range(0, 1'000'000));
}

void addReport(CommandLine& app, NcclPerfOptions& o, PerfWords& words) {
  app.add_option("-C,--report_cputime", o.cpuTime,
                 "1: the time column says how long the calls took to be made, which differs from "
                 "how long they took with -y 0")
      ->check(zeroOrOne());
  app.add_option("-S,--report_timestamps", o.timestamps, "1: each line ends with the time of day")
      ->check(zeroOrOne());
  app.addOutput("-J,--output_file", o.jsonFile, "also write the results to this file, as JSON");
  app.add_option("-a,--average", words.average,
                 "the time is that of 0: rank 0, 1: all ranks' mean, 2: the fastest rank, 3: the "
                 "slowest one")
      ->check(CLI::Range(0, 3));
}

void addMemory(CommandLine& app, NcclPerfOptions& o, PerfWords& words) {
  app.add_option("-R,--local_register", words.localRegister,
                 "buffers are 0: ordinary memory, 1 or 2: registered, which is memory that the "
                 "ranks of a host share")
      ->check(CLI::Range(0, 2));
  app.add_option("--device", o.perf.device, kDeviceHelp);
}

void addRefused(CommandLine& app, RefusedFlags& refused) {
  app.add_option("-x,--cta_policy", refused.ctaPolicy, "not taken")->default_str("");
  app.add_option("-D,--device_implementation", refused.deviceImplementation, "only 0 is there");
  app.add_option("-V,--device_cta_count", refused.ctaCount, "not taken")->default_str("");
  app.add_option("-M,--memory_report", refused.memoryReport, "only 0 is there");
}

/// In the order in which --help lists them.
void addOptions(CommandLine& app, NcclPerfOptions& o, PerfWords& words, RefusedFlags& refused) {
  addRanksAndSizes(app, o, words);
  addIterations(app, o);
  addData(app, words);
  addCalls(app, o, words);
  addReport(app, o, words);
  addMemory(app, o, words);
  addRefused(app, refused);
}

}  // namespace

std::optional<std::string> collectiveOf(std::string_view program) {
  for (const std::string_view name : kPrograms)
    if (program.size() == name.size() + 5 && program.starts_with(name) &&
        program.ends_with("_perf"))
      return std::string(name);
  return std::nullopt;
}

const char* ncclName(DataType type) { return nameIn(kTypes, type); }
const char* ncclName(ReduceOp op) { return nameIn(kOps, op); }

std::variant<NcclPerfOptions, int> parseNcclPerf(int argc, const char* const* argv) {
  NcclPerfOptions o{.program = argv[0]};
  const auto collective = collectiveOf(o.program);
  TUTTI_REQUIRE(collective, "there is no program ", o.program);
  o.perf.collectiveName = *collective;
  setCollective(o.perf);
  PerfWords words;
  RefusedFlags refused;
  CommandLine app(
      "Time and bandwidth of a collective, with nccl-tests' flags and table.\n"
      "Started by mpirun, srun, torchrun or tutti run, each process joins that job; without\n"
      "one it is alone",
      o.program);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // as getopt()
  addOptions(app, o, words, refused);
  if (const auto code = app.read(argc, argv)) return *code;
  refused.refuse();
  o.perf.minBytes = parseBytes("-b", words.minBytes);
  o.perf.maxBytes = parseBytes("-e", words.maxBytes);
  o.perf.stepBytes = parseBytes("-i", words.step);
  o.types = parseNamed("-d", kTypes, words.type);
  o.ops = parseNamed("-o", kOps, words.op);
  o.root = parseRoot(words.root);
  o.average = static_cast<PerfAverage>(words.average);
  o.perf.windows = words.localRegister > 0;
  requireDeviceWord(o.perf.device);
  o.timeout = std::chrono::seconds(words.timeout);
  validate(o);
  return o;
}

}  // namespace tutti::tools
