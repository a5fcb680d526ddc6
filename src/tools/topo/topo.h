#pragma once

// `tutti topo`: what this machine has, how far apart it is, and which transport joins which ranks.

#include <string>
#include <variant>

namespace tutti::tools {

struct TopoOptions {
  int ranks = 0;         ///< on this host; 0: one for each core that this process may use
  std::string jsonFile;  ///< empty: none
  std::string svgFile;   ///< a picture too; empty: none
};

/// What the command line asks for (argv[0] is the sub-command's name), or the exit code where
/// nothing is left to do.
std::variant<TopoOptions, int> parseTopo(int argc, const char* const* argv);

/// Runs the sub-command. Returns the exit code: 0, 1 when the picture cannot be written, 2 for a
/// wrong command line.
int topoMain(int argc, char** argv);

}  // namespace tutti::tools
