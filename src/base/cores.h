#pragma once

// How many processors this process may use.

#include <sched.h>
#include <unistd.h>

#include <algorithm>

namespace tutti::base {

/// At least 1. The affinity mask, where it is not larger than the C library's set.
inline int usableCores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace tutti::base
