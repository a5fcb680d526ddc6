#include "src/tools/show_plan/show_plan.h"

#include "collectives/chooser.h"
#include "src/base/check.h"
#include "src/base/cores.h"
#include "src/communicator/settings.h"
#include "src/plan/drawing.h"
#include "src/plan/hosts.h"
#include "src/plan/json.h"
#include "src/plan/text.h"
#include "src/tools/common/command_line.h"
#include "src/tools/common/names.h"
#include "src/tools/common/output_file.h"
#include "src/tools/common/values.h"

namespace tutti::tools {

using plan::PlanSpec;
using plan::Program;

namespace {

using collectives::AlgorithmFile;
using collectives::kByFile;

/// What the proof of a file's plan has shown.
std::string proofOf(const AlgorithmFile& file) {
  const collectives::Cost cost = file.info().cost(file.spec());
  return base::message(file.path(), " is proved: ", cost.steps, " messages follow one another, ",
                       "and a rank sends ", cost.blocksSent, " blocks at most\n");
}

/// Why this one: the machine that the chooser was told of, and all it considered.
std::string reasonOf(const PlanOptions& o, const collectives::Choice& choice,
                     const topology::Topology& topology) {
  const std::string& name = o.request.algorithm;
  if (!name.empty() && name != kByFile) return {};
  return (o.file ? proofOf(*o.file) : "") + topology.describe() + "\n" + choice.describe() + "\n";
}

PlanSpec specOf(const PlanOptions& o, const collectives::Choice& choice) {
  const std::string& name = o.request.algorithm;
  if (name == kByFile) {
    const bool maps = choice.mapped && choice.mapped->algorithm == plan::Algorithm::File;
    return maps ? *choice.mapped : choice.spec;
  }
  const std::vector<int> hosts = plan::hostsInOrder(o.job.hostOf);
  TUTTI_REQUIRE(name.empty() || collectives::exists(name, o.request.collective, o.job.ranks, hosts),
                "algorithm ", name, " does not exist for ", plan::toString(o.request.collective),
                " on ", o.job.ranks, " ranks", hosts.empty() ? "" : " of several hosts");
  if (name == collectives::kPreferAttached) return choice.attached.value();
  return name == collectives::kPreferMapped ? choice.mapped.value() : choice.spec;
}

/// The collective, the root, the ranks and the hosts are the plan's.
void takeFile(const std::string& path, const JobOptions& job, PlanOptions& o) {
  o.file = AlgorithmFile::read(path);
  const PlanSpec& spec = o.file->spec();
  o.request.algorithm = kByFile;
  o.request.collective = spec.collective;
  o.request.root = spec.root;
  o.job = job.parsed(spec.ranks);
  if (o.job.hostOf.empty()) o.job.hostOf = spec.hosts;
  if (o.job.cores == 0 && o.job.hostOf.empty()) o.job.cores = base::usableCores();
}

void takeNames(const std::vector<std::string>& names, const JobOptions& job, PlanOptions& o) {
  TUTTI_REQUIRE(!names.empty(), "name a collective, or --file");
  o.request.collective = collectiveNamed(names.back());
  if (names.size() == 2) o.request.algorithm = names[0];
  requireAlgorithm("algorithm", o.request.algorithm);
  o.job = job.parsed();
  TUTTI_REQUIRE(o.job.ranks > 0, "say by --ranks for how many");
  TUTTI_REQUIRE(o.request.root >= 0 && o.request.root < o.job.ranks, "--root ", o.request.root,
                " is not a rank of 0..", o.job.ranks - 1);
}

}  // namespace

std::variant<PlanOptions, int> parsePlan(int argc, const char* const* argv) {
  PlanOptions o;
  std::string bytes = "1M", file;
  std::vector<std::string> names;
  CommandLine app("The plan of a collective, step by step, without running it", "tutti plan");
  app.add_option("names", names,
                 "[ALGORITHM] COLLECTIVE: " + listOfNames(algorithmNames()) +
                     "; without one what would be chosen, and why. " +
                     listOfNames(collectiveNames()))
      ->expected(1, 2)
      ->type_name("[ALGORITHM] COLLECTIVE");
  const JobOptions job(app, 256);
  CLI::Option* const ranks = app.get_option("--ranks")->required(false);
  app.add_option("-b,--bytes", bytes, "of one block, for the choice (K, M, G)");
  CLI::Option* const root = app.add_option("-r,--root", o.request.root, "root rank");
  app.add_option("--file", file,
                 "prove and show the plan of this file, which --json has written; it says the "
                 "collective, the ranks and the root");
  app.add_flag("--deterministic", o.request.deterministic, "only what adds in the canonical order");
  app.addOutput("--json", o.jsonFile, "also write the steps to this file, as JSON in one line");
  app.addOutput("--svg", o.svgFile, "also draw a picture into this file");
  if (const auto code = app.read(argc, argv)) return *code;
  TUTTI_REQUIRE(file.empty() || (names.empty() && ranks->empty() && root->empty()),
                "--file says the collective, the ranks and the root: name none of these");
  if (file.empty())
    takeNames(names, job, o);
  else
    takeFile(file, job, o);
  o.request.count = parseBytes("-b", bytes);
  o.request.type = DataType::UInt8;
  o.request.mappable = true;
  return o;
}

std::string showPlan(const PlanOptions& o) {
  const topology::Topology topology = o.job.topology();
  const auto file = o.file ? o.file : communicator::ownAlgorithmFile();
  const collectives::Choice choice =
      collectives::choose(o.request, topology, o.job.tuning(), file.get());
  const PlanSpec spec = specOf(o, choice);
  std::vector<Program> programs;
  for (int rank = 0; rank < o.job.ranks; ++rank)
    programs.push_back(collectives::build(spec, rank, file.get()));
  writeIfNamed("--svg", o.svgFile, [&] { return plan::drawSvg(spec, programs); });
  writeIfNamed("--json", o.jsonFile, [&] { return plan::toJson(spec, programs) + "\n"; });
  return reasonOf(o, choice, topology) + plan::toText(spec, programs) + "\n" +
         plan::drawText(spec, programs);
}

int planMain(int argc, char** argv) {
  return runProgram<PlanOptions>(
      "tutti plan", [&] { return parsePlan(argc, argv); },
      [](const PlanOptions& o) {
        printBeside(showPlan(o), {o.jsonFile, o.svgFile});
        return 0;
      });
}

}  // namespace tutti::tools
