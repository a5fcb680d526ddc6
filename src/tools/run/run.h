#pragma once

// `tutti run -n N [--] PROGRAM ARGS`: starts the ranks of a job on this host.

#include <variant>

#include <tutti/launch.h>

namespace tutti::tools {

/// Runs the sub-command; `argv[0]` is its name. Returns the job's exit code, 0 after --help, or 2
/// for a wrong command line.
int runMain(int argc, char** argv);

/// What the command line asks for (argv[0] is the sub-command's name), or the exit code where
/// nothing is left to do. Options end at "--" or at the first word that does not begin with '-',
/// which is the program.
std::variant<LaunchOptions, int> parseRun(int argc, const char* const* argv);

}  // namespace tutti::tools
