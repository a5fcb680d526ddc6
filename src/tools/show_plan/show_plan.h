#pragma once

// `tutti plan`: shows the plan of a collective without running it: who sends what to whom, step by
// step, in words and as a drawing, as JSON, and as a picture.

#include <memory>
#include <string>
#include <variant>

#include "collectives/algorithm_file.h"
#include "src/plan/request.h"
#include "src/tools/common/job.h"

namespace tutti::tools {

struct PlanOptions {
  plan::CollectiveRequest request;
  PlannedJob job;
  std::shared_ptr<const collectives::AlgorithmFile> file;  ///< with a plan to show; or null
  std::string jsonFile;                                    ///< empty: none
  std::string svgFile;                                     ///< where a picture goes too; or nowhere
};

/// What the command line asks for (argv[0] is the sub-command's name), or the exit code where
/// nothing is left to do. Throws InvalidArgument naming an option whose value makes no sense, or
/// what is wrong with the plan of a file.
std::variant<PlanOptions, int> parsePlan(int argc, const char* const* argv);

/// The plan as text or JSON; writes the picture. Throws InvalidArgument when the algorithm asked
/// for does not exist for the collective, System when the picture cannot be written.
std::string showPlan(const PlanOptions& options);

/// Runs the sub-command. Returns the exit code: 0, or 2 for a wrong command line.
int planMain(int argc, char** argv);

}  // namespace tutti::tools
