// Tests that skip, and one that does not, which fails where it is told to: skips.cmake runs parts
// of them under a ctest of its own.

#include <gtest/gtest.h>

#include <cstdlib>

namespace tutti::repository {
namespace {

TEST(Skips, Here) { GTEST_SKIP() << "as repository_skips wants it"; }
TEST(Skips, HereToo) { GTEST_SKIP() << "as repository_skips wants it"; }
TEST(Runs, AndFailsWhenTold) { EXPECT_EQ(std::getenv("TUTTI_TEST_FAIL"), nullptr); }

}  // namespace
}  // namespace tutti::repository
