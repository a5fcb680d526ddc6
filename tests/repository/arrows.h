#pragma once

// The arrows between folders: the table that cmake/TuttiArrows.cmake wrote into the build folder,
// and the includes of a tree that go against it.

#include <istream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/repository/source_tree.h"

namespace tutti::repository {

/// Per folder, the folders that it may include besides itself.
using Arrows = std::map<std::string, std::set<std::string>>;

/// Reads lines "folder : allowed allowed". Throws std::runtime_error for a line of another form, a
/// folder with two lines, and an allowed folder that has no line.
Arrows parseArrows(std::istream& in);

/// A name of `arrows` twice on one way from itself, "a -> b -> a"; empty when there is no cycle.
std::string findCycle(const Arrows& arrows);

/// One sentence for every include of src/, transports/, collectives/, parallel/ and include/ that
/// the arrows do not allow, and for every folder there without a line. `counted` gets the number
/// of the project's own includes that were looked at.
std::vector<std::string> findViolations(const Arrows& arrows, const std::vector<SourceFile>& files,
                                        int* counted);

}  // namespace tutti::repository
