#pragma once

// `tutti simulate`: how long each algorithm would take on a cluster that need not exist.

#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include <tutti/types.h>

#include "src/plan/plan.h"

namespace tutti::tools {

struct SimulateOptions {
  plan::Collective collective = plan::Collective::AllReduce;
  std::vector<uint64_t>
      sizes;  ///< bytes, as `tutti perf` counts them: the largest buffer of a rank
  std::vector<int> ranks;
  std::string topology;   ///< a file, or the name of one that comes with the program
  std::string algorithm;  ///< empty: all that there are
  DataType type = DataType::Float32;
  int channels = 1;
  std::string jsonFile;  ///< empty: none
};

/// What the command line asks for (argv[0] is the sub-command's name), or the exit code where
/// nothing is left to do. Throws InvalidArgument naming an option whose value makes no sense.
std::variant<SimulateOptions, int> parseSimulate(int argc, const char* const* argv);

/// Prints one line for each number of ranks, size and algorithm, as soon as it can. `folder` has
/// the topologies with names. Throws InvalidArgument when the topology or the algorithm does not
/// exist, System when the JSON file cannot be written.
void simulate(const SimulateOptions& options, const std::filesystem::path& folder);

/// Runs the sub-command. Returns the exit code: 0, 1 when a file cannot be written, or 2 for a
/// wrong command line or topology.
int simulateMain(int argc, char** argv);

}  // namespace tutti::tools
