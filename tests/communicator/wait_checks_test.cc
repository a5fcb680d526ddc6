// A check of WaitCheck that throws ends the wait, and the communicator with it.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <tutti/tutti.h>

namespace tutti::tests {
namespace {

struct Interrupted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Rank 0 makes `call`, which waits for rank 1. Rank 1 makes none until it has heard of the end.
void expectEnds(const std::function<void(Communicator&)>& call) {
  auto ranks = Communicator::createLocal(2);
  {
    const WaitCheck check([] { throw Interrupted("enough"); });
    EXPECT_THROW(call(ranks[0]), Interrupted);
  }
  for (Communicator& rank : ranks) {
    while (!rank.asyncError()) std::this_thread::yield();
    EXPECT_EQ(rank.asyncError()->code(), ErrorCode::Aborted);
  }
}

TEST(WaitChecks, EndACollective) {
  expectEnds([](Communicator& c) { c.barrier(); });
}

TEST(WaitChecks, EndAReceive) {
  float received = 0;
  expectEnds([&](Communicator& c) {
    c.receive({.recv = &received, .count = 1, .type = DataType::Float32, .peer = 1});
  });
}

TEST(WaitChecks, EndAGroup) {
  float received = 0;
  expectEnds([&](Communicator& c) {
    Group group;
    c.barrier();
    c.receive({.recv = &received, .count = 1, .type = DataType::Float32, .peer = 1});
    group.end();
  });
}

TEST(WaitChecks, EndAWaitForSignals) {
  float buffer = 0;
  expectEnds([&](Communicator& c) {
    const Window window = c.window({&buffer, 1});
    const std::vector<AwaitedSignals> wanted{{.peer = 1}};
    c.waitSignals({.signals = wanted});
  });
}

TEST(WaitChecks, OfTheInnermostObjectOfThisThreadAreMade) {
  auto ranks = Communicator::createLocal(2);
  std::atomic<int> outer = 0, inner = 0;
  std::thread other;
  const WaitCheck first([&] { ++outer; });
  {
    const WaitCheck second([&] {
      if (++inner == 2) other = std::thread([&] { ranks[1].barrier(); });
    });
    ranks[0].barrier();
  }
  other.join();
  EXPECT_GE(inner, 2);
  EXPECT_EQ(outer, 0);
  std::thread later([&] {
    while (outer == 0) std::this_thread::yield();
    ranks[1].barrier();
  });
  ranks[0].barrier();
  later.join();
  EXPECT_GE(outer, 1);
}

}  // namespace
}  // namespace tutti::tests
