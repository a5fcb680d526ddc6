// Kills at random moments of set-up: whatever the moment, the survivors end, and nothing is left:
// no descriptor, no socket, no process. TUTTI_TEST_KILLS is the number of kills; TUTTI_TEST_SEED
// replays their moments.

#include <gtest/gtest.h>
#include <signal.h>

#include <iostream>
#include <random>
#include <thread>

#include "src/bootstrap/bootstrap.h"
#include "tests/bootstrap/rank_processes.h"
#include "tests/bootstrap/recording_listener.h"

namespace tutti::bootstrap {
namespace {

constexpr int kRanks = 3;
/// A rank that dies before it has arrived is nobody's loss; the others wait this long for it.
constexpr std::chrono::milliseconds kSetupTime{2000};
constexpr int kLatestKillUs = 6000;  // set-up of three ranks takes about half of this

/// Joins, and then waits to hear that somebody is gone.
std::string joinAndWatch(int rank, RankProcesses::Board& board) {
  if (rank == 0) board.publish(UniqueId::create());
  board.reach(rank, 1);
  const auto plane = join({.rank = rank, .size = kRanks, .id = board.awaitId(), .source = "test"},
                          base::Deadline::after(kSetupTime));
  RecordingListener listener;
  plane->listen(1, &listener);
  const auto events = listener.wait(1);
  plane->ignore(1);
  return events.empty() ? "nothing" : events[0];
}

TEST(Kills, DuringSetupLeaveNothing) {
  const bool own = enterOwnNetwork();
  if (!own) std::cout << "no own network namespace: other jobs' sockets count\n";
  const tests::TemporaryFiles files;
  const int kills = tests::testKills(50);
  std::mt19937_64 random(tests::testSeed());
  ASSERT_EQ(countOurSockets(), 0);
  const int descriptors = countDescriptors();
  int duringSetup = 0;
  for (int i = 0; i < kills; ++i) {
    const int victim = static_cast<int>(random() % kRanks);
    const auto moment = std::chrono::microseconds(random() % kLatestKillUs);
    RankProcesses processes(kRanks, joinAndWatch);
    ASSERT_TRUE(processes.awaitStep(0, 1));
    std::this_thread::sleep_for(moment);
    processes.kill(victim, SIGKILL);
    const auto results = processes.results();
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) {
        ASSERT_EQ(results[rank], "killed by signal 9");
        continue;
      }
      // In set-up: an error that names the victim, or says that it is missing; or, to a rank that
      // came after all was over, that whoever made the id is gone. After it: the news.
      const bool inSetup = contains(results[rank], "error ");
      duringSetup += inSetup ? 1 : 0;
      const std::string number = std::to_string(victim);
      const bool late =
          contains(results[rank], "nobody listens") || contains(results[rank], ", of pid ");
      const bool named = late || contains(results[rank], "rank " + number) ||
                         contains(results[rank], "; missing: " + number);
      ASSERT_TRUE(inSetup ? named : contains(results[rank], "lost "))
          << "kill " << i << " of rank " << victim << " after " << moment.count() << " us: rank "
          << rank << ": " << results[rank];
    }
  }
  std::cout << kills << " kills; " << duringSetup << " survivors were still in set-up\n";
  EXPECT_GT(duringSetup, 0) << "no kill hit set-up: the test tests nothing";
  EXPECT_EQ(countOurSockets(), 0);
  EXPECT_EQ(files.left(), "");
  EXPECT_EQ(countDescriptors(), descriptors);
}

}  // namespace
}  // namespace tutti::bootstrap
