#pragma once

namespace tutti::tools {

/// Starts this program again as `ranks` local ranks of the sub-command, with all arguments but -n;
/// they join the job that the launcher describes. Returns the job's exit code. Throws InvalidUsage
/// in one of a launcher's several ranks, where each would start a job of its own.
int launchRanks(const char* command, int ranks, int argc, char** argv);

}  // namespace tutti::tools
