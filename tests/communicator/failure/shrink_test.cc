// Shrinking: who is in the new communicator, what becomes of operations that were running, and that
// survivors never end up in different ones.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <stdexcept>
#include <thread>

#include <tutti/tutti.h>

#include "src/bootstrap/local_control_plane.h"
#include "src/communicator/endpoints.h"
#include "src/communicator/local.h"
#include "src/communicator/message_types.h"
#include "tests/support/local_ranks.h"
#include "tests/support/rank_processes.h"
#include "tests/support/text.h"
#include "transports/shm/endpoint.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Context = RankProcesses::Context;

int sumOfRanks(Communicator& c) {
  int sum = c.rank() + 1;
  c.allReduce({.send = &sum, .recv = &sum, .count = 1, .type = DataType::Int32});
  return sum;
}

ErrorCode codeOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::Internal;
}

TEST(Shrink, SurvivorsGoOn) {
  RankProcesses ranks(5, [](const Context& context) {
    Communicator c = context.join();
    context.say("joined");
    try {
      std::vector<float> x(1000, 1.0f), y(1000);
      while (true) c.allReduce({.send = x.data(), .recv = y.data(), .count = 1000});
    } catch (const Error&) {
    }
    Communicator rest = c.shrink();
    context.say("rank " + std::to_string(rest.rank()) + " of " + std::to_string(rest.size()) +
                " sum " + std::to_string(sumOfRanks(rest)));
    return 0;
  });
  for (int r = 0; r < 5; ++r) ASSERT_TRUE(ranks.awaitLine(r, "joined", 20s));
  ranks.signal(0, SIGKILL);  // the lowest rank has no special part after set-up
  ranks.signal(3, SIGKILL);
  for (const int r : {1, 2, 4}) ASSERT_EQ(ranks.wait(r, 20s), 0) << ranks.output(r);
  EXPECT_TRUE(contains(ranks.output(1), "rank 0 of 3 sum 6")) << ranks.output(1);
  EXPECT_TRUE(contains(ranks.output(2), "rank 1 of 3 sum 6"));
  EXPECT_TRUE(contains(ranks.output(4), "rank 2 of 3 sum 6"));
}

/// Breaks this process's connections with process `pid`; returns how many.
int cutConnections(pid_t pid) {
  int cut = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid != pid) continue;
    cut += ::shutdown(fd, SHUT_RDWR) == 0 ? 1 : 0;
  }
  return cut;
}

// Ranks 0 and 2 lose their connection, and both can still talk to rank 1. Whichever of them it went
// on with, the other would go on as well. So nobody goes on until one of the two has ended.
TEST(Shrink, ABrokenConnectionDoesNotDivideTheSurvivors) {
  // Rank 0 reads whom it loses; rank 2 reads when to end.
  std::array<int, 2> toFirst{}, toLast{};
  ASSERT_TRUE(::pipe(toFirst.data()) == 0 && ::pipe(toLast.data()) == 0);
  RankProcesses ranks(3, [&](const Context& context) {
    // Of joining too, which takes a while under ThreadSanitizer on busy cores.
    Communicator c = context.join({.setupTimeout = 5s});
    context.say("joined");
    pid_t last = 0;
    if (context.rank == 0) {
      if (::read(toFirst[0], &last, sizeof last) != sizeof last || cutConnections(last) != 1)
        return 1;
    }
    EXPECT_EQ(codeOf([&] {
                while (true) c.barrier();
              }),
              ErrorCode::PeerLost);
    try {
      c.shrink();
      context.say("went on");
    } catch (const Error& e) {
      context.say(std::string(toString(e.code())) + ": " + e.what());
    }
    context.say("tried");
    char end = 0;
    if (context.rank == 2) return ::read(toLast[0], &end, 1) == 1 ? 0 : 1;
    context.say("rest of " + std::to_string(c.shrink().size()));
    return 0;
  });
  for (int r = 0; r < 3; ++r) ASSERT_TRUE(ranks.awaitLine(r, "joined", 20s));
  const pid_t last = ranks.pid(2);
  ASSERT_EQ(::write(toFirst[1], &last, sizeof last), static_cast<ssize_t>(sizeof last));
  for (int r = 0; r < 3; ++r) ASSERT_TRUE(ranks.awaitLine(r, "tried", 20s));
  ASSERT_EQ(::write(toLast[1], "e", 1), 1);
  ASSERT_TRUE(ranks.allSucceed(20s));
  for (int r = 0; r < 3; ++r) {
    EXPECT_FALSE(contains(ranks.output(r), "went on")) << ranks.output(r);
    EXPECT_TRUE(contains(ranks.output(r), "timeout: rank " + std::to_string(r))) << ranks.output(r);
  }
  EXPECT_TRUE(contains(ranks.output(0), "for rank 2 (pid " + std::to_string(last)));
  EXPECT_TRUE(contains(ranks.output(0), "cannot be reached and whose process has not ended"));
  for (const int r : {0, 1}) EXPECT_TRUE(contains(ranks.output(r), "rest of 2")) << ranks.output(r);
  for (const int fd : {toFirst[0], toFirst[1], toLast[0], toLast[1]}) ::close(fd);
}

