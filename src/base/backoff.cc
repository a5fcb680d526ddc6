#include "src/base/backoff.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace tutti::base {
namespace {

static_assert(sizeof(SleepWord) == sizeof(uint32_t) && SleepWord::is_always_lock_free);

timespec timespecOf(std::chrono::nanoseconds time) {
  constexpr int64_t kSecond = 1'000'000'000;
  return {time.count() / kSecond, time.count() % kSecond};
}

timespec fromNow(std::chrono::nanoseconds time) {
  return timespecOf(std::chrono::steady_clock::now().time_since_epoch() + time);
}

/// False where the kernel has no such call, or a container forbids it.
bool waitForAny(std::span<SleepWord* const> words, std::chrono::nanoseconds most) {
#ifdef FUTEX_WAITV_MAX
  static_assert(kMostSleepWords <= FUTEX_WAITV_MAX);
  std::array<futex_waitv, kMostSleepWords> all{};
  for (size_t i = 0; i < words.size(); ++i) {
    all[i].val = 1;
    all[i].uaddr = reinterpret_cast<uintptr_t>(words[i]);
    all[i].flags = FUTEX_32;
  }
  const timespec end = fromNow(most);
  const long result =
      ::syscall(SYS_futex_waitv, all.data(), words.size(), 0, &end, CLOCK_MONOTONIC);
  return result >= 0 || (errno != ENOSYS && errno != EPERM && errno != EINVAL);
#else
  static_cast<void>(words);
  static_cast<void>(most);
  return false;
#endif
}

}  // namespace

void wakeSleeper(SleepWord& word) {
  if (word.exchange(0) != 0) ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

// Who does not come to sleep looks again at once, and is no worse off than one who was woken.
void sleepOn(std::span<SleepWord* const> words, std::chrono::nanoseconds most) {
  if (words.size() == 1) {
    const timespec length = timespecOf(most);
    ::syscall(SYS_futex, words[0], FUTEX_WAIT, 1, &length, nullptr, 0);
  } else if (!waitForAny(words, most)) {
    const timespec nap = timespecOf(std::min(most, kLongestNap));
    ::clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr);
  }
}

}  // namespace tutti::base
