// SIGKILL of one of three ranks at a random moment of Communicator::create, of allocate, or of the
// first AllReduce on window memory: every survivor ends in time, with a result or an error that
// says so, and nothing stays behind: no process, no socket, no descriptor, no shared memory.
// TUTTI_TEST_KILLS is the number of kills, TUTTI_TEST_SEED replays their moments.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <string>
#include <thread>

#include <tutti/tutti.h>

#include "tests/support/leftovers.h"
#include "tests/support/rank_processes.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kRanks = 3;
constexpr size_t kCount = 1 << 18;
/// A rank that dies before it has arrived is nobody's loss; the others wait this long for it.
/// Longer on a machine on which an undisturbed run takes long.
std::chrono::milliseconds setupTime{15'000};
constexpr std::chrono::milliseconds kLeastSetupTime{2000}, kMostSetupTime{15'000};

const std::array<std::string, 3> kStages{"begins", "joined", "allocated"};

/// Says how far it has come, and how it ends.
int body(const RankProcesses::Context& context) {
  setLogSink([](LogLevel, std::string_view) {});  // what matters is said
  std::string stage;
  const auto enter = [&](int number) {
    stage = kStages[number];
    context.say(stage);
  };
  enter(0);
  try {
    Communicator c = context.join({.setupTimeout = setupTime});
    enter(1);
    Memory window = c.allocate(kCount * sizeof(float));
    auto* x = window.as<float>();
    std::fill_n(x, kCount, 1.0f);
    enter(2);
    c.allReduce({.send = x, .recv = x, .count = kCount});
    context.say(x[0] == kRanks && x[kCount - 1] == kRanks ? "done" : "wrong");
  } catch (const Error& e) {
    context.say(stage + ": " + toString(e.code()) + "|" + e.what());
  }
  return 0;
}

/// How long an undisturbed run takes, from the first word to the last end: the shortest of five.
std::chrono::microseconds undisturbed() {
  auto shortest = std::chrono::microseconds::max();
  for (int i = 0; i < 5; ++i) {
    RankProcesses ranks(kRanks, body);
    EXPECT_TRUE(ranks.awaitLine(0, kStages[0], kPatience));
    const auto begin = Clock::now();
    EXPECT_TRUE(ranks.allSucceed(kPatience));
    shortest = std::min(
        shortest, std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin));
  }
  return shortest;
}

/// What the survivors said, counted by how far they had come.
struct Counts {
  std::array<int, 3> failed{};  // by stage
  int done = 0;
};

void check(const std::string& said, int victim, Counts& counts) {
  const std::string name = "rank " + std::to_string(victim);
  const auto has = [&](const std::string& part) { return said.find(part) != std::string::npos; };
  if (said.ends_with("allocated\ndone\n")) return void(++counts.done);
  // Before all have arrived nobody knows the victim but as the one who is missing; and to a rank
  // that comes when all is over the process that made the id is gone.
  const bool missing =
      has(kStages[0] + ": timeout|") && has("; missing: " + std::to_string(victim));
  const bool late = has(kStages[0] + ": refused|rank") || has(", of pid ");
  EXPECT_TRUE(missing || late || (has(": peer lost|") && has(name))) << said;
  for (size_t s = 0; s < kStages.size(); ++s) counts.failed[s] += has(kStages[s] + ": ");
}

TEST(SetupKill, OfACommunicatorLeavesNothing) {
  if (!enterOwnNetwork()) std::printf("no own network namespace: other jobs' sockets count\n");
  const TemporaryFiles files;
  const int kills = testKills(30);
  std::mt19937_64 random(testSeed());
  const auto whole = undisturbed();
  setupTime = std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(20 * whole),
                         kLeastSetupTime, kMostSetupTime);
  std::printf("%d kills within %lld us\n", kills, static_cast<long long>(whole.count()));
  const int sockets = countOurSockets(), descriptors = countDescriptors();
  const long memory = sharedMemoryKib();
  Counts counts;
  for (int k = 0; k < kills; ++k) {
    const int victim = static_cast<int>(random() % kRanks);
    const std::string& stage = kStages[random() % kStages.size()];
    // Early moments are the likelier ones: most of a run is the end of its processes.
    const double part = std::uniform_real_distribution<>()(random);
    const std::chrono::microseconds moment(
        static_cast<int64_t>(part * part * part * static_cast<double>(whole.count())));
    SCOPED_TRACE("kill " + std::to_string(k) + " of rank " + std::to_string(victim) + " after " +
                 std::to_string(moment.count()) + " us of '" + stage + "'");
    RankProcesses ranks(kRanks, body);
    ASSERT_TRUE(ranks.awaitLine(0, stage, kPatience)) << ranks.output(0);
    std::this_thread::sleep_for(moment);
    ranks.signal(victim, SIGKILL);
    for (int r = 0; r < kRanks; ++r) {
      const int code = ranks.wait(r, kPatience);
      if (r == victim && code == 128 + SIGKILL) continue;
      ASSERT_EQ(code, 0) << "rank " << r << ": " << ranks.output(r);
      if (r != victim) check(ranks.output(r), victim, counts);
    }
  }
  std::printf("survivors: %d failed in set-up, %d in allocate, %d in the AllReduce, %d were done\n",
              counts.failed[0], counts.failed[1], counts.failed[2], counts.done);
  EXPECT_GT(counts.failed[0], 0) << "no kill hit set-up: the test tests nothing";
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
  EXPECT_EQ(countDescriptors(), descriptors);
  EXPECT_EQ(files.left(), "");
  EXPECT_TRUE(eventually([&] { return countOurSockets() <= sockets; })) << countOurSockets();
  // Freed pages reach the counter with a delay and other processes use shared memory too: one job's
  // share (3 inboxes of 4 MiB and 3 windows of 1 MiB) must not be left, let alone that of every
  // kill.
  EXPECT_TRUE(eventually([&] { return sharedMemoryKib() <= memory + 8192; }))
      << memory << " KiB of shared memory before, " << sharedMemoryKib() << " after";
}

}  // namespace
}  // namespace tutti::tests