TEST(Shrink, WithNobodyDeadKeepsAll) {
  RankProcesses ranks(3, [](const Context& context) {
    Communicator c = context.join();
    c.barrier();
    Communicator again = c.shrink();
    again.barrier();
    context.say("size " + std::to_string(again.size()));
    return 0;
  });
  ASSERT_TRUE(ranks.allSucceed(20s));
  EXPECT_TRUE(contains(ranks.output(0), "size 3"));
}

// Windows of the survivors are used by operations that follow, at once: the dead are not waited
// for.
TEST(Shrink, MemoryAllocatedAfterwardsIsMapped) {
  RankProcesses ranks(3, [](const Context& context) {
    Communicator c = context.join();
    context.say("joined");
    try {
      while (true) c.barrier();
    } catch (const Error&) {
    }
    Communicator rest = c.shrink();
    setLogSink([&](LogLevel, std::string_view line) { context.say("log " + std::string(line)); });
    constexpr size_t kCount = 100000;
    Memory x = rest.allocate(kCount * 4);
    setLogSink({});
    std::fill_n(x.as<int>(), kCount, rest.rank() + 1);
    rest.allReduce({.send = x.data(), .recv = x.data(), .count = kCount, .type = DataType::Int32});
    return x.as<int>()[kCount - 1] == 3 ? 0 : 1;
  });
  for (int r = 0; r < 3; ++r) ASSERT_TRUE(ranks.awaitLine(r, "joined", 20s));
  ranks.signal(1, SIGKILL);
  for (const int r : {0, 2}) {
    ASSERT_EQ(ranks.wait(r, 20s), 0) << ranks.output(r);
    EXPECT_FALSE(contains(ranks.output(r), "has not mapped")) << ranks.output(r);
  }
}

TEST(Shrink, TwiceMakesTwoCommunicators) {
  auto ranks = Communicator::createLocal(3, {.setupTimeout = 10s});
  runRanks(ranks, [](Communicator& c) {
    Communicator first = c.shrink();
    Communicator second = c.shrink();
    EXPECT_EQ(sumOfRanks(first), 6);
    EXPECT_EQ(sumOfRanks(second), 6);
    { Communicator gone = std::move(second); }
    EXPECT_EQ(sumOfRanks(first), 6);
    EXPECT_EQ(first.size(), c.shrink().size());
  });
}

// Rank 0's operation 1 is queued on a stream when it shrinks, and ends there: rank 1, which is in
// operation 1 too, must learn that it cannot complete, although rank 0 had issued it.
TEST(Shrink, AnOperationThatItKilledDoesNotCountAsReached) {
  auto ranks = Communicator::createLocal(3, {.setupTimeout = 20s, .timeout = 10s});
  std::atomic<bool> failed{false};
  runRanks(ranks, [&](Communicator& c) {
    if (c.rank() == 0) {
      Stream stream;
      c.barrier(stream);
      EXPECT_EQ(sumOfRanks(*std::make_unique<Communicator>(c.shrink())), 6);
      EXPECT_EQ(codeOf([&] { stream.synchronize(); }), ErrorCode::Aborted);
      return;
    }
    if (c.rank() == 1) {
      EXPECT_EQ(codeOf([&] { c.barrier(); }), ErrorCode::Aborted);
      failed = true;
    }
    while (!failed) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(sumOfRanks(*std::make_unique<Communicator>(c.shrink())), 6);
  });
}

