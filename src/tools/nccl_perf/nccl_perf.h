#pragma once

// The programs with nccl-tests' names (all_reduce_perf, ...), flags and table. They are the `tutti`
// command by other names, need no MPI, and join the job of any launcher. What nccl-tests calls a
// GPU is a rank here: a thread with host memory.

#include <string_view>

namespace tutti::tools {

/// Whether a program of this name is one of them.
bool isNcclPerf(std::string_view program);

/// Runs the program that `argv[0]` names, with any folders before it. Returns the exit code: 0, 1
/// when a result was wrong or a rank failed, 2 for a wrong command line.
int ncclPerfMain(int argc, char** argv);

}  // namespace tutti::tools
