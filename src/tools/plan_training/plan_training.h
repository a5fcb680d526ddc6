#pragma once

// `tutti plan-training`: which layouts of a training fit on so many devices, and how long a step
// takes under each.

#include <string>
#include <variant>

#include "parallel/planner/planner.h"
#include "src/topology/cluster.h"

namespace tutti::tools {

struct PlanTrainingOptions {
  std::string model;  ///< a name, or a folder of Hugging Face's
  parallel::TrainingJob job;
  int devices = 1;
  uint64_t memoryBytes = 0;  ///< of a device
  std::string topology;
  topology::Cluster cluster;
  int limit = 10;        ///< rows
  std::string jsonFile;  ///< empty: none
};

/// What the command line asks for (argv[0] is the sub-command's name), or the exit code where
/// nothing is left to do. `folder` has the topologies with names. Throws InvalidArgument naming an
/// option whose value makes no sense.
std::variant<PlanTrainingOptions, int> parsePlanTraining(int argc, const char* const* argv,
                                                         const std::filesystem::path& folder);

/// As far as a cluster says it.
parallel::DeviceRates ratesOf(const topology::Cluster& cluster, DataType type);

/// For people: a row for each layout that fits, with the reason, and what those are too large for
/// that do not.
std::string planTrainingText(const PlanTrainingOptions& options, const parallel::Plan& plan);
/// For programs, one line; docs/how-to/plan-a-training.md lists the fields.
std::string planTrainingJson(const PlanTrainingOptions& options, const parallel::Plan& plan);

/// Runs the sub-command. Returns the exit code: 0, 1 when nothing fits or something failed, 2 for a
/// wrong command line.
int planTrainingMain(int argc, char** argv);

}  // namespace tutti::tools
