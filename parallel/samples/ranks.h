#pragma once

// How a sample becomes several ranks: under a launcher it is one of them already; otherwise
// `--ranks n` makes it run itself n times before anything else is initialized.

namespace tutti::parallel {

struct RankPlan {
  int ranks = 1;        ///< of the whole job
  bool launch = false;  ///< this process starts them and is none of them
};

/// From `--ranks` (0: not given) and what a launcher's variables say. A launcher's job of one rank
/// may still start more. Throws InvalidArgument when the two disagree, or when the launcher's
/// variables are malformed.
RankPlan planRanks(int asked);

/// Runs this program `ranks` times with the same arguments; returns the job's exit code.
int launchRanks(int argc, char** argv, int ranks);

}  // namespace tutti::parallel
