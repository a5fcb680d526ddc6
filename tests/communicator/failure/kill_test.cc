// SIGKILL of one of four ranks in a loop of AllReduce, again and again: every survivor names the
// dead rank within a second, and nothing stays behind: no socket, no file,
// no shared memory.
// TUTTI_TEST_KILLS is the number of kills, TUTTI_TEST_SEED replays their moments.

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <random>
#include <thread>

#include <tutti/tutti.h>

#include "tests/support/leftovers.h"
#include "tests/support/rank_processes.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

int64_t nowMs() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::milliseconds(1);
}

int body(const RankProcesses::Context& context) {
  Communicator c = context.join();
  const size_t count = 1 << 12;
  Memory window = c.allocate(1 << 20);
  std::vector<float> x(count, 1.0f), y(count);
  c.barrier();
  context.say("joined");
  try {
    while (true) {
      c.allReduce({.send = x.data(), .recv = y.data(), .count = count});
      c.allReduce({.send = window.as<float>(), .recv = window.as<float>(), .count = 1 << 18});
    }
  } catch (const Error& e) {
    context.say(std::to_string(nowMs()) + " " + toString(e.code()) + "|" + e.what());
  }
  return 0;
}

TEST(Kill, EverySurvivorNamesTheDeadAndNothingRemains) {
  const TemporaryFiles files;
  const int kills = testKills(5);
  std::mt19937_64 random(testSeed());
  const long before = sharedMemoryKib();
  const int socketsBefore = countOurSockets();
  int64_t slowest = 0;
  for (int k = 0; k < kills; ++k) {
    RankProcesses ranks(4, body);
    for (int r = 0; r < 4; ++r) ASSERT_TRUE(ranks.awaitLine(r, "joined", 30s)) << ranks.output(r);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 30));
    const int victim = static_cast<int>(random() % 4);
    const int64_t killed = nowMs();
    ranks.signal(victim, SIGKILL);
    for (int r = 0; r < 4; ++r) {
      if (r == victim) continue;
      ASSERT_EQ(ranks.wait(r, 10s), 0) << "kill " << k << " rank " << r << ": " << ranks.output(r);
      const std::string out = ranks.output(r);
      const auto at = out.find("joined\n") + 7;
      EXPECT_NE(out.find("peer lost|rank " + std::to_string(victim) + " (pid "), std::string::npos)
          << "kill " << k << " of rank " << victim << ", rank " << r << ": " << out;
      const int64_t took = std::stoll(out.substr(at)) - killed;
      slowest = std::max(slowest, took);
      EXPECT_LE(took, kDeathNoticedMs) << "kill " << k << ": " << out;
    }
  }
  std::printf("slowest notice: %lld ms\n", static_cast<long long>(slowest));
  // Freed pages reach the counter with a delay and other processes use shared memory too: one job's
  // share (4 ranks, more than 8 MiB) must not be left, let alone that of every kill.
  long after = sharedMemoryKib();
  for (int i = 0; i < 100 && (after > before + 4096 || countOurSockets() > socketsBefore); ++i) {
    std::this_thread::sleep_for(50ms);
    after = sharedMemoryKib();
  }
  EXPECT_LE(countOurSockets(), socketsBefore);
  EXPECT_EQ(files.left(), "");
  EXPECT_LE(after, before + 4096) << "KiB of shared memory before and after";
}

}  // namespace
}  // namespace tutti::tests
