#include "src/base/process.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <new>
#include <vector>

#include "src/base/check.h"

namespace tutti::base {
namespace {

std::atomic<uint64_t> generation{1};
std::array<std::atomic<std::mutex*>, 16> freed{};

// Runs in a forked child, whose only thread is this one.
void afterFork() {
  generation.fetch_add(1, std::memory_order_relaxed);
  for (const auto& entry : freed)
    if (std::mutex* mutex = entry.load(std::memory_order_acquire)) new (mutex) std::mutex;
}

[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, afterFork);

}  // namespace

uint64_t processGeneration() { return generation.load(std::memory_order_relaxed); }

void ProcessGuard::requireOwner(const char* what) const {
  if (inForkedChild())
    fail(ErrorCode::InvalidUsage, what, ": process ", ::getpid(), " was forked from process ",
         owner_, ", and a forked child must not use what its parent made with Tutti");
}

void abandon(std::shared_ptr<void> state) {
  // Never destroyed, so that what it holds stays reachable to the end.
  static auto* kept = new std::vector<std::shared_ptr<void>>;
  static auto* mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  kept->push_back(std::move(state));
}

void freeInForkedChildren(std::mutex& mutex) {
  for (auto& entry : freed) {
    std::mutex* none = nullptr;
    if (entry.compare_exchange_strong(none, &mutex, std::memory_order_acq_rel)) return;
  }
  TUTTI_ASSERT(false, "more than ", freed.size(), " mutexes are freed in forked children");
}

}  // namespace tutti::base
