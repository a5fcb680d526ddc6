#include "src/tools/show_plan.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>

#include "collectives/chooser.h"
#include "src/base/check.h"
#include "src/communicator/state.h"
#include "src/plan/drawing.h"
#include "src/plan/hosts.h"
#include "src/plan/text.h"
#include "src/tools/perf_options.h"
#include "src/tools/plan/json.h"

namespace tutti::tools {

using plan::PlanSpec;
using plan::Program;

namespace {

/// Why this one: the machine that the chooser was told of, and all it considered.
std::string reasonOf(const PlanOptions& o, const collectives::Choice& choice,
                     const topology::Topology& topology) {
  if (!o.request.algorithm.empty()) return {};
  return topology.describe() + "\n" + choice.describe() + "\n";
}

PlanSpec specOf(const PlanOptions& o, const collectives::Choice& choice) {
  const std::string& name = o.request.algorithm;
  const std::vector<int> hosts = plan::hostsInOrder(o.hostOf);
  TUTTI_REQUIRE(name.empty() || collectives::exists(name, o.request.collective, o.ranks, hosts),
                "--algo ", name, " does not exist for ", plan::toString(o.request.collective),
                " on ", o.ranks, " ranks", hosts.empty() ? "" : " of several hosts");
  return name == "mapped" ? choice.mapped.value() : choice.spec;
}

/// The host of each rank: "2x4" is two hosts of four ranks each, "3,1,4" three of so many.
std::vector<int> parseHosts(const std::string& text, int ranks) {
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&] {
    int value = 0;
    const auto [rest, error] = std::from_chars(at, end, value);
    TUTTI_REQUIRE(error == std::errc() && value > 0 && value <= ranks, "--hosts ", text,
                  " is neither like 2x4 nor like 3,1,4, with numbers from 1 to the ", ranks,
                  " ranks");
    at = rest;
    return value;
  };
  std::vector<int> sizes{number()};
  if (at != end && *at == 'x') {
    ++at;
    sizes.assign(static_cast<size_t>(sizes[0]), number());
  }
  for (; at != end && *at == ','; sizes.push_back(number())) ++at;
  std::vector<int> hostOf;
  for (size_t host = 0; host < sizes.size(); ++host)
    hostOf.insert(hostOf.end(), static_cast<size_t>(sizes[host]), static_cast<int>(host));
  TUTTI_REQUIRE(at == end && hostOf.size() == static_cast<size_t>(ranks), "--hosts ", text,
                " does not place ", ranks, " ranks");
  return hostOf;
}

}  // namespace

std::variant<PlanOptions, int> parsePlan(int argc, const char* const* argv) {
  PlanOptions o;
  std::string collective, bytes = "1M", hosts;
  CLI::App app{"The plan of a collective, step by step, without running it", "tutti plan"};
  app.add_option("collective", collective, plan::collectiveNames())->required();
  app.add_option("-n,--ranks", o.ranks, "how many ranks")->required()->check(CLI::Range(1, 256));
  app.add_option("--algo", o.request.algorithm,
                 plan::algorithmNames() + "; without it what would be chosen, and why");
  app.add_option("-b,--bytes", bytes, "of one block, for the choice (K, M, G)");
  app.add_option("-r,--root", o.request.root, "root rank");
  app.add_option("--hosts", hosts,
                 "that the ranks are on, in order: 2x4 (two hosts of four ranks) or 3,1,4; one "
                 "without it");
  app.add_option("--cores", o.cores,
                 "that the ranks of a host share, for the choice; one each without it")
      ->check(CLI::Range(1, 4096));
  app.add_flag("--deterministic", o.request.deterministic, "only what adds in the canonical order");
  app.add_option("--format", o.format, "text (steps and a picture), json or svg")
      ->check(CLI::IsMember({"text", "json", "svg"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  const auto known = plan::parseCollective(collective);
  TUTTI_REQUIRE(known, "there is no collective '", collective, "'");
  o.request.collective = *known;
  o.request.count = parseBytes("-b", bytes);
  o.request.type = DataType::UInt8;
  o.request.mappable = true;
  if (!hosts.empty()) o.hostOf = parseHosts(hosts, o.ranks);
  TUTTI_REQUIRE(o.request.root >= 0 && o.request.root < o.ranks, "--root ", o.request.root,
                " is not a rank of 0..", o.ranks - 1);
  return o;
}

std::string showPlan(const PlanOptions& o) {
  topology::Topology topology{.ranks = o.ranks, .cores = o.cores, .hostOf = o.hostOf};
  if (topology.hosts() > 1) topology.channels = communicator::kNetworkChannels;
  if (o.cores == 0) topology.cores = topology.ranksPerHost();
  const collectives::Choice choice = collectives::choose(o.request, topology, {});
  const PlanSpec spec = specOf(o, choice);
  std::vector<Program> programs;
  for (int rank = 0; rank < o.ranks; ++rank) programs.push_back(collectives::build(spec, rank));
  if (o.format == "json") return plan::toJson(spec, programs) + "\n";
  if (o.format == "svg") return plan::drawSvg(spec, programs);
  return reasonOf(o, choice, topology) + plan::toText(spec, programs) + "\n" +
         plan::drawText(spec, programs);
}

int planMain(int argc, char** argv) {
  try {
    const auto parsed = parsePlan(argc, argv);
    if (const int* code = std::get_if<int>(&parsed)) return *code;
    std::fputs(showPlan(std::get<PlanOptions>(parsed)).c_str(), stdout);
    return 0;
  } catch (const Error& e) {
    std::fprintf(stderr, "tutti plan: %s\n", e.what());
    return 2;
  }
}

}  // namespace tutti::tools
