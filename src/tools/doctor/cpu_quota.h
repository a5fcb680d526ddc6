#pragma once

// How much of the processors' time the control groups of this process leave it.

#include <optional>
#include <string>

#include "src/base/cgroups.h"

namespace tutti::tools {

/// The narrowest of those that hold.
struct CpuQuota {
  double cpus = 0;     ///< time of so many processors: 0.5 is half of one
  std::string within;  ///< whose: "CPU cgroup /job (50000 of each 100000 us)"
};

/// Nothing where there is no limit. Understands cgroups of version 1 and 2.
std::optional<CpuQuota> cpuQuota(const base::CgroupFiles& files = {});

/// The processors of the innermost cpuset.
struct CpuSetLimit {
  int count = 0;
  std::string within;  ///< "cpuset 0-3,8 of cgroup /job"
};
/// Nothing where none can be read.
std::optional<CpuSetLimit> cpuSetLimit(const base::CgroupFiles& files = {});

}  // namespace tutti::tools
