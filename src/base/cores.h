#pragma once

// How many processors this process may use, and keeping to one of them.

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

/// Keeps this thread to the `index`th of the processors that it may use, counted around, for as
/// long as this lives. Ranks that are woken together may else share one until the kernel moves one
/// away.
class KeptToCore {
 public:
  explicit KeptToCore(int index) {
    if (::sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    int left = index % CPU_COUNT(&before_);
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (!CPU_ISSET(core, &before_) || left-- > 0) continue;
      cpu_set_t own;
      CPU_ZERO(&own);
      CPU_SET(core, &own);
      kept_ = ::sched_setaffinity(0, sizeof own, &own) == 0;
      return;
    }
  }
  ~KeptToCore() {
    if (kept_) ::sched_setaffinity(0, sizeof before_, &before_);
  }
  KeptToCore(const KeptToCore&) = delete;
  KeptToCore& operator=(const KeptToCore&) = delete;

 private:
  cpu_set_t before_;
  bool kept_ = false;
};

}  // namespace tutti::base
