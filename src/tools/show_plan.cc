#include "src/tools/show_plan.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "collectives/chooser.h"
#include "src/base/check.h"
#include "src/plan/drawing.h"
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
  TUTTI_REQUIRE(name.empty() || collectives::exists(name, o.request.collective, o.ranks), "--algo ",
                name, " does not exist for ", plan::toString(o.request.collective), " on ", o.ranks,
                " ranks");
  return name == "mapped" ? choice.mapped.value() : choice.spec;
}

}  // namespace

std::variant<PlanOptions, int> parsePlan(int argc, const char* const* argv) {
  PlanOptions o;
  std::string collective, bytes = "1M";
  CLI::App app{"The plan of a collective, step by step, without running it", "tutti plan"};
  app.add_option("collective", collective, plan::collectiveNames())->required();
  app.add_option("-n,--ranks", o.ranks, "how many ranks")->required()->check(CLI::Range(1, 256));
  app.add_option("--algo", o.request.algorithm,
                 plan::algorithmNames() + "; without it what would be chosen, and why");
  app.add_option("-b,--bytes", bytes, "of one block, for the choice (K, M, G)");
  app.add_option("-r,--root", o.request.root, "root rank");
  app.add_option("--cores", o.cores, "that the ranks share, for the choice; one each without it")
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
  TUTTI_REQUIRE(o.request.root >= 0 && o.request.root < o.ranks, "--root ", o.request.root,
                " is not a rank of 0..", o.ranks - 1);
  return o;
}

std::string showPlan(const PlanOptions& o) {
  const topology::Topology topology{.ranks = o.ranks, .cores = o.cores > 0 ? o.cores : o.ranks};
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
