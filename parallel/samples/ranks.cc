#include "parallel/samples/ranks.h"

#include <algorithm>
#include <string>
#include <vector>

#include <tutti/launch.h>
#include "parallel/tensor/check.h"

namespace tutti::parallel {

RankPlan planRanks(int asked) {
  const auto given = launchedRank();
  if (!given || given->size == 1) return {.ranks = std::max(1, asked), .launch = asked > 1};
  require(asked == 0 || asked == given->size, "--ranks ", asked, ", but ", given->launcher,
          " has started this as one of ", given->size, " ranks");
  return {.ranks = given->size};
}

int launchRanks(int argc, char** argv, int ranks) {
  std::vector<std::string> command{"/proc/self/exe"};
  command.insert(command.end(), argv + 1, argv + argc);
  return launch({.command = command, .ranks = ranks, .prefixOutput = false});
}

}  // namespace tutti::parallel
