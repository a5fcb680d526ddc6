#include "src/tools/perf/perf_options.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/one_of.h"
#include "src/tools/common/command_line.h"
#include "src/tools/common/device_option.h"
#include "src/tools/common/names.h"
#include "src/tools/common/values.h"

namespace tutti::tools {
namespace {

struct NamedExchange {
  const char* name;
  PerfExchange exchange;
  Collective like;
};
constexpr NamedExchange kExchanges[] = {
    {"sendrecv", PerfExchange::SendReceive, Collective::Broadcast},
    {"alltoallv", PerfExchange::AllToAllV, Collective::AllToAll},
    {"hypercube", PerfExchange::HyperCube, Collective::AllGather},
    {"all_gatherv", PerfExchange::AllGatherV, Collective::AllGather},
    {"reduce_scatterv", PerfExchange::ReduceScatterV, Collective::ReduceScatter},
};

std::vector<std::string> measurableNames() {
  std::vector<std::string> names = collectiveNames();
  for (const NamedExchange& e : kExchanges) names.emplace_back(e.name);
  return names;
}

/// What was asked for can be measured, whoever takes part.
void validate(const PerfOptions& o) {
  TUTTI_REQUIRE(o.minBytes <= o.maxBytes, "-b ", o.minBytes, " is larger than -e ", o.maxBytes);
  TUTTI_REQUIRE(o.root >= 0, "--root ", o.root, " is not a rank");
  TUTTI_REQUIRE(o.ranks == 0 || o.root < o.ranks, "--root ", o.root, " is not a rank of 0..",
                o.ranks - 1);
  TUTTI_REQUIRE(!plan::isReduction(o.collective) || isDefined(o.op, o.type), "-o ", toString(o.op),
                " is not defined for ", toString(o.type));
  TUTTI_REQUIRE(o.collective != Collective::Scan || o.op != ReduceOp::Avg,
                "-o avg is not for scan: ranks would divide by different numbers");
  TUTTI_REQUIRE(!o.exchange || o.uneven() || o.algorithm.empty(), "--algo ", o.algorithm,
                " is of collectives: ", o.collectiveName, " is made of sends and receives");
  TUTTI_REQUIRE(o.exchange != PerfExchange::HyperCube || (o.ranks & (o.ranks - 1)) == 0,
                "hypercube needs a power of two of ranks, not ", o.ranks);
  TUTTI_REQUIRE(o.algorithm != "mapped" || o.windows,
                "--algo mapped works on memory from allocate: not with --memory ordinary");
  TUTTI_REQUIRE(o.algorithm != "attached" || !o.windows,
                "--algo attached works on ordinary memory: with --memory ordinary");
  TUTTI_REQUIRE(!plan::parseProtocol(o.algorithm) || !plan::isReduction(o.collective) ||
                    o.op != ReduceOp::PreMulSum,
                "--algo ", o.algorithm, " does not exist for premulsum");
  TUTTI_REQUIRE(o.plotFile.empty() || o.collective != Collective::Barrier,
                "--plot draws times over sizes, and a barrier has none");
  TUTTI_REQUIRE(o.plotFile.empty() || o.maxBytes > 0, "--plot draws nothing of 0 bytes");
  requireDeviceWord(o.device);
  o.sizes();
}

}  // namespace

void setCollective(PerfOptions& o) {
  for (const NamedExchange& e : kExchanges)
    if (o.collectiveName == e.name) {
      o.collective = e.like;
      o.exchange = e.exchange;
      return;
    }
  const auto collective = plan::parseCollective(o.collectiveName);
  if (!collective)
    refuseName(base::message("there is no collective '", o.collectiveName, "'"), o.collectiveName,
               measurableNames());
  o.collective = *collective;
}

std::vector<uint64_t> PerfOptions::sizes() const {
  if (collective == Collective::Barrier) return {0};
  std::vector<uint64_t> all;
  for (uint64_t size = minBytes;;) {
    TUTTI_REQUIRE(all.size() < kMostSizes, "-b ", minBytes, " -e ", maxBytes, " -f ", factor,
                  " -i ", stepBytes, " are more than ", kMostSizes, " sizes");
    all.push_back(size);
    uint64_t more = stepBytes ? stepBytes : uint64_t{1} << 20;
    // Beyond 2^64 as little as beyond maxBytes.
    if (factor > 1 && size > UINT64_MAX / static_cast<uint64_t>(factor)) break;
    if (factor > 1) more = size > 0 ? size * static_cast<uint64_t>(factor - 1) : sizeOf(type);
    if (more > maxBytes - size) break;
    size += more;
  }
  return all;
}

namespace {

/// The values that are not what they are kept as.
struct PerfTexts {
  std::string minBytes = "32M", maxBytes = "32M", step = "0", type = "float32", op = "sum";
  std::string memory = "window";
};

void addMeasured(CommandLine& app, PerfOptions& o, PerfTexts& texts) {
  app.add_option("collective", o.collectiveName,
                 listOfNames(measurableNames()) + "; none with --compare");
  app.add_option("-n,--ranks", o.ranks, "local ranks to start; without it join the launcher's job")
      ->check(CLI::Range(1, 4096))
      ->default_str("");
  app.add_option("-b,--minbytes", texts.minBytes, "smallest size, bytes (K, M, G)");
  app.add_option("-e,--maxbytes", texts.maxBytes, "largest size");
  app.add_option("-f,--stepfactor", o.factor, "ratio of sizes; 1: by -i")
      ->check(CLI::Range(1, 1024));
  app.add_option("-i,--stepbytes", texts.step, "distance of sizes, with factor 1; 0 is 1M");
  app.add_option("-t,--type", texts.type, "element type: " + listOfNames(typeNames()));
  app.add_option("-o,--op", texts.op,
                 "reduction: " + listOfNames(opNames()) +
                     "; those of bits and the logical ones are of integers");
  app.add_option("-r,--root", o.root, "root rank");
}

void addWay(CommandLine& app, PerfOptions& o, PerfTexts& texts) {
  app.add_option("--iters", o.iterations, "timed calls per size; 0 chooses")
      ->check(CLI::Range(0, 1000000));
  app.add_option("-w,--warmup", o.warmups, "calls before")->check(CLI::Range(0, 100000));
  app.add_option("--repeat", o.repetitions,
                 "times to go over all sizes; the table then has medians over them")
      ->check(CLI::Range(1, 1000));
  app.add_option("-c,--check", o.check, "1 checks every element, 0 does not")->default_str("1");
  app.add_option("--algo", o.algorithm,
                 "force " + listOfNames(algorithmNames()) +
                     "; or file, the plan of the file that TUTTI_ALGORITHM_FILE names");
  app.add_option("--transport", o.transport,
                 "shm, tcp or ucx, between all ranks, or shm+tcp or shm+ucx")
      ->check(base::oneOf({"shm", "tcp", "ucx", "shm+tcp", "shm+ucx"}));
  app.add_option("--memory", texts.memory, "window (from allocate) or ordinary")
      ->check(base::oneOf({"window", "ordinary"}));
  app.add_option("--device", o.device, kDeviceHelp);
  app.add_flag("--deterministic", o.deterministic, "deterministic mode");
}

void addOutputs(CommandLine& app, PerfOptions& o) {
  app.addOutput("--json", o.jsonFile, "also write a JSON line per size to this file");
  app.addOutput(
      "--csv", o.csvFile,
      "also write a row per size, out of place and in place, to this file, with a line of "
      "titles");
  app.addOutput("--plot", o.plotFile, "also draw the table into this SVG file; needs gnuplot");
  app.add_option(
         "--compare", o.compared,
         "measure nothing: the times in the second of two files of --json over those in the "
         "first")
      ->expected(2)
      ->type_name("FILE")
      ->default_str("");
}

/// What is compared was measured before.
void requireComparedAlone(const CommandLine& app) {
  for (const CLI::Option* option : app.get_options())
    TUTTI_REQUIRE(
        option->count() == 0 || option->check_lname("compare") || option->check_lname("plot"),
        "--compare measures nothing: not with ", option->get_name());
}

}  // namespace

std::variant<PerfOptions, int> parsePerf(int argc, const char* const* argv) {
  PerfOptions o;
  PerfTexts texts;
  CommandLine app("Time and bandwidth of a collective, with nccl-tests' columns", "tutti perf");
  addMeasured(app, o, texts);
  addWay(app, o, texts);
  addOutputs(app, o);
  if (const auto code = app.read(argc, argv)) return *code;
  if (!o.compared.empty()) {
    requireComparedAlone(app);
    return o;
  }
  TUTTI_REQUIRE(!o.collectiveName.empty(),
                "a collective is needed: ", listOfNames(measurableNames()));
  setCollective(o);
  o.type = typeNamed("--type", texts.type);
  o.op = opNamed("--op", texts.op);
  requireAlgorithm("--algo", o.algorithm);
  o.minBytes = parseBytes("-b", texts.minBytes);
  o.maxBytes = parseBytes("-e", texts.maxBytes);
  o.stepBytes = parseBytes("-i", texts.step);
  o.windows = texts.memory == "window";
  validate(o);
  return o;
}

}  // namespace tutti::tools
