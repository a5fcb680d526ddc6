#pragma once

// `tutti run -n N [--] PROGRAM ARGS`: starts the ranks of a job on this host.

#include <string>
#include <variant>
#include <vector>

#include <tutti/launch.h>

namespace tutti::tools {

/// Runs the sub-command; `argv[0]` is its name. Returns the job's exit code, 0 after --help, or 2
/// for a wrong command line.
int runMain(int argc, char** argv);

struct HelpWanted {};
/// What the arguments after the sub-command's name ask for. Options end at "--" or at the first
/// word that does not begin with '-', which is the program. Throws Error of code InvalidArgument
/// naming what is wrong.
std::variant<LaunchOptions, HelpWanted> parseRun(const std::vector<std::string>& arguments);

}  // namespace tutti::tools
