#pragma once

// What a rank finds in its environment, and where its program is.

#include <string>
#include <vector>

namespace tutti::launcher {

/// Who a rank is, for rankEnvironment().
struct RankFacts {
  int rank = 0, ranks = 1;
  std::string uniqueId;
  int restart = 0;  ///< how many times its job was started before
  int cores = 1;    ///< that this process may use
};
/// This process's variables with those of a rank, which replace older ones.
std::vector<std::string> rankEnvironment(const RankFacts& facts);

struct LaunchedProgram {
  std::string path;  ///< to execute, when error is 0
  int error = 0;     ///< ENOENT, EACCES, ...
};
/// As a shell looks for it: on PATH when the name has no slash.
LaunchedProgram findProgram(const std::string& name);

}  // namespace tutti::launcher
