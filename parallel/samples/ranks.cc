#include "parallel/samples/ranks.h"

#include <algorithm>
#include <string>
#include <vector>

#include <tutti/launch.h>
#include "parallel/tensor/check.h"

namespace tutti::parallel {

RankPlan planRanks(int asked, const std::string& flags) {
  const auto given = launchedRank();
  if (!given || given->size == 1) return {.ranks = std::max(1, asked), .launch = asked > 1};
  require(asked == 0 || asked == given->size,
          flags.empty()
              ? message("--ranks ", asked)
              : message(flags, flags.find(" and ") == std::string::npos ? " makes " : " make ",
                        asked, " ranks"),
          ", and the launcher (", given->launcher, ") started ", given->size);
  return {.ranks = given->size};
}

int launchRanks(int argc, char** argv, int ranks) {
  std::vector<std::string> command{"/proc/self/exe"};
  command.insert(command.end(), argv + 1, argv + argc);
  return launch({.command = command, .ranks = ranks, .prefixOutput = false});
}

}  // namespace tutti::parallel
