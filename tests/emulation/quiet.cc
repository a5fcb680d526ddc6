#include "tests/emulation/quiet.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace tutti::emulation {

void sleepWhile(const std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void wakeAll(const std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void QuietMutex::lock() {
  uint32_t free = 0;
  if (state_.compare_exchange_strong(free, 1)) return;
  while (state_.exchange(2) != 0) sleepWhile(state_, 2);
}

void QuietMutex::unlock() {
  if (state_.exchange(0) == 2) wakeAll(state_);
}

void QuietCondition::wait(QuietMutex& mutex) {
  const uint32_t seen = sequence_.load();
  mutex.unlock();
  sleepWhile(sequence_, seen);
  mutex.lock();
}

void QuietCondition::notifyAll() {
  sequence_.fetch_add(1);
  wakeAll(sequence_);
}

}  // namespace tutti::emulation
