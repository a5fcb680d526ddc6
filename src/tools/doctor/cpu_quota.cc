#include "src/tools/doctor/cpu_quota.h"

#include <charconv>
#include <fstream>
#include <sstream>

#include "src/base/check.h"

namespace tutti::tools {
namespace {

using base::Cgroup;

/// Microseconds of each period; not positive: there is no limit.
struct Budget {
  long quota = -1, period = 0;
};

/// "max 100000" has no number, and leaves the quota as it is.
Budget budgetOf(const Cgroup& group) {
  Budget budget;
  if (group.version == 2) {
    std::ifstream(group.folder + "cpu.max") >> budget.quota >> budget.period;
  } else {
    std::ifstream(group.folder + "cpu.cfs_quota_us") >> budget.quota;
    std::ifstream(group.folder + "cpu.cfs_period_us") >> budget.period;
  }
  return budget;
}

/// How many a list like "0-3,8" names; nothing where it is none.
std::optional<int> countOf(const std::string& list) {
  int count = 0;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    int first = 0;
    const char* const end = part.data() + part.size();
    auto [at, error] = std::from_chars(part.data(), end, first);
    int last = first;
    if (error == std::errc() && at != end && *at == '-') {
      const auto more = std::from_chars(at + 1, end, last);
      at = more.ptr;
      error = more.ec;
    }
    if (error != std::errc() || at != end || first < 0 || last < first) return std::nullopt;
    count += last - first + 1;
  }
  return count;
}

}  // namespace

std::optional<CpuQuota> cpuQuota(const base::CgroupFiles& files) {
  std::optional<CpuQuota> narrowest;
  for (const Cgroup& group : base::cgroupsOf("cpu", files)) {
    const Budget budget = budgetOf(group);
    if (budget.quota <= 0 || budget.period <= 0) continue;
    const double cpus = static_cast<double>(budget.quota) / static_cast<double>(budget.period);
    if (narrowest && narrowest->cpus <= cpus) continue;
    narrowest = {cpus, base::message("CPU cgroup ", group.path, " (", budget.quota, " of each ",
                                     budget.period, " us)")};
  }
  return narrowest;
}

std::optional<CpuSetLimit> cpuSetLimit(const base::CgroupFiles& files) {
  for (const Cgroup& group : base::cgroupsOf("cpuset", files)) {
    std::string list;
    const char* const name = group.version == 2 ? "cpuset.cpus.effective" : "cpuset.cpus";
    if (!(std::ifstream(group.folder + name) >> list)) continue;
    if (const auto count = countOf(list))
      return CpuSetLimit{*count, base::message("cpuset ", list, " of cgroup ", group.path)};
  }
  return std::nullopt;
}

}  // namespace tutti::tools
