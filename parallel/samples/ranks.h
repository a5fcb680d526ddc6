#pragma once

// How a sample becomes several ranks: it runs itself N times before anything else is initialized.

namespace tutti::parallel {

/// World size that a launcher's environment gives to this process; 1 without one.
int launchedRanks();

/// `--ranks n` asks for more than one process, and no launcher has started this one. Throws
/// InvalidArgument when a launcher has, with another number of ranks.
bool mustLaunch(int ranks);

/// Runs this program `ranks` times with the same arguments; returns the job's exit code.
int launchRanks(int argc, char** argv, int ranks);

}  // namespace tutti::parallel
