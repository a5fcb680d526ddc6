#pragma once

// What a rank finds in its environment, and where its program is.

#include <string>
#include <vector>

namespace tutti::launcher {

/// This process's variables with those of a rank, which replace older ones. `cores` is how many
/// this process may use.
std::vector<std::string> rankEnvironment(int rank, int ranks, const std::string& uniqueId,
                                         int cores);

struct Program {
  std::string path;  ///< to execute, when error is 0
  int error = 0;     ///< ENOENT, EACCES, ...
};
/// As a shell looks for it: on PATH when the name has no slash.
Program findProgram(const std::string& name);

}  // namespace tutti::launcher
