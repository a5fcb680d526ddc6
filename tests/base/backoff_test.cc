// Sleeping on words, and the waits that do it.

#include "src/base/backoff.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdlib>
#include <thread>
#include <vector>

namespace tutti::base {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kForever = 100s;

/// How long a thread sleeps on `count` words of which another one makes `which` 0 after a moment.
Clock::duration sleepUntilWoken(size_t count, size_t which) {
  std::vector<SleepWord> words(count);
  std::vector<SleepWord*> all;
  for (SleepWord& word : words) {
    word = 1;
    all.push_back(&word);
  }
  std::thread waker([&] {
    std::this_thread::sleep_for(20ms);
    wakeIfAsleep(words[which]);
  });
  const auto begin = Clock::now();
  sleepOn(all, kForever);
  const auto slept = Clock::now() - begin;
  waker.join();
  EXPECT_EQ(words[which], 0U);
  return slept;
}

TEST(Sleep, EndsWhenAnyWordIsTakenBack) {
  for (const auto& [count, which] :
       {std::pair<size_t, size_t>{1, 0}, {3, 2}, {kMostSleepWords, 77}})
    EXPECT_LT(sleepUntilWoken(count, which), kForever / 2) << count;
}

TEST(Sleep, DoesNotBeginOnAWordThatIsNotSet) {
  SleepWord one{0}, other{1};
  const auto begin = Clock::now();
  const std::array<SleepWord*, 2> both{&other, &one};
  sleepOn({both.data() + 1, 1}, kForever);
  sleepOn(both, kForever);
  EXPECT_LT(Clock::now() - begin, kForever / 2);
}

TEST(Sleep, EndsByItself) {
  SleepWord one{1}, other{1};
  const std::array<SleepWord*, 2> both{&one, &other};
  const auto begin = Clock::now();
  sleepOn({both.data(), 1}, 5ms);
  sleepOn(both, 5ms);
  EXPECT_GE(Clock::now() - begin, 10ms);
}

#ifdef SYS_futex_waitv
/// As old systems do, and containers.
bool forbidWaitingForSeveral() {
  sock_filter steps[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex_waitv, 0, 1),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter{std::size(steps), steps};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(Sleep, OnSeveralWordsIsANapWhereTheSystemHasNoSuchWait) {
  const auto nap = [] {
    if (!forbidWaitingForSeveral()) std::exit(2);
    SleepWord one{1}, other{1};
    const std::array<SleepWord*, 2> both{&one, &other};
    const auto begin = Clock::now();
    sleepOn(both, 2s);
    std::exit(Clock::now() - begin < 1s ? 0 : 1);
  };
  EXPECT_EXIT(nap(), ::testing::ExitedWithCode(0), "");
}
#endif

TEST(Sleep, NobodyIsWokenWhoDoesNotSleep) {
  SleepWord word{0};
  wakeIfAsleep(word);
  EXPECT_EQ(word, 0U);
}

struct CountingPlace final : SleepPlace {
  void announce() override { ++announced; }
  void sleep(std::chrono::nanoseconds most) override {
    ++slept;
    EXPECT_EQ(slept, announced);
    EXPECT_GE(most, 50us);
  }
  int announced = 0, slept = 0;
};

TEST(Backoff, SleepsAfterAMillisecondOfYieldsAndLooksBefore) {
  CountingPlace place;
  Backoff backoff(true);
  const auto begin = Clock::now();
  while (place.announced == 0) {
    ASSERT_LT(Clock::now() - begin, kForever);
    backoff.idle(&place);
  }
  EXPECT_GE(Clock::now() - begin, 1ms);
  for (int i = 2; i <= 6; ++i) {
    backoff.idle(&place);
    EXPECT_EQ(place.announced, (i + 1) / 2);
    EXPECT_EQ(place.slept, i / 2);
  }
  backoff.reset();
  backoff.idle(&place);
  EXPECT_EQ(place.announced, 3);
}

}  // namespace
}  // namespace tutti::base
