#pragma once

// Locks that ThreadSanitizer does not see. Those of the standard library would tell it an order
// between host threads, streams and kernels that CUDA does not grant, and hide races behind it.

#include <atomic>
#include <cstdint>

namespace tutti::emulation {

/// Sleeps while *word is `expected`; may return early. Wakes all that sleep on it.
void sleepWhile(const std::atomic<uint32_t>& word, uint32_t expected);
void wakeAll(const std::atomic<uint32_t>& word);

class QuietMutex {
 public:
  void lock();
  void unlock();

 private:
  std::atomic<uint32_t> state_{0};  // 1: locked, 2: and somebody sleeps
};

/// For any number of waiters, which look again at what they wait for.
class QuietCondition {
 public:
  /// The caller holds `mutex`, which is free meanwhile.
  void wait(QuietMutex& mutex);
  void notifyAll();

 private:
  std::atomic<uint32_t> sequence_{0};
};

}  // namespace tutti::emulation
