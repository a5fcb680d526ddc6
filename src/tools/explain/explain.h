#pragma once

// `tutti explain`: which algorithm a call would take, and why: what each of them is predicted to
// take, and, where asked, does take.

#include <string>
#include <variant>

#include "src/plan/request.h"
#include "src/tools/common/job.h"

namespace tutti::tools {

struct ExplainOptions {
  plan::CollectiveRequest request;
  PlannedJob job;
  bool ranksGiven = false;  ///< -n was
  bool measure = false;     ///< start the ranks here, and measure too
  std::string jsonFile;     ///< empty: none
};

/// What the command line asks for (argv[0] is the sub-command's name), or the exit code where
/// nothing is left to do. Throws InvalidArgument naming an option whose value makes no sense.
std::variant<ExplainOptions, int> parseExplain(int argc, const char* const* argv);

/// Runs the sub-command. Returns the exit code: 0, 1 when it failed, 2 for a wrong command line.
int explainMain(int argc, char** argv);

}  // namespace tutti::tools
