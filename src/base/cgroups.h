#pragma once

// Which control groups this process is in. Their files have the limits of containers and jobs.

#include <string>
#include <vector>

namespace tutti::base {

/// Where the kernel shows its groups and numbers; tests give folders of their own.
struct CgroupFiles {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

struct Cgroup {
  std::string path;    ///< "/job/step"; "/" is the root
  std::string folder;  ///< that has its files, with a slash at the end
  int version = 2;     ///< of control groups: 1 or 2
};

/// The groups of a controller ("memory", "cpu") whose limits hold for this process: its own, and
/// those around it, the innermost first. Of version 2 the only group is that of all controllers.
std::vector<Cgroup> cgroupsOf(const std::string& controller, const CgroupFiles& files = {});

}  // namespace tutti::base
