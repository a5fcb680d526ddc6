#include "parallel/samples/ranks.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <tutti/launch.h>
#include "parallel/tensor/check.h"

namespace tutti::parallel {

int launchedRanks() {
  for (const char* name :
       {"TUTTI_WORLD_SIZE", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return std::atoi(value);
  }
  return 1;
}

bool mustLaunch(int ranks) {
  const int launched = launchedRanks();
  require(launched == 1 || ranks == 0 || ranks == launched, "--ranks ", ranks,
          ", but a launcher has started this as one of ", launched, " ranks");
  return launched == 1 && ranks > 1;
}

int launchRanks(int argc, char** argv, int ranks) {
  std::vector<std::string> command{"/proc/self/exe"};
  command.insert(command.end(), argv + 1, argv + argc);
  return launch({.command = command, .ranks = ranks, .prefixOutput = false});
}

}  // namespace tutti::parallel
