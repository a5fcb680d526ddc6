// The `tutti` command: finds the sub-command and hands over. By one of nccl-tests' names it is that
// program.

#include <fcntl.h>
#include <tutti/version.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "src/base/nearest_name.h"
#include "src/base/printable.h"
#include "src/tools/common/names.h"
#include "src/tools/doctor/doctor.h"
#include "src/tools/emulate/emulate.h"
#include "src/tools/explain/explain.h"
#include "src/tools/nccl_perf/nccl_perf.h"
#include "src/tools/perf/perf.h"
#include "src/tools/plan_training/plan_training.h"
#include "src/tools/run/run.h"
#include "src/tools/schedule/schedule.h"
#include "src/tools/shard/shard.h"
#include "src/tools/show_plan/show_plan.h"
#include "src/tools/simulate/simulate.h"
#include "src/tools/topo/topo.h"
#include "src/tools/tune/tune.h"
#include "src/tools/verify/verify.h"

namespace {

struct Command {
  const char* name;
  const char* summary;
  int (*run)(int argc, char** argv);  ///< argv[0] is the name
};

constexpr Command kCommands[] = {
    {"run", "start a program as N ranks on this host", tutti::tools::runMain},
    {"emulate", "run a program on emulated GPUs, without one", tutti::tools::emulateMain},
    {"perf", "measure and check a collective over a range of sizes", tutti::tools::perfMain},
    {"plan", "show the plan of a collective, step by step", tutti::tools::planMain},
    {"explain", "say which algorithm a call would take, and why", tutti::tools::explainMain},
    {"simulate", "say how long a collective would take on a cluster that need not exist",
     tutti::tools::simulateMain},
    {"shard", "say what ranks send and compute for a product of sharded tensors",
     tutti::tools::shardMain},
    {"schedule", "draw what the ranks of a pipeline do when, and say how long they idle",
     tutti::tools::scheduleMain},
    {"plan-training",
     "say which layouts of a training fit on so many devices, and how fast they are",
     tutti::tools::planTrainingMain},
    {"topo", "show what this machine has and which transports join its ranks",
     tutti::tools::topoMain},
    {"tune", "measure the algorithms here, and fit the chooser's constants to them",
     tutti::tools::tuneMain},
    {"verify", "say whether checkpoints are as they were written", tutti::tools::verifyMain},
    {"doctor", "say what is wrong or slow on this machine, and what mends it",
     tutti::tools::doctorMain},
};

void printHelp(std::FILE* to) {
  std::fputs("usage: tutti COMMAND [ARGUMENTS...]\n\n", to);
  for (const Command& command : kCommands)
    std::fprintf(to, "  %-14s %s\n", command.name, command.summary);
  std::fputs(
      "\ntutti COMMAND --help tells more; --version, also behind a COMMAND, prints the version.\n",
      to);
}

/// --version of every command and name of this program: true when that is all that is asked.
bool printedVersion(int argc, char** argv, const std::string& name) {
  if (argc < 2 || std::strcmp(argv[1], "--version") != 0) return false;
  std::printf("%s %s\n", name.c_str(), TUTTI_VERSION);
  return true;
}

int dispatch(int argc, char** argv) {
  if (argc > 0 && tutti::tools::isNcclPerf(argv[0])) {
    const std::string path = argv[0];
    if (printedVersion(argc, argv, path.substr(path.rfind('/') + 1) + " (Tutti)")) return 0;
    return tutti::tools::ncclPerfMain(argc, argv);
  }
  if (printedVersion(argc, argv, "tutti")) return 0;
  const char* name = argc > 1 ? argv[1] : "";
  for (const char* word : {"help", "--help", "-h"})
    if (std::strcmp(name, word) == 0) return printHelp(stdout), 0;
  for (const Command& command : kCommands) {
    if (std::strcmp(name, command.name) != 0) continue;
    if (printedVersion(argc - 1, argv + 1, std::string("tutti ") + name)) return 0;
    return command.run(argc - 1, argv + 1);
  }
  if (*name) {
    std::vector<std::string> names;
    for (const Command& command : kCommands) names.emplace_back(command.name);
    std::fprintf(stderr, "tutti: there is no command %s%s\n\n",
                 tutti::base::printable(name).c_str(),
                 tutti::base::didYouMean(name, names).c_str());
  }
  printHelp(stderr);
  return 2;
}

/// False, having said why, when what was printed is lost: a full disk shows here at the latest, as
/// what did not go then is tried once more. Whoever has closed the output wanted none of it.
bool printed() {
  if (::fcntl(STDOUT_FILENO, F_GETFD) < 0) return true;
  const bool lost = std::ferror(stdout) != 0;
  const bool written = std::fflush(stdout) == 0;
  if (written && !lost) return true;
  std::fprintf(stderr, "tutti: standard output could not be written: %s\n",
               written ? "a part of it is lost" : std::strerror(errno));
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int code = dispatch(argc, argv);
    return !printed() && code == 0 ? 1 : code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tutti: %s\n", tutti::base::printableLines(error.what()).c_str());
    return 1;
  }
}
