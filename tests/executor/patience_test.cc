// What is short waits for a moment, and learns where it waits well.

#include "src/executor/host/patience.h"

#include <gtest/gtest.h>

namespace tutti::executor {
namespace {

using namespace std::chrono_literals;

uint32_t looksOf(Patience& patience) {
  uint32_t looks = 0;
  while (patience.wait()) ++looks;
  return looks;
}

TEST(Patience, EndsAndStartsOver) {
  Patience patience(true);
  for (int turn = 0; turn < 3; ++turn)
    EXPECT_EQ(looksOf(patience), Patience::kMost + Patience::kYields);
  for (uint32_t i = 0; i < Patience::kMost; ++i) ASSERT_TRUE(patience.wait());
  patience.found();  // while it pauses: nothing is learned
  EXPECT_EQ(looksOf(patience), Patience::kMost + Patience::kYields);
}

TEST(Patience, PausesLessWhereThePeerNeedsThisCore) {
  Patience patience(true);
  uint32_t last = patience.spins();
  while (last > Patience::kLeast) {
    patience.learn(3us);
    ASSERT_LT(patience.spins(), last);
    last = patience.spins();
  }
  patience.learn(3us);
  EXPECT_EQ(patience.spins(), Patience::kLeast);
  patience.found();
  EXPECT_EQ(looksOf(patience), Patience::kLeast + Patience::kYields);
}

TEST(Patience, PausesAsBeforeWhereThePeerHasACoreAgain) {
  for (const std::chrono::nanoseconds yield : {std::chrono::nanoseconds(300ns),   // nobody ran
                                               std::chrono::nanoseconds(4ms)}) {  // not the peer
    Patience patience(true);
    for (int i = 0; i < 10; ++i) patience.learn(3us);
    for (int i = 0; i < 10; ++i) patience.learn(yield);
    EXPECT_EQ(patience.spins(), Patience::kMost);
  }
}

TEST(Patience, OnlyYieldsWhereRanksShareCores) {
  Patience patience(false);
  EXPECT_EQ(looksOf(patience), Patience::kYields);
  for (const std::chrono::nanoseconds yield : {300ns, 3000ns}) {
    patience.learn(yield);
    EXPECT_EQ(patience.spins(), 0U);
  }
}

}  // namespace
}  // namespace tutti::executor
