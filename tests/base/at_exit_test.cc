// What is stopped when a program ends: the newest first, not what is gone, and not in forked
// children. Each case is a child, which ends by exit().

#include "src/base/at_exit.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <stdexcept>
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

  /// Says `what` in that phase, if it is there still.
  AtExit* at(char what, AtExit::Phase phase = AtExit::Phase::Handlers) const {
    return new AtExit([this, what](const Deadline&) { say(what); }, phase);
  }

  Pipe pipe_ = makePipe();
};

TEST_F(Exits, StopTheNewestFirst) {
  EXPECT_EQ(saidBy([&] {
              at('a');
              at('b');
              at('c');
            }),
            "cba");
}

TEST_F(Exits, DoNotStopWhatIsGone) {
  EXPECT_EQ(saidBy([&] {
              auto first = std::unique_ptr<AtExit>(at('a'));
              at('b');
              first.reset();
            }),
            "b");
}

TEST_F(Exits, OfForkedChildrenStopNothingOfTheirParents) {
  EXPECT_EQ(saidBy([&] {
              at('a');
              EXPECT_EQ(tests::inChild([&] {
                          at('c');
                          std::exit(5);
                          return 0;
                        }),
                        5);
              say('-');
            }),
            "c-a");
}

/// Its destructor says 's', if it was told to.
struct SaysAtItsEnd {
  ~SaysAtItsEnd() {
    if (pipe < 0) return;
    EXPECT_EQ(::write(pipe, "s", 1), 1);
  }
  int pipe = -1;
} staticObject;

TEST_F(Exits, StopTheLastBehindExitHandlersAndStaticObjects) {
  EXPECT_EQ(saidBy([&] {
              staticObject.pipe = pipe_.writeEnd.get();
              at('l', AtExit::Phase::Last);
              at('m', AtExit::Phase::Last);
              at('h');
              EXPECT_FALSE(exitsNow());
              new AtExit([this](const Deadline&) { say(exitsNow() ? 'x' : '?'); },
                         AtExit::Phase::Last);
            }),
            "hsxml");
}

TEST_F(Exits, GoOnBehindOneThatThrows) {
  EXPECT_EQ(saidBy([&] {
              at('a');
              new AtExit([](const Deadline&) { throw std::runtime_error("on purpose"); });
            }),
            "a");
}

// As where a signal's handler calls exit(), and the thread that it has interrupted holds a lock.
TEST_F(Exits, DoNotWaitForEver) {
  static std::mutex held;
  held.lock();
  EXPECT_EQ(saidBy([&] {
              at('l', AtExit::Phase::Last);
              new AtExit([](const Deadline&) { const std::lock_guard wait(held); },
                         AtExit::Phase::Last);
              at('m', AtExit::Phase::Last);
            }),
            "m");
  held.unlock();
}

}  // namespace
}  // namespace tutti::base
