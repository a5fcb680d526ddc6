// Communicators on a short allowance: a rank that cannot make its shared memory fails the set-up
// of all at once, by name; few descriptors and no locked memory are enough.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>
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

}  // namespace
}  // namespace tutti::tests
