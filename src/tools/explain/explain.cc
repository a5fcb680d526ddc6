#include "src/tools/explain/explain.h"

#include <cstdio>
#include <cstdlib>

#include <tutti/launch.h>
#include <tutti/tutti.h>

#include "src/base/check.h"
#include "src/communicator/inspection.h"
#include "src/communicator/settings.h"
#include "src/tools/common/algorithm_times.h"
#include "src/tools/common/command_line.h"
#include "src/tools/common/launch_ranks.h"
#include "src/tools/common/names.h"
#include "src/tools/common/output_file.h"
#include "src/tools/common/values.h"
#include "src/tools/explain/explain_report.h"

namespace tutti::tools {
namespace {

using communicator::Inspection;

constexpr int kTurns = 15;

void tellExplanation(const ExplainOptions& o, const Explanation& explanation) {
  writeIfNamed("--json", o.jsonFile, [&] { return explanationJson(explanation); });
  printBeside(explanationText(explanation), {o.jsonFile});
}

/// This process is one of the ranks that measure.
int runExplainRank(const ExplainOptions& o) {
  requireNothingForced();
  Communicator c = Communicator::create({.deterministic = o.request.deterministic});
  const PerfOptions perf{.collective = o.request.collective,
                         .collectiveName = plan::toString(o.request.collective),
                         .type = o.request.type,
                         .op = o.request.op,
                         .root = o.request.root};
  const auto times = AlgorithmTimes(c).measure(perf, o.request.blockBytes(), kTurns);
  if (c.rank() == 0)
    tellExplanation(o, explain({.request = o.request,
                                .topology = Inspection::topology(c),
                                .tuning = Inspection::tuning(c),
                                .times = &times}));
  return 0;
}

/// That a launcher has started as many ranks as -n says, where it is given.
void requireLaunched(const ExplainOptions& o, int started) {
  if (o.ranksGiven && o.job.ranks != started)
    base::fail(ErrorCode::InvalidUsage, "-n ", o.job.ranks, ": --measure measures the ", started,
               " ranks that the launcher started: leave -n out");
}

/// -n is the launcher's when ranks are started.
int runExplain(const ExplainOptions& o, int argc, char** argv) {
  if (!o.measure) {
    const auto file = communicator::ownAlgorithmFile();
    tellExplanation(o, explain({o.request, o.job.topology(), o.job.tuning(), file.get()}));
    return 0;
  }
  if (const auto launched = launchedRank()) {
    requireLaunched(o, launched->size);
    return runExplainRank(o);
  }
  if (!o.jsonFile.empty()) requireWritable("--json", o.jsonFile);
  if (!o.job.tuningFile.empty()) ::setenv("TUTTI_TUNING", o.job.tuningFile.c_str(), 1);
  std::vector<std::string> words{"/proc/self/exe", "explain"};
  words.insert(words.end(), argv + 1, argv + argc);
  return launch({.command = std::move(words), .ranks = o.job.ranks, .prefixOutput = false});
}

}  // namespace

std::variant<ExplainOptions, int> parseExplain(int argc, const char* const* argv) {
  ExplainOptions o;
  std::string collective, count = "1M", type = "float32", op = "sum";
  CommandLine app("Which algorithm a call would take, and why", "tutti explain");
  app.add_option("collective", collective, listOfNames(collectiveNames()))->required();
  const JobOptions job(app, 4096);
  app.add_option("--count", count, "elements of one block (K, M, G)");
  app.add_option("-t,--type", type, "element type: " + listOfNames(typeNames()));
  app.add_option("-o,--op", op, "reduction: " + listOfNames(opNames()));
  app.add_option("-r,--root", o.request.root, "root rank");
  app.add_flag("--deterministic", o.request.deterministic, "only what adds in the canonical order");
  app.add_flag("--measure", o.measure,
               "start the ranks here, and measure every algorithm; under a launcher in its job");
  app.addOutput("--json", o.jsonFile, "also write what is said to this file, as JSON in one line");
  if (const auto code = app.read(argc, argv)) return *code;
  o.ranksGiven = app.count("--ranks") > 0;
  o.request.collective = collectiveNamed(collective);
  o.request.count = parseBytes("--count", count);
  o.request.type = typeNamed("--type", type);
  o.request.op = opNamed("--op", op);
  o.request.mappable = true;
  o.job = job.parsed();
  TUTTI_REQUIRE(!plan::isReduction(o.request.collective) || isDefined(o.request.op, o.request.type),
                "--op ", op, " is not defined for ", type);
  TUTTI_REQUIRE(o.request.root >= 0 && o.request.root < o.job.ranks, "--root ", o.request.root,
                " is not a rank of 0..", o.job.ranks - 1);
  TUTTI_REQUIRE(o.request.count <= (uint64_t{1} << 40), "--count ", count, " is more than 1T");
  TUTTI_REQUIRE(!o.measure || o.job.hostOf.empty(),
                "--measure starts ranks on this host: not with --hosts");
  TUTTI_REQUIRE(!o.measure || o.job.ranks > 1, "--measure needs two ranks or more");
  TUTTI_REQUIRE(!o.measure || o.request.collective != plan::Collective::Barrier,
                "--measure compares what moves data, and a barrier moves none");
  return o;
}

int explainMain(int argc, char** argv) {
  return runProgram<ExplainOptions>(
      "tutti explain", [&] { return parseExplain(argc, argv); },
      [&](const ExplainOptions& options) { return runExplain(options, argc, argv); }, 1);
}

}  // namespace tutti::tools
