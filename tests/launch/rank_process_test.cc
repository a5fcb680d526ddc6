// One rank as a process: why it did not start, and that nobody waits for it for long.

#include "src/launch/rank_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/child_processes.h"
#include "tests/support/run_tutti.h"

namespace tutti::launcher {
namespace {

using base::Deadline;
using std::chrono::milliseconds;
using std::chrono::seconds;

bool hasEnded(RankProcess& rank) {
  rank.reapIfEnded();
  return !rank.running();
}

TEST(RankProcess, SaysWhyItDidNotStartAtOnceOrLater) {
  for (const seconds within : {seconds(60), seconds(0)}) {
    const int code = tests::inChild([&] {
      Guardian guardian(1);
      RankProcess rank({.path = "/no/such/program", .arguments = {"program"}}, guardian,
                       Deadline::after(within));
      if (within.count() > 0 && !rank.startError()) return 1;
      if (!eventually([&] { return hasEnded(rank); }, seconds(60))) return 2;
      if (!rank.startError() || rank.startError()->error != ENOENT) return 3;
      return contains(rank.startError()->describe(), "execve: No such file") ? 0 : 4;
    });
    EXPECT_EQ(code, 0);
  }
}

TEST(RankProcess, EndsWithoutBeingWaitedForWhereItCannotBeKilled) {
  if (geteuid() != 0) GTEST_SKIP() << "only root starts processes that it may not signal later";
  const int code = tests::inChild([] {
    Guardian guardian(1);
    RankProcess rank({.path = "/bin/sleep", .arguments = {"sleep", "7"}}, guardian,
                     Deadline::after(seconds(60)));
    if (setresuid(65534, 65534, 65534) != 0) return 1;
    return rank.signal(SIGTERM) == EPERM && rank.signalAlone(SIGTERM) == EPERM ? 0 : 2;
  });  // its destructor waits kKilledEndsIn, less than the rank lasts
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace tutti::launcher
