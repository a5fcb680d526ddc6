#pragma once

// Waiting without hurting the others: spin for a moment when every rank has a core, then yield, and
// after about a millisecond sleep, the longer the longer it takes: a rank that waits for seconds
// leaves its core to the others. Ranks may outnumber cores, so nobody only spins.
//
// A sleep ends when another thread, also of another process, moves something for the sleeper. A
// word in memory of both is 1 while one of them sleeps; the other takes that back, and wakes it. It
// looks at the word behind its own store without a barrier, so that it may miss one that is just
// going to sleep. Therefore each sleep has an end.

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::base {

using SleepWord = std::atomic<uint32_t>;

/// Makes the word 0, and wakes the one who sleeps on it.
void wakeSleeper(SleepWord& word);
/// The same, if it is 1.
inline void wakeIfAsleep(SleepWord& word) {
  if (word.load(std::memory_order_relaxed) != 0) [[unlikely]]
    wakeSleeper(word);
}

/// What FUTEX_WAITV takes.
inline constexpr size_t kMostSleepWords = 128;
/// Of one whom nobody wakes.
inline constexpr std::chrono::nanoseconds kLongestNap = std::chrono::microseconds(250);
/// Until one of the words is not 1, or for so long, or until a signal comes. At most
/// kMostSleepWords. Where the system cannot wait for several words, these are a nap.
void sleepOn(std::span<SleepWord* const> words, std::chrono::nanoseconds most);

/// Of a thread that waits for others. It announces that it is going to sleep, looks once more
/// whether there is something to do, and sleeps if there is not.
class SleepPlace {
 public:
  virtual ~SleepPlace() = default;
  virtual void announce() = 0;
  /// Not without announce(). It has been taken back afterwards.
  virtual void sleep(std::chrono::nanoseconds most) = 0;
};

inline void cpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

class Backoff {
 public:
  explicit Backoff(bool spinFirst) : spins_(spinFirst ? kSpins : 0) {}

  void reset() {
    idle_ = 0;
    announced_ = false;
  }

  /// Called each time a poll found nothing to do. With a `place` it can be woken.
  void idle(SleepPlace* place = nullptr) {
    using std::chrono::steady_clock;
    if (++idle_ <= spins_) {
      cpuRelax();
      return;
    }
    const uint32_t waited = idle_ - spins_;
    if (waited == 1) since_ = last_ = steady_clock::now();
    if (last_ - since_ > std::chrono::milliseconds(1)) return sleepOrNap(place);
    ::sched_yield();
    // A yield is itself about as long as reading the clock.
    if (waited % 64 == 0) last_ = steady_clock::now();
  }

 private:
  static constexpr uint32_t kSpins = 100;  // a few microseconds

  void sleepOrNap(SleepPlace* place) {
    using std::chrono::nanoseconds, std::chrono::microseconds;
    if (place && !announced_) {
      place->announce();
      announced_ = true;
      return;
    }
    last_ = std::chrono::steady_clock::now();
    const nanoseconds least = microseconds(place ? 200 : 50),
                      most = place ? microseconds(1000) : kLongestNap;
    const nanoseconds length = std::clamp<nanoseconds>((last_ - since_) / 64, least, most);
    if (place) {
      place->sleep(length);
    } else {
      const timespec nap{0, length.count()};
      ::clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr);
    }
    announced_ = false;
  }

  uint32_t spins_;
  uint32_t idle_ = 0;
  bool announced_ = false;
  std::chrono::steady_clock::time_point since_, last_;  // the first yield, and the last look
};

}  // namespace tutti::base
