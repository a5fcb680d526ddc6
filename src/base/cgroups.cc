#include "src/base/cgroups.h"

#include <fstream>

#include "src/base/check.h"

namespace tutti::base {
namespace {

void addWithThoseAround(std::string path, const std::string& mount, int version,
                        std::vector<Cgroup>& groups) {
  if (path == "/") path.clear();
  while (true) {
    groups.push_back({path.empty() ? "/" : path, mount + path + "/", version});
    if (path.empty()) return;
    path.resize(path.rfind('/'));
  }
}

}  // namespace

std::vector<Cgroup> cgroupsOf(const std::string& controller, const CgroupFiles& files) {
  std::vector<Cgroup> groups;
  std::ifstream lines(files.proc + "/self/cgroup");
  for (std::string line; std::getline(lines, line);) {  // "0::/path" or "4:memory,other:/path"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = message(",", line.substr(first + 1, second - first - 1), ",");
    const std::string path = line.substr(second + 1);
    if (path.empty() || path[0] != '/') continue;
    if (controllers == ",,")
      addWithThoseAround(path, files.cgroup, 2, groups);
    else if (controllers.find("," + controller + ",") != std::string::npos)
      addWithThoseAround(path, files.cgroup + "/" + controller, 1, groups);
  }
  return groups;
}

}  // namespace tutti::base
