// Waiting for a child's end: never longer than the deadline.

#include "src/launch/child_end.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/child_processes.h"

namespace tutti::launcher {
namespace {

using base::Deadline;
using std::chrono::milliseconds;

TEST(ChildEnd, IsSeenWithoutReaping) {
  tests::ChildProcesses children;
  children.start([] { return 7; });
  EXPECT_TRUE(endsBy(children.pid(0), Deadline::after(milliseconds(60'000))));
  EXPECT_EQ(children.wait(0, milliseconds(1000)), 7);
}

TEST(ChildEnd, IsNotWaitedForBeyondTheDeadline) {
  tests::ChildProcesses children;
  children.start([] { return pause(); });
  EXPECT_FALSE(endsBy(children.pid(0), Deadline::after(milliseconds(0))));
  EXPECT_FALSE(endsBy(children.pid(0), Deadline::after(milliseconds(30))));
}

TEST(ChildEnd, OfNoChildHasCome) {
  EXPECT_TRUE(endsBy(getppid(), Deadline::after(milliseconds(60'000))));
}

}  // namespace
}  // namespace tutti::launcher
