// Communicators on a short allowance: a rank that cannot make its shared memory fails the set-up
// of all at once, by name; few descriptors and no locked memory are enough.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <vector>

#include <tutti/tutti.h>

#include "tests/support/rank_processes.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

void limit(__rlimit_resource resource, rlim_t value) {
  const rlimit both{value, value};
  ASSERT_EQ(::setrlimit(resource, &both), 0);
}

/// What the process has mapped now.
[[maybe_unused]] rlim_t addressSpaceBytes() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

TEST(Limits, ARankWithoutSharedMemoryFailsTheSetUpOfAllByName) {
  constexpr int kPoor = 1;
  RankProcesses ranks(3, [](const RankProcesses::Context& context) {
    // Files may not grow: the segment cannot be made.
    if (context.rank == kPoor) {
      ::signal(SIGXFSZ, SIG_IGN);
      limit(RLIMIT_FSIZE, 4096);
    }
    const auto begin = std::chrono::steady_clock::now();
    try {
      context.join();
      context.say("made a communicator");
      return 1;
    } catch (const Error& e) {
      const auto taken = std::chrono::steady_clock::now() - begin;
      context.say(std::string(toString(e.code())) + "|" + e.what());
      if (taken > 10s) {
        context.say("after " + std::to_string(taken / 1ms) + " ms");
        return 2;
      }
    }
    return 0;
  });
  ASSERT_TRUE(ranks.allSucceed(60s));
  for (int r = 0; r < 3; ++r) {
    const std::string said = ranks.output(r);
    EXPECT_TRUE(said.starts_with("out of memory|")) << said;
    EXPECT_NE(said.find("ulimit -f"), std::string::npos) << said;
    if (r != kPoor) {
      EXPECT_NE(said.find("reported by rank 1"), std::string::npos) << said;
    }
  }
}

TEST(Limits, SixtyFourDescriptorsAndNoLockedMemoryAreEnough) {
  RankProcesses ranks(4, [](const RankProcesses::Context& context) {
    limit(RLIMIT_NOFILE, 64);
    limit(RLIMIT_MEMLOCK, 0);
    Communicator c = context.join();
    constexpr size_t kCount = 1 << 16;
    Memory window = c.allocate(kCount * sizeof(float));
    auto* x = static_cast<float*>(window.data());
    for (int round = 0; round < 3; ++round) {
      std::fill_n(x, kCount, static_cast<float>(context.rank + round));
      c.allReduce({.send = x, .recv = x, .count = kCount});
      for (size_t i = 0; i < kCount; ++i)
        if (x[i] != static_cast<float>(6 + 4 * round)) {
          context.say("element " + std::to_string(i) + " is " + std::to_string(x[i]));
          return 1;
        }
    }
    return 0;
  });
  EXPECT_TRUE(ranks.allSucceed(60s));
}

/// Sums 1, 2, 3 over three ranks; true when `x`, of `count` elements, holds the result.
bool sums(Communicator& c, float* x, size_t count) {
  std::fill_n(x, count, static_cast<float>(c.rank() + 1));
  c.allReduce({.send = x, .recv = x, .count = count});
  return std::all_of(x, x + count, [](float element) { return element == 6; });
}

TEST(Limits, MemoryThatCannotBeAllocatedIsNamedAndHarmsNobody) {
  RankProcesses ranks(3, [](const RankProcesses::Context& context) {
    Communicator c = context.join();
    constexpr size_t kCount = 1 << 18;
    std::vector<float> own(kCount);
    Memory window;
    if (context.rank == 1) {
      ::signal(SIGXFSZ, SIG_IGN);
      limit(RLIMIT_FSIZE, 4096);
    }
    try {
      window = c.allocate(kCount * sizeof(float));
      context.say("has a window");
    } catch (const Error& e) {
      context.say(std::string(toString(e.code())) + "|" + e.what());
    }
    for (int round = 0; round < 3; ++round)
      if (!sums(c, window ? window.as<float>() : own.data(), kCount)) return 1;
    Memory small = c.allocate(4096);  // within the limit
    return small && sums(c, small.as<float>(), 1024) ? 0 : 2;
  });
  ASSERT_TRUE(ranks.allSucceed(60s));
  for (const int r : {0, 2}) EXPECT_EQ(ranks.output(r), "has a window\n");
  const std::string said = ranks.output(1);
  EXPECT_TRUE(said.starts_with("out of memory|1048576 bytes")) << said;
  EXPECT_NE(said.find("Communicator::allocate"), std::string::npos) << said;
  EXPECT_NE(said.find("ulimit -f"), std::string::npos) << said;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Sanitizers reserve address space of their own.
TEST(Limits, MemoryThatAPeerCannotMapIsOrdinaryMemory) {
  RankProcesses ranks(3, [](const RankProcesses::Context& context) {
    Communicator c = context.join();
    constexpr size_t kCount = 16 << 20;
    std::string warnings;
    if (context.rank == 1)
      setLogSink([&](LogLevel level, std::string_view line) {
        if (level == LogLevel::Warning) warnings += std::string(line) + "\n";
      });
    Memory window;
    if (context.rank == 1) {
      window = c.allocate(kCount * sizeof(float));
      limit(RLIMIT_AS, addressSpaceBytes() + kCount * sizeof(float) / 2);
    }
    c.barrier();
    if (context.rank != 1) window = c.allocate(kCount * sizeof(float));
    const bool right = sums(c, window.as<float>(), kCount);
    c.barrier();
    setLogSink(nullptr);
    context.say(warnings);
    return right ? 0 : 1;
  });
  ASSERT_TRUE(ranks.allSucceed(60s));
  for (const int owner : {0, 2})
    EXPECT_NE(ranks.output(1).find("rank 1 cannot map a window of rank " + std::to_string(owner)),
              std::string::npos)
        << ranks.output(1);
}
#endif

}  // namespace
}  // namespace tutti::tests
