#include "src/tools/simulate/simulate.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>
#include <optional>

#include "collectives/simulate.h"
#include "src/base/check.h"
#include "src/base/printable.h"
#include "src/tools/common/output_file.h"
#include "src/tools/perf/perf_options.h"
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

int parseRanks(const std::string& text) {
  int ranks = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, ranks);
  TUTTI_REQUIRE(error == std::errc() && rest == end && ranks >= 1 && ranks <= kMostSimulated,
                "--ranks ", text, " is not a number from 1 to ", kMostSimulated);
  return ranks;
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
  if (o.algorithm.empty()) return;
  for (int i = 0; i < plan::kAlgorithmCount; ++i)
    if (o.algorithm == plan::toString(static_cast<plan::Algorithm>(i))) return;
  base::fail(ErrorCode::InvalidArgument, "--algo ", o.algorithm, " is not all or one of ",
             plan::algorithmNames(), ", and mapped is not simulated");
}

}  // namespace

std::variant<SimulateOptions, int> parseSimulate(int argc, const char* const* argv) {
  SimulateOptions o;
  std::string collective, type = "float32";
  std::string sizes = "1G", ranks;
  CLI::App app{
      "How long each algorithm would take on a cluster, and how long any would have to: the plans\n"
      "that would run, walked step by step, with what the topology says of links and ranks",
      "tutti simulate"};
  app.add_option("collective", collective, plan::collectiveNames())->required();
  app.add_option("-s,--size", sizes, "bytes (K, M, G), one or several with commas")
      ->capture_default_str();
  app.add_option("-n,--ranks", ranks, "how many, one number or several with commas")->required();
  app.add_option("--topology", o.topology,
                 "a file that describes hosts and links (docs/reference/commands.md), or the name\n"
                 "of one that comes with the program: a100-8, h100-8, h100-8-one-nic, h100-8-pods")
      ->required();
  app.add_option("--algo", o.algorithm, "one algorithm instead of all")->default_str("all");
  app.add_option("-t,--type", type, "element type")->capture_default_str();
  app.add_option("--channels", o.channels, "lanes of each rank that take part in the work")
      ->check(CLI::Range(1, kMostChannels))
      ->capture_default_str();
  app.add_option("--json", o.jsonFile, "also write a JSON line per row to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  const auto known = plan::parseCollective(collective);
  TUTTI_REQUIRE(known, "there is no collective '", collective, "': ", plan::collectiveNames());
  o.collective = *known;
  const auto parsedType = parseDataType(type);
  TUTTI_REQUIRE(parsedType, "--type ", type, " is no element type");
  o.type = *parsedType;
  for (const std::string& size : parseList("--size", sizes))
    o.sizes.push_back(parseBytes("--size", size));
  for (const std::string& number : parseList("--ranks", ranks))
    o.ranks.push_back(parseRanks(number));
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
  std::fputs(simulateHeader(o, cluster).c_str(), stdout);
  for (const int ranks : o.ranks)
    for (const std::vector<SimulateRow>& rows : rowsBySize(o, cluster, ranks))
      for (const SimulateRow& row : rows) {
        printNow(stdout, simulateLine(o, row));
        if (json) json->stream() << simulateJson(o, cluster, row);
      }
  if (json) json->commit();
}

int simulateMain(int argc, char** argv) {
  try {
    const auto parsed = parseSimulate(argc, argv);
    if (const int* code = std::get_if<int>(&parsed)) return *code;
    simulate(std::get<SimulateOptions>(parsed), clusterFolder());
    return 0;
  } catch (const Error& e) {
    std::fprintf(stderr, "tutti simulate: %s\n", base::printableLines(e.what()).c_str());
    return e.code() == ErrorCode::InvalidArgument ? 2 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tutti simulate: %s\n", base::printableLines(e.what()).c_str());
    return 1;
  }
}

}  // namespace tutti::tools
