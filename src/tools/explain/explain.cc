#include "src/tools/explain/explain.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include <tutti/launch.h>
#include <tutti/tutti.h>

#include "collectives/chooser.h"
#include "collectives/cost_walk.h"
#include "src/base/check.h"
#include "src/base/printable.h"
#include "src/communicator/inspection.h"
#include "src/communicator/settings.h"
#include "src/tools/common/algorithm_times.h"
#include "src/tools/common/launch_ranks.h"
#include "src/tools/common/units.h"
#include "src/tools/perf/perf_options.h"

namespace tutti::tools {
namespace {

using collectives::Candidate;
using collectives::Choice;
using communicator::Inspection;
using Times = std::map<std::string, AlgorithmTime>;

// Of the table of sizes.
constexpr uint64_t kLeastBlock = 8, kLargestExplained = uint64_t{1} << 30;
constexpr int kTurns = 15;

template <class... Values>
std::string formatted(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

/// What the chooser knows.
struct Situation {
  plan::CollectiveRequest request;
  topology::Topology topology;
  topology::Tuning tuning;
  const collectives::AlgorithmFile* file = nullptr;  ///< or null
  const Times* times = nullptr;                      ///< measured, or null
};

std::string lineOf(const Situation& s, const Candidate& candidate, bool chosen) {
  const auto& info = collectives::infoOf(candidate.spec, s.file);
  const collectives::Cost cost = info.cost(candidate.spec);
  const double latency =
      collectives::predictMicroseconds(info, candidate.spec, 1, s.topology, s.tuning);
  std::string line = formatted("%c %12.2f %12.2f", chosen ? '*' : ' ', candidate.microseconds,
                               std::min(latency, candidate.microseconds));
  if (s.times) {
    const auto measured = std::ranges::find_if(*s.times, [&](const auto& entry) {
      return collectives::isNamed(candidate.spec, entry.first);
    });
    line += measured == s.times->end() ? formatted(" %12s", "-")
                                       : formatted(" %12.2f", measured->second.median());
  }
  const double sent = cost.blocksSent * static_cast<double>(s.request.blockBytes());
  return line + formatted(" %8d %14s  %s%s, %d channel%s\n", cost.steps,
                          bytesText(static_cast<uint64_t>(sent)).c_str(),
                          plan::toString(candidate.spec.algorithm),
                          candidate.spec.protocol == plan::Protocol::Mapped ? ", mapped" : "",
                          candidate.spec.channels, candidate.spec.channels == 1 ? "" : "s");
}

/// What is chosen as blocks grow.
std::string bySize(const Situation& s) {
  std::string text, current;
  uint64_t last = 0;
  const auto add = [&](const std::string& limit) { text += "  " + limit + current + "\n"; };
  for (uint64_t bytes = kLeastBlock; bytes <= kLargestExplained; bytes *= 2) {
    plan::CollectiveRequest request = s.request;
    request.count = std::max<uint64_t>(1, bytes / sizeOf(request.type));
    const Choice choice = collectives::choose(request, s.topology, s.tuning, s.file);
    std::string name = plan::toString(choice.spec.algorithm);
    if (choice.spec.channels > 1) name += formatted(", %d channels", choice.spec.channels);
    if (choice.mapped)
      name += base::message("; ", plan::toString(choice.mapped->algorithm),
                            " without staging where all buffers are mapped");
    if (last > 0 && name != current) add(formatted("up to %10s  ", bytesText(last).c_str()));
    current = name;
    last = bytes;
  }
  add(formatted("%-16s  ", "beyond"));
  return text;
}

std::string explanation(const Situation& s) {
  const Choice choice = collectives::choose(s.request, s.topology, s.tuning, s.file);
  std::string text = s.topology.describe() + "\n" + choice.reason + "\n\n";
  text += formatted("  %12s %12s", "predicted us", "for one byte");
  if (s.times) text += formatted(" %12s", "measured us");
  text += formatted(" %8s %14s  %s\n", "messages", "sent by a rank", "algorithm");
  for (const Candidate& candidate : choice.candidates)
    text += lineOf(
        s, candidate,
        candidate.spec == choice.spec || (choice.mapped && candidate.spec == *choice.mapped));
  if (s.times) {
    const auto chosen = s.times->find(kChosen);
    text += formatted("\nAs it is called, without forcing anything: %.2f us\n",
                      chosen->second.median());
  }
  return text + "\nBlocks of\n" + bySize(s);
}

/// This process is one of the ranks that measure.
int runRank(const ExplainOptions& o) {
  requireNothingForced();
  Communicator c = Communicator::create({.deterministic = o.request.deterministic});
  const PerfOptions perf{.collective = o.request.collective,
                         .collectiveName = plan::toString(o.request.collective),
                         .type = o.request.type,
                         .op = o.request.op,
                         .root = o.request.root};
  const Times times = AlgorithmTimes(c).measure(perf, o.request.blockBytes(), kTurns);
  if (c.rank() == 0)
    std::fputs(explanation({.request = o.request,
                            .topology = Inspection::topology(c),
                            .tuning = Inspection::tuning(c),
                            .times = &times})
                   .c_str(),
               stdout);
  return 0;
}

/// -n is the launcher's when ranks are started.
int run(const ExplainOptions& o, int argc, char** argv) {
  if (!o.measure) {
    const auto file = communicator::ownAlgorithmFile();
    std::fputs(explanation({o.request, o.job.topology(), o.job.tuning(), file.get()}).c_str(),
               stdout);
    return 0;
  }
  if (launchedRank()) return runRank(o);
  if (!o.job.tuningFile.empty()) ::setenv("TUTTI_TUNING", o.job.tuningFile.c_str(), 1);
  std::vector<std::string> words{"/proc/self/exe", "explain"};
  words.insert(words.end(), argv + 1, argv + argc);
  return launch({.command = std::move(words), .ranks = o.job.ranks, .prefixOutput = false});
}

}  // namespace

std::variant<ExplainOptions, int> parseExplain(int argc, const char* const* argv) {
  ExplainOptions o;
  std::string collective, count = "1M", type = "float32", op = "sum";
  CLI::App app{"Which algorithm a call would take, and why", "tutti explain"};
  app.add_option("collective", collective, plan::collectiveNames())->required();
  const JobOptions job(app, 4096);
  app.add_option("--count", count, "elements of one block (K, M, G)");
  app.add_option("-t,--type", type, "element type");
  app.add_option("-o,--op", op, "reduction");
  app.add_option("-r,--root", o.request.root, "root rank");
  app.add_flag("--deterministic", o.request.deterministic, "only what adds in the canonical order");
  app.add_flag("--measure", o.measure,
               "start the ranks here, and measure every algorithm; under a launcher in its job");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  const auto known = plan::parseCollective(collective);
  TUTTI_REQUIRE(known, "there is no collective '", collective, "': ", plan::collectiveNames());
  const auto parsedType = parseDataType(type);
  TUTTI_REQUIRE(parsedType, "--type ", type, " is no element type");
  const auto parsedOp = parseReduceOp(op);
  TUTTI_REQUIRE(parsedOp, "--op ", op, " is no reduction");
  o.request.collective = *known;
  o.request.count = parseBytes("--count", count);
  o.request.type = *parsedType;
  o.request.op = *parsedOp;
  o.request.mappable = true;
  o.job = job.parsed();
  TUTTI_REQUIRE(!plan::isReduction(*known) || isDefined(*parsedOp, *parsedType), "--op ", op,
                " is not defined for ", type);
  TUTTI_REQUIRE(o.request.root >= 0 && o.request.root < o.job.ranks, "--root ", o.request.root,
                " is not a rank of 0..", o.job.ranks - 1);
  TUTTI_REQUIRE(o.request.count <= (uint64_t{1} << 40), "--count ", count, " is more than 1T");
  TUTTI_REQUIRE(!o.measure || o.job.hostOf.empty(),
                "--measure starts ranks on this host: not with --hosts");
  TUTTI_REQUIRE(!o.measure || o.job.ranks > 1, "--measure needs two ranks or more");
  TUTTI_REQUIRE(!o.measure || *known != Collective::Barrier,
                "--measure compares what moves data, and a barrier moves none");
  return o;
}

int explainMain(int argc, char** argv) {
  ExplainOptions options;
  try {
    const auto parsed = parseExplain(argc, argv);
    if (const int* code = std::get_if<int>(&parsed)) return *code;
    options = std::get<ExplainOptions>(parsed);
  } catch (const Error& e) {
    std::fprintf(stderr, "tutti explain: %s\n", base::printableLines(e.what()).c_str());
    return 2;
  }
  try {
    return run(options, argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tutti explain: %s\n", base::printableLines(e.what()).c_str());
    return 1;
  }
}

}  // namespace tutti::tools