// When shrink() returns nobody's operation runs any more: memory that was being written to is its
// owner's.
TEST(Shrink, LeavesWindowsAlone) {
  constexpr size_t kCount = 1 << 20;
  for (int repeat = 0; repeat < 5; ++repeat) {
    auto ranks = Communicator::createLocal(3, {.setupTimeout = 20s});
    std::barrier allocated(3);  // not the communicator's, which a rank leaves before the others
    runRanks(ranks, [&](Communicator& c) {
      Memory x = c.allocate(kCount * 4), y = c.allocate(kCount * 4);
      std::fill_n(x.as<int>(), kCount, 1);
      allocated.arrive_and_wait();
      Stream stream;
      int begun = 0;
      try {
        for (; begun < 100; ++begun)
          c.allReduce(
              {.send = x.data(), .recv = y.data(), .count = kCount, .type = DataType::Int32},
              stream);
      } catch (const Error&) {  // another rank has shrunk it already
      }
      if (c.rank() == repeat % 3) std::this_thread::sleep_for(std::chrono::milliseconds(repeat));
      Communicator rest = c.shrink();
      std::fill_n(y.as<int>(), kCount, -7);
      EXPECT_EQ(sumOfRanks(rest), 6);
      EXPECT_TRUE(std::all_of(y.as<int>(), y.as<int>() + kCount, [](int v) { return v == -7; }));
      if (begun > 0) {
        EXPECT_THROW(stream.synchronize(), Error);
      }
      rest.barrier();
    });
  }
}

// A call that timed out is taken up by the next: what a rank proposed is still proposed.
TEST(Shrink, MayBeCalledAgainAfterATimeout) {
  auto ranks = Communicator::createLocal(3, {.setupTimeout = 2s});
  std::atomic<int> timedOut{0};
  runRanks(ranks, [&](Communicator& c) {
    if (c.rank() < 2) {
      try {
        c.shrink();
        ADD_FAILURE() << "rank 2 was not there";
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::Timeout) << e.what();
        EXPECT_TRUE(contains(e.what(), "waiting for rank 2")) << e.what();
      }
      ++timedOut;
    }
    while (timedOut < 2) std::this_thread::sleep_for(1ms);
    Communicator rest = c.shrink();
    EXPECT_EQ(sumOfRanks(rest), 6);
  });
}

// A rank that destroys its failed communicator will not shrink it, and is not waited for.
TEST(Shrink, GoesOnWithoutARankThatDestroyedItsOwn) {
  auto ranks = Communicator::createLocal(3, {.setupTimeout = 20s});
  runRanks(ranks, [](Communicator& c) {
    auto part = c.split(0, c.rank());
    part->barrier();
    c.barrier();
    if (c.rank() == 0) part->abort();
    EXPECT_EQ(codeOf([&] {
                while (true) part->barrier();
              }),
              ErrorCode::Aborted);
    if (c.rank() == 2) {
      part.reset();
    } else {
      Communicator rest = part->shrink();
      EXPECT_EQ(rest.size(), 2);
      EXPECT_EQ(sumOfRanks(rest), 3);
    }
    c.barrier();
  });
}

// Rank 0 has done its part of operation 1 and then shrinks, in vain; its abort() must still reach
// rank 1, which waits for rank 2.
TEST(Abort, AfterAFailedShrinkIsTold) {
  auto ranks = Communicator::createLocal(3, {.setupTimeout = 1s, .timeout = 20s});
  std::atomic<bool> aborted{false};
  runRanks(ranks, [&](Communicator& c) {
    int x = 1, sum = 0;
    const auto reduce = [&] {
      c.reduce({.send = &x, .recv = &sum, .count = 1, .type = DataType::Int32, .root = 1});
    };
    if (c.rank() == 0) {
      reduce();
      EXPECT_EQ(codeOf([&] { c.shrink(); }), ErrorCode::Timeout);
      c.abort();
    } else if (c.rank() == 1) {
      EXPECT_EQ(codeOf(reduce), ErrorCode::Aborted);
      aborted = true;
    } else {
      while (!aborted) std::this_thread::sleep_for(1ms);
    }
  });
}

/// Passes everything on, but for what a rule takes away instead of sending it.
class RuledControlPlane final : public bootstrap::ControlPlane {
 public:
  using Rule = std::function<bool(int to, const bootstrap::ControlMessage&)>;
  RuledControlPlane(std::shared_ptr<bootstrap::ControlPlane> plane, Rule takes)
      : plane_(std::move(plane)), takes_(std::move(takes)) {}
  int rank() const override { return plane_->rank(); }
  int size() const override { return plane_->size(); }
  const bootstrap::PeerInfo& peer(int rank) const override { return plane_->peer(rank); }
  void send(int to, bootstrap::ControlMessage message) override {
    if (!takes_(to, message)) plane_->send(to, std::move(message));
  }
  void listen(uint64_t channel, bootstrap::ControlListener* listener) override {
    plane_->listen(channel, listener);
  }
  void ignore(uint64_t channel) override { plane_->ignore(channel); }
  bool runs(int rank) const override { return plane_->runs(rank); }
  void leave() override { plane_->leave(); }
  void awaitSent(const base::Deadline& deadline) override { plane_->awaitSent(deadline); }

