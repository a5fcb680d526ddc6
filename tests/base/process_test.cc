// A fork is noticed, and process-wide state stays usable in the child.

#include "src/base/process.h"

#include <gtest/gtest.h>

#include <string>

#include "src/base/check.h"
#include "tests/support/child_processes.h"

namespace tutti::base {
namespace {

TEST(ProcessGuard, KnowsAForkedChild) {
  const ProcessGuard guard;
  const uint64_t generation = processGeneration();
  EXPECT_FALSE(guard.inForkedChild());
  guard.requireOwner("call()");
  EXPECT_EQ(tests::inChild([&] {
              EXPECT_TRUE(guard.inForkedChild());
              EXPECT_NE(processGeneration(), generation);
              EXPECT_FALSE(ProcessGuard().inForkedChild()) << "one that was made here";
              try {
                guard.requireOwner("call()");
                ADD_FAILURE() << "accepted";
              } catch (const Error& error) {
                EXPECT_EQ(error.code(), ErrorCode::InvalidUsage);
                EXPECT_EQ(error.what(),
                          message("call(): process ", ::getpid(), " was forked from process ",
                                  ::getppid(),
                                  ", and a forked child must not use what its parent made with "
                                  "Tutti"));
              }
              return testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
  EXPECT_EQ(processGeneration(), generation);
}

// In a child, as a process has room for a few.
TEST(Mutexes, ThatAreFreedAreFreeInAForkedChild) {
  const auto tryInChild = [](std::mutex& mutex) {
    return tests::inChild([&] { return mutex.try_lock() ? 0 : 1; });
  };
  EXPECT_EQ(tests::inChild([&] {
              static std::mutex freed, other;
              freeInForkedChildren(freed);
              std::scoped_lock lock(freed, other);
              EXPECT_EQ(tryInChild(freed), 0);
              EXPECT_EQ(tryInChild(other), 1);
              return testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
}

TEST(Abandoned, StateIsNeverDestroyed) {
  struct Told {
    bool& gone;
    ~Told() { gone = true; }
  };
  static bool gone = false;
  abandon(std::make_shared<Told>(gone));
  EXPECT_FALSE(gone);
}

}  // namespace
}  // namespace tutti::base
