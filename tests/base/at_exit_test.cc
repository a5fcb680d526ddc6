// What is stopped when a program ends: the newest first, not what is gone, and not in forked
// children. Each case is a child, which ends by exit().

#include "src/base/at_exit.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "src/base/pipe.h"
#include "tests/support/child_processes.h"

namespace tutti::base {
namespace {

/// What a child and its own children write with say(), until all of them have ended.
class Exits : public testing::Test {
 protected:
  void say(char what) const { EXPECT_EQ(::write(pipe_.writeEnd.get(), &what, 1), 1); }
  std::string saidBy(const std::function<void()>& body) {
    EXPECT_EQ(tests::inChild([&] {
                body();
                std::exit(testing::Test::HasFailure() ? 1 : 7);
                return 0;
              }),
              7);
    pipe_.writeEnd.reset();
    std::string said;
    for (char what; ::read(pipe_.readEnd.get(), &what, 1) == 1;) said += what;
    return said;
  }

  Pipe pipe_ = makePipe();
};

TEST_F(Exits, StopTheNewestFirst) {
  EXPECT_EQ(saidBy([&] {
              new AtExit([&] { say('a'); });
              new AtExit([&] { say('b'); });
              new AtExit([&] { say('c'); });
            }),
            "cba");
}

TEST_F(Exits, DoNotStopWhatIsGone) {
  EXPECT_EQ(saidBy([&] {
              auto first = std::make_unique<AtExit>([&] { say('a'); });
              new AtExit([&] { say('b'); });
              first.reset();
            }),
            "b");
}

TEST_F(Exits, OfForkedChildrenStopNothingOfTheirParents) {
  EXPECT_EQ(saidBy([&] {
              new AtExit([&] { say('a'); });
              EXPECT_EQ(tests::inChild([&] {
                          new AtExit([&] { say('c'); });
                          std::exit(5);
                          return 0;
                        }),
                        5);
              say('-');
            }),
            "c-a");
}

}  // namespace
}  // namespace tutti::base