 private:
  const std::shared_ptr<bootstrap::ControlPlane> plane_;
  const Rule takes_;
};

std::vector<Communicator> makeRanks(int size, const CommunicatorOptions& options,
                                    std::vector<std::shared_ptr<bootstrap::ControlPlane>> planes) {
  return communicator::makeLocal(
      size, options,
      [size](int rank) {
        return transports::shm::makeShmEndpoint(
            rank, size, transports::shm::chooseLayout(size, communicator::kChannels));
      },
      std::move(planes));
}

// Rank 0 runs into its deadline, and rank 2 has not heard of it when rank 1, which has, aborts or
// shrinks: what it hears from rank 1 first is still what happened, and to whom.
TEST(Abort, AndShrinkPassOnWhatFailedBefore) {
  for (const bool shrinks : {false, true}) {
    auto planes = bootstrap::makeLocalControlPlanes(3);
    planes[0] = std::make_shared<RuledControlPlane>(
        planes[0], [](int to, const bootstrap::ControlMessage& message) {
          return to == 2 &&
                 message.type == static_cast<uint32_t>(communicator::message::MessageType::Failure);
        });
    auto ranks = makeRanks(3, {.setupTimeout = 10s, .timeout = 500ms}, std::move(planes));
    runRanks(ranks, [&](Communicator& c) {
      if (c.rank() == 0) {
        EXPECT_EQ(codeOf([&] { c.barrier(); }), ErrorCode::Timeout);
      }
      for (int i = 0; i < 5000 && !c.asyncError(); ++i) std::this_thread::sleep_for(1ms);
      if (c.rank() == 1 && !shrinks) c.abort();
      ASSERT_TRUE(c.asyncError()) << c.rank();
      EXPECT_EQ(c.asyncError()->code(), ErrorCode::Timeout);
      EXPECT_TRUE(contains(c.asyncError()->what(), "rank 0 (pid ")) << c.asyncError()->what();
      EXPECT_EQ(contains(c.asyncError()->what(), "(reported by rank 0)"), c.rank() > 0)
          << c.asyncError()->what();
      if (!shrinks) return;
      Communicator next = c.shrink();
      EXPECT_EQ(sumOfRanks(next), 6);
    });
  }
}

// The last rank dies in the middle of telling the others something: some have heard it and some
// have not. Whatever it was, the survivors meet in one communicator without it. Those who heard its
// last Ready have returned a communicator with it by then.
TEST(Shrink, ADeathInTheMiddleOfItDoesNotDivideTheSurvivors) {
  using Message = communicator::message::MessageType;
  constexpr int kRanks = 4, kMortal = 3;
  for (const Message last : {Message::View, Message::Decision, Message::Hello, Message::Ready})
    for (int deaf = 0; deaf < kMortal; ++deaf) {
      auto planes = bootstrap::makeLocalControlPlanes(kRanks);
      std::atomic<int> returned{0};
      planes[kMortal] = std::make_shared<RuledControlPlane>(
          planes[kMortal], [&, mortal = planes[kMortal], last, deaf](
                               int to, const bootstrap::ControlMessage& message) {
            if (to != deaf || message.type != static_cast<uint32_t>(last)) return false;
            for (int i = 0; last == Message::Ready && i < 3000 && returned < deaf; ++i)
              std::this_thread::sleep_for(1ms);
            bootstrap::killLocalRank(*mortal, "died on purpose");
            throw std::runtime_error("dead");
          });
      auto ranks = makeRanks(kRanks, {.setupTimeout = 10s, .timeout = 10s}, std::move(planes));
      runRanks(ranks, [&](Communicator& c) {
        if (c.rank() == kMortal) {
          EXPECT_THROW(c.shrink(), std::exception);
          return;
        }
        Communicator rest = c.shrink();
        ++returned;
        while (true) {
          try {
            EXPECT_EQ(sumOfRanks(rest), 6);
            EXPECT_EQ(rest.size(), kRanks - 1);
            rest.barrier();
            break;
          } catch (const Error& e) {
            ASSERT_EQ(e.code(), ErrorCode::PeerLost) << e.what();
          }
          rest = rest.shrink();
        }
      });
    }
}

}  // namespace
}  // namespace tutti::tests
