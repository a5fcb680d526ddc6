#include "src/tools/common/launch_ranks.h"

#include <string>
#include <utility>
#include <vector>

#include <tutti/launch.h>

#include "src/base/check.h"

namespace tutti::tools {

int launchRanks(const char* command, int ranks, int argc, char** argv) {
  if (const auto launched = launchedRank(); launched && launched->size > 1)
    base::fail(ErrorCode::InvalidUsage, "-n ", ranks, " would start ", ranks,
               " ranks in each of the ", launched->size, " ranks that the launcher (",
               launched->launcher, ") started: leave -n out, and these are the ranks");
  std::vector<std::string> words{"/proc/self/exe", command};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "-n" || word == "--ranks")
      ++i;
    else if (!word.starts_with("--ranks=") && !(word.size() > 2 && word.starts_with("-n")))
      words.push_back(word);
  }
  return launch({.command = std::move(words), .ranks = ranks, .prefixOutput = false});
}

}  // namespace tutti::tools
