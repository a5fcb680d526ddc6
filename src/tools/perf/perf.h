#pragma once

// `tutti perf`: the time and bandwidth of one collective over a range of sizes, with nccl-tests'
// columns, bandwidth factors and correctness check.

namespace tutti::tools {

/// Runs the sub-command; `argv[0]` is its name. Returns the exit code: 0, 1 when a result was wrong
/// or a rank failed, 2 for a wrong command line.
int perfMain(int argc, char** argv);

}  // namespace tutti::tools
