#include "tests/emulation/runtime/memory/allocating_calls.h"

#include <mutex>

#include "tests/emulation/emulation.h"
#include "tests/emulation/sanitizers.h"

namespace tutti::emulation {
namespace {

struct LivingCounter {
  QuietMutex mutex;
  AllocatingCalls* now = nullptr;
};
LivingCounter& living() {
  static auto* const all = new LivingCounter;
  return *all;
}

}  // namespace

AllocatingCalls::AllocatingCalls() {
  std::lock_guard lock(living().mutex);
  if (living().now != nullptr) fail("two that count allocating calls");
  living().now = this;
}

AllocatingCalls::~AllocatingCalls() {
  std::lock_guard lock(living().mutex);
  living().now = nullptr;
}

int64_t AllocatingCalls::count() const {
  Ignored ignored;
  std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& [function, count] : counts_) sum += count;
  return sum;
}

std::string AllocatingCalls::describe() const {
  Ignored ignored;
  std::lock_guard lock(mutex_);
  std::string all;
  for (const auto& [function, count] : counts_)
    all += (all.empty() ? "" : ", ") + function + " " + std::to_string(count);
  return all;
}

void noteAllocatingCall(const char* function) {
  Ignored ignored;
  std::lock_guard lock(living().mutex);
  if (living().now == nullptr) return;
  std::lock_guard counts(living().now->mutex_);
  ++living().now->counts_[function];
}

}  // namespace tutti::emulation
