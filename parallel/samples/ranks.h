#pragma once

// How a sample becomes several ranks: under a launcher it is one of them already; otherwise
// `--ranks n` makes it run itself n times before anything else is initialized.

#include <string>

namespace tutti::parallel {

struct RankPlan {
  int ranks = 1;        ///< of the whole job
  bool launch = false;  ///< this process starts them and is none of them
};

/// From how many ranks the flags ask for (0: they do not say) and what a launcher's variables say.
/// A launcher's job of one rank may still start more. `flags` are those that ask; none: `--ranks`.
/// Throws InvalidArgument when flags and variables disagree, or when the variables are malformed.
RankPlan planRanks(int asked, const std::string& flags = "");

/// Runs this program `ranks` times with the same arguments; returns the job's exit code.
int launchRanks(int argc, char** argv, int ranks);

}  // namespace tutti::parallel
