#include "src/tools/simulate/simulate.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>

#include "collectives/simulate.h"
#include "src/base/check.h"
#include "src/tools/common/command_line.h"
#include "src/tools/common/names.h"
#include "src/tools/common/output_file.h"
#include "src/tools/common/values.h"
#include "src/tools/simulate/cluster_file.h"
#include "src/tools/simulate/simulate_report.h"

namespace tutti::tools {
namespace {

using collectives::AlgorithmInfo;
using plan::Collective;
using topology::Cluster;

constexpr int kMostSimulated = 1'000'000;
constexpr int kMostChannels = 32;
constexpr uint64_t kMostBytes = uint64_t{1} << 50;

/// Blocks of a rank's largest buffer.
uint64_t blocksOf(Collective c, int ranks) {
  return plan::givesBlocks(c) || plan::getsBlocks(c) ? static_cast<uint64_t>(ranks) : 1;
}

bool isWanted(const SimulateOptions& o, const AlgorithmInfo& info) {
  return o.algorithm.empty() || o.algorithm == plan::toString(info.algorithm);
}

/// The algorithm asked for exists for each number of ranks.
void validateAlgorithm(const SimulateOptions& o, const Cluster& cluster) {
  for (const int ranks : o.ranks) {
    const auto exists = [&](const AlgorithmInfo& info) {
      return isWanted(o, info) &&
             collectives::specOn(cluster, info, o.collective, ranks, o.channels);
    };
    TUTTI_REQUIRE(std::ranges::any_of(collectives::registry().algorithms(), exists), "--algo ",
                  o.algorithm, " does not exist for ", plan::toString(o.collective), " on ", ranks,
                  " ranks of ", cluster.hosts(ranks) > 1 ? "several hosts" : "one host");
  }
}

/// One algorithm's row for each size; none where it does not exist.
std::vector<SimulateRow> rowsOf(const SimulateOptions& o, const Cluster& cluster, int ranks,
                                const AlgorithmInfo& info) {
  const auto spec = collectives::specOn(cluster, info, o.collective, ranks, o.channels);
  if (!spec) return {};
  const collectives::Simulation simulation(info, *spec, cluster);
  const uint64_t blocks = blocksOf(o.collective, ranks), unit = sizeOf(o.type);
  std::vector<SimulateRow> rows;
  for (const uint64_t bytes : o.sizes) {
    const uint64_t block = bytes / blocks / unit * unit;  // whole elements of each block
    SimulateRow row{.ranks = ranks,
                    .bytes = block * blocks,
                    .algorithm = plan::toString(info.algorithm),
                    .refusal = simulation.refusal(block),
                    .ranksWalked = simulation.ranksWalked(),
                    .bounds = collectives::boundsOf(o.collective, ranks, block, cluster)};
    if (row.refusal.empty()) row.microseconds = simulation.microseconds(block);
    rows.push_back(std::move(row));
  }
  return rows;
}

void markFastest(std::vector<SimulateRow>& rows) {
  const auto fastest = std::ranges::min_element(rows, {}, [](const SimulateRow& row) {
    return row.microseconds.value_or(std::numeric_limits<double>::infinity());
  });
  fastest->fastest = fastest->microseconds.has_value();
}

/// Of all algorithms, for each size.
std::vector<std::vector<SimulateRow>> rowsBySize(const SimulateOptions& o, const Cluster& cluster,
                                                 int ranks) {
  std::vector<std::vector<SimulateRow>> bySize(o.sizes.size());
  for (const AlgorithmInfo& info : collectives::registry().algorithms()) {
    if (!isWanted(o, info)) continue;
    const std::vector<SimulateRow> rows = rowsOf(o, cluster, ranks, info);
    for (size_t i = 0; i < rows.size(); ++i) bySize[i].push_back(rows[i]);
  }
  for (std::vector<SimulateRow>& rows : bySize) markFastest(rows);
  return bySize;
}

void validate(const SimulateOptions& o) {
  TUTTI_REQUIRE(!o.sizes.empty(), "--size names no size");
  TUTTI_REQUIRE(!o.ranks.empty(), "--ranks names no number");
  for (const uint64_t bytes : o.sizes)
    TUTTI_REQUIRE(bytes <= kMostBytes, "--size ", bytes, " is more than ", kMostBytes, " bytes");
  std::vector<std::string> simulated = algorithmNames();
  std::erase_if(simulated, [](const std::string& name) { return plan::parseProtocol(name); });
  TUTTI_REQUIRE(!plan::parseProtocol(o.algorithm), "--algo ", o.algorithm,
                " is not simulated: take ", listOfNames(simulated), ", or all");
  requireName("--algo", o.algorithm, simulated);
}

}  // namespace

std::variant<SimulateOptions, int> parseSimulate(int argc, const char* const* argv) {
  SimulateOptions o;
  std::string collective, type = "float32";
  std::string sizes = "1G", ranks;
  CommandLine app(
      "How long each algorithm would take on a cluster, and how long any would have to: the plans\n"
      "that would run, walked step by step, with what the topology says of links and ranks",
      "tutti simulate");
  app.add_option("collective", collective, listOfNames(collectiveNames()))->required();
  app.add_option("-s,--size", sizes, "bytes (K, M, G), one or several with commas");
  app.add_option("-n,--ranks", ranks, "how many, one number or several with commas")->required();
  app.add_option("--topology", o.topology,
                 "a file that describes hosts and links (docs/reference/commands.md), or the name\n"
                 "of one that comes with the program: a100-8, h100-8, h100-8-one-nic, h100-8-pods")
      ->required();
  app.add_option("--algo", o.algorithm, "one algorithm instead of all")->default_str("all");
  app.add_option("-t,--type", type, "element type: " + listOfNames(typeNames()));
  app.add_option("--channels", o.channels, "lanes of each rank that take part in the work")
      ->check(CLI::Range(1, kMostChannels));
  app.addOutput("--json", o.jsonFile, "also write a JSON line per row to this file");
  if (const auto code = app.read(argc, argv)) return *code;
  o.collective = collectiveNamed(collective);
  o.type = typeNamed("--type", type);
  for (const std::string& size : parseList("--size", sizes))
    o.sizes.push_back(parseBytes("--size", size));
  for (const std::string& number : parseList("--ranks", ranks))
    o.ranks.push_back(static_cast<int>(parseWhole("--ranks", number, 1, kMostSimulated)));
  if (o.collective == Collective::Barrier) o.sizes = {0};
  if (o.algorithm == "all") o.algorithm.clear();
  validate(o);
  return o;
}

void simulate(const SimulateOptions& o, const std::filesystem::path& folder) {
  const Cluster cluster = readCluster(o.topology, folder);
  validateAlgorithm(o, cluster);
  std::optional<OutputFile> json;
  if (!o.jsonFile.empty()) json.emplace("--json", o.jsonFile);
  std::FILE* const table = isStandardOutput(o.jsonFile) ? stderr : stdout;
  std::fputs(simulateHeader(o, cluster).c_str(), table);
  for (const int ranks : o.ranks)
    for (const std::vector<SimulateRow>& rows : rowsBySize(o, cluster, ranks))
      for (const SimulateRow& row : rows) {
        printNow(table, simulateLine(o, row));
        if (json) json->stream() << simulateJson(o, cluster, row);
      }
  if (json) json->commit();
}

int simulateMain(int argc, char** argv) {
  return runProgram<SimulateOptions>(
      "tutti simulate", [&] { return parseSimulate(argc, argv); },
      [](const SimulateOptions& o) {
        simulate(o, clusterFolder());
        return 0;
      });
}

}  // namespace tutti::tools
