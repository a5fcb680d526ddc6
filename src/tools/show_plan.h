#pragma once

// `tutti plan`: shows the plan of a collective without running it: who sends what to whom, step by
// step, in words and as a picture, as JSON or as SVG.

#include <string>
#include <variant>
#include <vector>

#include "src/plan/request.h"

namespace tutti::tools {

struct PlanOptions {
  plan::CollectiveRequest request;
  int ranks = 0;
  std::vector<int> hostOf;      ///< of each rank; empty: all on one
  int cores = 0;                ///< that the ranks of a host share; 0: one each
  std::string format = "text";  ///< "text", "json" or "svg"
};

/// What the command line asks for (argv[0] is the sub-command's name), or the exit code where
/// nothing is left to do. Throws InvalidArgument naming an option whose value makes no sense.
std::variant<PlanOptions, int> parsePlan(int argc, const char* const* argv);

/// The plan in the wanted format. Throws InvalidArgument when the algorithm asked for does not
/// exist for the collective.
std::string showPlan(const PlanOptions& options);

/// Runs the sub-command. Returns the exit code: 0, or 2 for a wrong command line.
int planMain(int argc, char** argv);

}  // namespace tutti::tools
