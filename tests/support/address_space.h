#pragma once

// A limit on the memory of this process, for tests of what is said when there is none. For a child
// of a test, as it cannot be raised again; without sanitizers, whose shadows need all of it.

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace tutti::tests {

/// What this process may have more than it has. False where it cannot be limited.
inline bool leaveMemory(uint64_t bytes) {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) + bytes;
  const struct rlimit limit { most, most };
  return pages > 0 && ::setrlimit(RLIMIT_AS, &limit) == 0;
}

}  // namespace tutti::tests
