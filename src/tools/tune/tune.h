#pragma once

// `tutti tune`: measures what the algorithms take on this machine, and finds the constants with
// which the chooser takes the best of them.

#include <string>
#include <variant>
#include <vector>

namespace tutti::tools {

struct TuneOptions {
  int ranks = 0;                         ///< 0: join the launcher's job
  std::string file;                      ///< where the constants go; empty: standard output
  std::string record;                    ///< where measurements go, a JSON line each; or nowhere
  std::vector<std::string> from;         ///< recorded before, instead of measuring
  int turns = 7;                         ///< of each algorithm, for each call
  bool check = false;                    ///< only say how good the choices are now
  bool windows = true, ordinary = true;  ///< the kinds of memory to measure with
  std::vector<uint64_t> blockBytes;      ///< sizes of blocks to measure
};

/// What the command line asks for (argv[0] is the sub-command's name), or the exit code where
/// nothing is left to do. Throws InvalidArgument naming an option whose value makes no sense.
std::variant<TuneOptions, int> parseTune(int argc, const char* const* argv);

/// Runs the sub-command. Returns the exit code: 0, 1 when it failed, 2 for a wrong command line.
int tuneMain(int argc, char** argv);

}  // namespace tutti::tools
