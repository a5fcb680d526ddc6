#include "tests/emulation/runtime/launched_kernels.h"

#include <mutex>

#include "tests/emulation/emulation.h"
#include "tests/emulation/sanitizers.h"

namespace tutti::emulation {
namespace {

struct Counting {
  QuietMutex mutex;
  LaunchedKernels* now = nullptr;
};
Counting& counting() {
  static auto* const all = new Counting;
  return *all;
}

}  // namespace

LaunchedKernels::LaunchedKernels() {
  std::lock_guard lock(counting().mutex);
  if (counting().now != nullptr) fail("two that count kernels");
  counting().now = this;
}

LaunchedKernels::~LaunchedKernels() {
  std::lock_guard lock(counting().mutex);
  counting().now = nullptr;
}

LaunchedKernels::Count LaunchedKernels::of(const std::string& part) const {
  Ignored ignored;
  std::lock_guard lock(mutex_);
  Count sum;
  for (const auto& [name, count] : counts_)
    if (name.find(part) != std::string::npos) {
      sum.asked += count.asked;
      sum.begun += count.begun;
    }
  return sum;
}

void noteKernel(const std::string& name, int64_t LaunchedKernels::Count::*what) {
  Ignored ignored;
  std::lock_guard lock(counting().mutex);
  if (counting().now == nullptr) return;
  LaunchedKernels& kernels = *counting().now;
  std::lock_guard counts(kernels.mutex_);
  ++(kernels.counts_[name].*what);
}

}  // namespace tutti::emulation
