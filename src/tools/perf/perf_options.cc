#include "src/tools/perf/perf_options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>

#include "src/base/check.h"
#include "src/tools/common/device_option.h"

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

std::string measurableNames() {
  std::string names = plan::collectiveNames();
  for (const NamedExchange& e : kExchanges) names += std::string(", ") + e.name;
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
  if (o.algorithm == "mapped") {
    TUTTI_REQUIRE(o.windows, "--algo mapped works on memory from allocate: not with --memory ",
                  "ordinary");
    TUTTI_REQUIRE(!plan::isReduction(o.collective) || o.op != ReduceOp::PreMulSum,
                  "--algo mapped does not exist for premulsum");
  }
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
  TUTTI_REQUIRE(collective, "there is no collective '", o.collectiveName, "': ", measurableNames());
  o.collective = *collective;
}

uint64_t parseBytes(const std::string& flag, const std::string& text) {
  uint64_t value = 0;
  double fraction = 0;
  const char* end = text.data() + text.size();
  const auto whole = std::from_chars(text.data(), end, value);
  const char* rest = whole.ptr;
  bool isNumber = whole.ec != std::errc::invalid_argument;
  const bool hasFraction = isNumber && rest != end && *rest == '.';
  if (hasFraction) {
    const auto parsed = std::from_chars(rest, end, fraction, std::chars_format::fixed);
    rest = parsed.ptr;
    isNumber = parsed.ec == std::errc();
  }
  int shift = 0;
  if (isNumber && rest + 1 == end) {
    switch (*rest++) {
      case 'k':
      case 'K': shift = 10; break;
      case 'm':
      case 'M': shift = 20; break;
      case 'g':
      case 'G': shift = 30; break;
      default: --rest;
    }
  }
  TUTTI_REQUIRE(isNumber && rest == end && !(hasFraction && shift == 0), flag, " ", text,
                " is not a size: a whole number of bytes, or a number with K, M or G");
  const uint64_t more = static_cast<uint64_t>(std::ldexp(fraction, shift));
  TUTTI_REQUIRE(whole.ec == std::errc() && value <= UINT64_MAX >> shift &&
                    more <= UINT64_MAX - (value << shift),
                flag, " ", text, " is more than 2^64 - 1 bytes");
  return (value << shift) + more;
}

std::vector<std::string> parseList(const std::string& flag, const std::string& text) {
  std::vector<std::string> words;
  for (size_t begin = 0, end = 0; end != text.size(); begin = end + 1) {
    end = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    TUTTI_REQUIRE(!words.back().empty(), flag, " \"", text, "\": between its commas is nothing");
  }
  return words;
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

std::variant<PerfOptions, int> parsePerf(int argc, const char* const* argv) {
  PerfOptions o;
  std::string minBytes = "32M", maxBytes = "32M", step = "0", type = "float32", op = "sum";
  std::string memory = "window";
  CLI::App app{"Time and bandwidth of a collective, with nccl-tests' columns", "tutti perf"};
  app.add_option("collective", o.collectiveName, measurableNames())->required();
  app.add_option("-n,--ranks", o.ranks, "local ranks to start; without it join the launcher's job")
      ->check(CLI::Range(1, 4096));
  app.add_option("-b,--minbytes", minBytes, "smallest size, bytes (K, M, G)");
  app.add_option("-e,--maxbytes", maxBytes, "largest size");
  app.add_option("-f,--stepfactor", o.factor, "ratio of sizes")->check(CLI::Range(1, 1024));
  app.add_option("-i,--stepbytes", step, "distance of sizes, with factor 1");
  app.add_option("-t,--type", type, "element type");
  app.add_option("-o,--op", op,
                 "sum, prod, min, max, avg, premulsum; of integers also bit_and, bit_or, bit_xor, "
                 "logical_and, logical_or, logical_xor");
  app.add_option("-r,--root", o.root, "root rank");
  app.add_option("--iters", o.iterations, "timed calls per size; 0 chooses")
      ->check(CLI::Range(0, 1000000));
  app.add_option("-w,--warmup", o.warmups, "calls before")->check(CLI::Range(0, 100000));
  app.add_option("-c,--check", o.check, "1 checks every element, 0 does not");
  app.add_option("--algo", o.algorithm,
                 "force " + plan::algorithmNames() +
                     "; or file, the plan of the file that TUTTI_ALGORITHM_FILE names");
  app.add_option("--transport", o.transport,
                 "shm, tcp or ucx, between all ranks, or shm+tcp or shm+ucx")
      ->check(CLI::IsMember({"shm", "tcp", "ucx", "shm+tcp", "shm+ucx"}));
  app.add_option("--memory", memory, "window (from allocate) or ordinary")
      ->check(CLI::IsMember({"window", "ordinary"}));
  app.add_option("--device", o.device, kDeviceHelp);
  app.add_flag("--deterministic", o.deterministic, "deterministic mode");
  app.add_option("--json", o.jsonFile, "also write a JSON line per size to this file");
  app.add_option("--plot", o.plotFile, "also draw the table into this SVG file; needs gnuplot");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  setCollective(o);
  const auto parsedType = parseDataType(type);
  TUTTI_REQUIRE(parsedType, "--type ", type, " is no element type");
  o.type = *parsedType;
  const auto parsedOp = parseReduceOp(op);
  TUTTI_REQUIRE(parsedOp, "--op ", op, " is no reduction");
  o.op = *parsedOp;
  o.minBytes = parseBytes("-b", minBytes);
  o.maxBytes = parseBytes("-e", maxBytes);
  o.stepBytes = parseBytes("-i", step);
  o.windows = memory == "window";
  validate(o);
  return o;
}

}  // namespace tutti::tools
