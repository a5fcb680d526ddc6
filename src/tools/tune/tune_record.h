#pragma once

// What `tutti tune` measured, as JSON: a line for each call.

#include <istream>
#include <string>
#include <vector>

#include "collectives/regret.h"

namespace tutti::tools {

/// How the choice for one call did.
struct Verdict {
  collectives::MeasuredCall call;
  double ratio = 1;       ///< of the chosen one's time and the best one's, turn by turn: the median
  double leastRatio = 1;  ///< the lower end of its 95% interval
};

std::string jsonOf(const Verdict& verdict);

/// The lines of a file. Throws InvalidArgument naming `where` and the line that is no such object.
std::vector<Verdict> readRecord(std::istream& lines, const std::string& where);

}  // namespace tutti::tools
