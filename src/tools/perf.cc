#include "src/tools/perf.h"

#include <cstdio>
#include <fstream>

#include <tutti/launch.h>
#include <tutti/tutti.h>

#include "src/base/check.h"
#include "src/tools/perf_options.h"
#include "src/tools/perf_run.h"

namespace tutti::tools {
namespace {

/// This process is one rank of a job.
int runRank(const PerfOptions& options) {
  // Before joining, so that nobody is kept waiting by a file that cannot be written.
  const auto launched = launchedRank();
  std::ofstream json;
  if (!options.jsonFile.empty() && (!launched || launched->rank == 0)) {
    json.open(options.jsonFile);
    TUTTI_REQUIRE(json.good(), "--json ", options.jsonFile, " cannot be written");
  }
  Communicator c = Communicator::create({.deterministic = options.deterministic,
                                         .algorithm = options.algorithm,
                                         .transport = options.transport});
  return runPerf(c, options, {.json = json.is_open() ? &json : nullptr});
}

/// The ranks are this program again, without -n: they join the job that the launcher describes.
int launchRanks(const PerfOptions& options, int argc, char** argv) {
  std::vector<std::string> command{"/proc/self/exe", "perf"};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "-n" || word == "--ranks")
      ++i;
    else if (word.rfind("--ranks=", 0) != 0 && !(word.size() > 2 && word.rfind("-n", 0) == 0))
      command.push_back(word);
  }
  return launch({.command = std::move(command), .ranks = options.ranks, .prefixOutput = false});
}

}  // namespace

int perfMain(int argc, char** argv) {
  PerfOptions options;
  try {
    const auto parsed = parsePerf(argc, argv);
    if (const int* code = std::get_if<int>(&parsed)) return *code;
    options = std::get<PerfOptions>(parsed);
  } catch (const Error& e) {
    std::fprintf(stderr, "tutti perf: %s\n", e.what());
    return 2;
  }
  try {
    return options.ranks == 0 ? runRank(options) : launchRanks(options, argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tutti perf: %s\n", e.what());
    return 1;
  }
}

}  // namespace tutti::tools
