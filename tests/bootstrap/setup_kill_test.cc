// Kills at random moments of set-up: whatever the moment, the survivors end, and nothing is left:
// no descriptor, no socket, no process. TUTTI_TEST_KILLS is the number of kills; TUTTI_TEST_SEED
// replays their moments.

#include <gtest/gtest.h>
#include <signal.h>
#include <time.h>

#include <cmath>
#include <iostream>
#include <random>

#include "src/bootstrap/bootstrap.h"
#include "tests/bootstrap/recording_listener.h"
#include "tests/support/board_processes.h"
#include "tests/support/leftovers.h"
#include "tests/support/text.h"

namespace tutti::bootstrap {
namespace {

using tests::BoardProcesses;
using tests::contains;
using tests::countDescriptors;
using tests::countOurSockets;
using tests::enterOwnNetwork;

constexpr int kRanks = 3;
/// A rank that dies before it has arrived is nobody's loss; the others wait this long for it.
constexpr std::chrono::milliseconds kSetupTime{2000};
/// Set-up of three ranks takes a tenth of this to half of it; early moments are the likelier ones.
constexpr double kLatestKillUs = 6000;

/// The kernel kills this process then, at its time and not when a parent gets a turn.
void dieAfter(std::chrono::microseconds moment) {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) throw std::runtime_error("no timer");
  itimerspec when{};
  when.it_value.tv_nsec = std::chrono::nanoseconds(moment).count();
  if (timer_settime(timer, 0, &when, nullptr) != 0) throw std::runtime_error("no timer is set");
}

struct Kill {
  int victim;
  std::chrono::microseconds moment;  // from when the victim begins to join
};

/// Joins, and then waits to hear that somebody is gone, or is killed.
std::string joinAndWatch(int rank, BoardProcesses::Board& board, const Kill& kill) {
  if (rank == 0) board.publish(UniqueId::create());
  const UniqueId id = board.awaitId();
  if (rank == kill.victim) dieAfter(kill.moment);
  const auto plane = join({.rank = rank, .size = kRanks, .id = id, .source = "test"},
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
  const int kills = tests::testKills(8);
  std::mt19937_64 random(tests::testSeed());
  ASSERT_EQ(countOurSockets(), 0);
  const int descriptors = countDescriptors();
  int duringSetup = 0;
  for (int i = 0; i < kills; ++i) {
    const int victim = static_cast<int>(random() % kRanks);
    const double part = std::uniform_real_distribution<>()(random);
    const std::chrono::microseconds moment(1 +
                                           static_cast<int64_t>(std::pow(part, 3) * kLatestKillUs));
    BoardProcesses processes(kRanks, [&](int rank, BoardProcesses::Board& board) {
      return joinAndWatch(rank, board, {.victim = victim, .moment = moment});
    });
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
