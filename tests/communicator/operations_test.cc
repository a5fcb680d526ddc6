// What a call accepts and refuses, and that no call wedges its communicator, whatever goes wrong
// in it: arguments, limits, exceptions from below, barriers, and what can be read about it.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <new>
#include <stdexcept>
#include <thread>

#include <tutti/tutti.h>

#include "src/communicator/endpoints.h"
#include "src/communicator/inspection.h"
#include "src/communicator/local.h"
#include "src/plan/mapped_buffer_policy.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"
#include "tests/support/text.h"
#include "transports/shm/endpoint.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

void expectRefused(const std::string& mention, const std::function<void()>& call) {
  const Outcome outcome = outcomeOf(call);
  EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, mention)) << outcome.text;
}

TEST(Arguments, AreRefusedByName) {
  auto ranks = Communicator::createLocal(1);
  Communicator& c = ranks[0];
  std::vector<float> x(16), y(16);
  expectRefused("overlap",
                [&] { c.allReduce({.send = x.data(), .recv = x.data() + 1, .count = 8}); });
  expectRefused("no data type 77", [&] {
    c.allReduce({.send = x.data(), .recv = y.data(), .count = 8, .type = DataType{77}});
  });
  expectRefused("no reduction 77", [&] {
    c.allReduce({.send = x.data(), .recv = y.data(), .count = 8, .op = ReduceOp{77}});
  });
  expectRefused("empty function", [] { Stream().enqueue({}); });
  expectRefused("send is null", [&] { c.allReduce({.recv = x.data(), .count = 8}); });
  expectRefused("recv is null", [&] { c.allReduce({.send = x.data(), .count = 8}); });
  expectRefused("root 1",
                [&] { c.broadcast({.send = x.data(), .recv = y.data(), .count = 8, .root = 1}); });
  expectRefused("does not fit",
                [&] { c.allReduce({.send = x.data(), .recv = y.data(), .count = SIZE_MAX / 2}); });
  for (const int size : {0, -1, 1000000000})
    expectRefused(std::to_string(size), [&] { Communicator::createLocal(size); });
  expectRefused("star", [&] { Communicator::createLocal(1, {.algorithm = "star"}); });
  expectRefused("-5", [&] { Communicator::createLocal(1, {.timeout = -5ms}); });
  c.allReduce({.count = 0, .type = DataType::Float32});  // nothing, and no pointer
}

// Row 17: the in-place block of AllGather and ReduceScatter is this rank's, and no other.
TEST(Arguments, OverlapsAreRefusedOnEveryRank) {
  auto ranks = Communicator::createLocal(3);
  runRanks(ranks, [](Communicator& c) {
    constexpr size_t kCount = 10;
    std::vector<int> all(3 * kCount + 2, 1);
    const auto gather = [&](int* send) {
      c.allGather({.send = send, .recv = all.data() + 1, .count = kCount, .type = DataType::Int32});
    };
    const auto scatter = [&](int* recv) {
      c.reduceScatter(
          {.send = all.data() + 1, .recv = recv, .count = kCount, .type = DataType::Int32});
    };
    int* const own = all.data() + 1 + static_cast<size_t>(c.rank()) * kCount;
    for (int* at = all.data() + 1; at < all.data() + 1 + 3 * kCount; ++at) {
      if (at == own) continue;
      expectRefused("this rank's block", [&] { gather(at); });
      expectRefused("this rank's block", [&] { scatter(at); });
    }
    for (const auto& call : {std::function<void(int*)>(gather), {scatter}}) {
      expectRefused("overlap", [&] { call(all.data()); });  // by all but its first element
      std::vector<int> apart(kCount);
      call(apart.data());
      call(own);
    }
  });
}

// Row 19.
TEST(Arguments, NothingWithNullPointersIsStillACall) {
  for (const int size : {1, 2, 5}) {
    auto ranks = Communicator::createLocal(size);
    runRanks(ranks, [](Communicator& c) {
      constexpr DataType kType = DataType::Float32;
      for (int repeat = 0; repeat < 3; ++repeat) {
        c.allReduce({.count = 0, .type = kType});
        c.reduce({.count = 0, .type = kType, .root = c.size() - 1});
        c.broadcast({.count = 0, .type = kType, .root = c.size() - 1});
        c.allGather({.count = 0, .type = kType});
        c.reduceScatter({.count = 0, .type = kType});
        c.barrier();
        int sum = 1;
        c.allReduce({.send = &sum, .recv = &sum, .count = 1, .type = DataType::Int32});
        EXPECT_EQ(sum, c.size());
      }
    });
  }
}

// Each rank's own bytes fit, those of all ranks do not: refused before it has a number.
TEST(Limits, ACountThatNoPlanCanHoldIsRefusedAndLeavesTheCommunicator) {
  auto ranks = Communicator::createLocal(4, {.timeout = 5s});
  runRanks(ranks, [](Communicator& c) {
    float x = 1;
    Stream stream;
    for (const size_t count : {size_t{1} << 59, size_t{1} << 60, SIZE_MAX / 4}) {
      const auto sum = [&](StreamRef on) {
        return [&, on] { c.allReduce({.send = &x, .recv = &x, .count = count}, on); };
      };
      expectRefused("does not fit", sum({}));
      expectRefused("does not fit", sum(stream));
    }
    c.allReduce({.send = &x, .recv = &x, .count = 1});
    EXPECT_EQ(x, 4);
  });
}

TEST(Limits, TheLongestTimeIsLong) {
  constexpr auto kMax = std::chrono::milliseconds::max();
  auto ranks =
      Communicator::createLocal(2, {.setupTimeout = kMax, .timeout = kMax, .straggler = kMax});
  std::atomic<int> warnings{0};
  setLogSink([&](LogLevel level, std::string_view) { warnings += level == LogLevel::Warning; });
  runRanks(ranks, [](Communicator& c) {
    if (c.rank() == 1) std::this_thread::sleep_for(300ms);  // the other's polls see the clock
    c.barrier();
    auto part = c.split(0, c.rank());
    part->barrier();
    part->shrink().barrier();
  });
  setLogSink(nullptr);
  EXPECT_EQ(warnings, 0);
}

// Throws from inside an operation, when it has found nothing to do.
class FaultyEndpoint final : public transports::Endpoint {
 public:
  FaultyEndpoint(std::unique_ptr<transports::Endpoint> endpoint, std::function<void()> fault)
      : endpoint_(std::move(endpoint)), fault_(std::move(fault)) {}
  const char* name(int peer) const override { return endpoint_->name(peer); }
  const transports::RingLayout& layout() const override { return endpoint_->layout(); }
  transports::EndpointAddress address(int peer) override { return endpoint_->address(peer); }
  void connect(int peer, transports::EndpointAddress address) override {
    endpoint_->connect(peer, std::move(address));
  }
  transports::SendRing& sendRing(int peer, int channel) override {
    return endpoint_->sendRing(peer, channel);
  }
  transports::ReceiveRing& receiveRing(int peer, int channel) override {
    return endpoint_->receiveRing(peer, channel);
  }
  bool goDirect(int peer, int channel, const transports::DirectSlots& slots) override {
    return endpoint_->goDirect(peer, channel, slots);
  }
  bool progress() override {
    fault_();
    return endpoint_->progress();
  }
  void flush() override { endpoint_->flush(); }
  void drain(const std::function<bool()>& hasFailed) override { endpoint_->drain(hasFailed); }
  bool cancelZeroCopy() override { return endpoint_->cancelZeroCopy(); }

 private:
  const std::unique_ptr<transports::Endpoint> endpoint_;
  const std::function<void()> fault_;
};

std::vector<Communicator> makeFaulty(int size, const std::function<void()>& faultOfRankZero) {
  return communicator::makeLocal(size, {.timeout = 20s}, [&](int rank) {
    auto endpoint = transports::shm::makeShmEndpoint(
        rank, size, transports::shm::chooseLayout(size, communicator::kChannels));
    return rank > 0 ? std::move(endpoint)
                    : std::make_unique<FaultyEndpoint>(std::move(endpoint), faultOfRankZero);
  });
}

// Whatever is thrown in the middle of an operation becomes the failure of all ranks.
TEST(Exceptions, InAnOperationFailTheCommunicatorEverywhere) {
  const std::vector<std::pair<ErrorCode, std::function<void()>>> faults = {
      {ErrorCode::OutOfMemory, [] { throw std::bad_alloc(); }},
      {ErrorCode::Internal, [] { throw std::runtime_error("on purpose"); }},
      {ErrorCode::System, [] { throw Error(ErrorCode::System, "on purpose"); }},
  };
  for (const auto& [code, fault] : faults)
    for (const bool onStream : {false, true}) {
      auto ranks = makeFaulty(3, fault);
      std::atomic<bool> thrown{false};
      runRanks(ranks, [&, code = code](Communicator& c) {
        // Rank 0 finds nothing to do, because rank 1 comes after its failure. It has sent its own
        // part before, so the others may complete that operation, and no later one.
        while (c.rank() == 1 && !thrown) std::this_thread::sleep_for(1ms);
        Stream stream;
        const Outcome outcome = outcomeOf([&] {
          for (int i = 0; i < (c.rank() == 0 ? 1 : 2); ++i) {
            c.barrier(onStream ? StreamRef(stream) : StreamRef());
            stream.synchronize();
          }
        });
        if (c.rank() == 0) thrown = true;
        EXPECT_EQ(outcome.code, code) << outcome.text;
        EXPECT_TRUE(contains(outcome.text, "rank 0 (pid ")) << outcome.text;
        EXPECT_TRUE(contains(outcome.text, "operation 1, barrier")) << outcome.text;
        EXPECT_EQ(outcomeOf([&] { c.barrier(); }).code, code);
        EXPECT_EQ(c.shrink().size(), 3);
      });
    }
}

// More operations wait on the stream than the recorder keeps: the one that runs is watched still.
// On streams, too: what calls ask for is decided when their turn comes, not when they are made.
TEST(MappedBuffers, AreFoundAgainAfterCallsOnOrdinaryMemory) {
  constexpr size_t kCount = 100'000;
  constexpr int kPatience = plan::MappedBufferPolicy::kPatience,
                kEvery = plan::MappedBufferPolicy::kEvery;
  auto ranks = Communicator::createLocal(3);
  runRanks(ranks, [&](Communicator& c) {
    Memory in = c.allocate(kCount * 4), out = c.allocate(kCount * 4);
    std::vector<int> ordinary(kCount);
    Stream stream;
    const auto onMapped = [&](bool windows) {
      std::fill_n(in.as<int>(), kCount, c.rank() + 1);
      int* const to = windows ? out.as<int>() : ordinary.data();
      std::fill_n(to, kCount, 0);
      c.allReduce({.send = in.data(), .recv = to, .count = kCount, .type = DataType::Int32});
      EXPECT_EQ(to[0], 6);
      EXPECT_EQ(to[kCount - 1], 6);
      return communicator::Inspection::bytesReceived(c) == 0;
    };
    EXPECT_TRUE(onMapped(true));
    for (int i = 0; i < kPatience; ++i) EXPECT_FALSE(onMapped(false));
    for (int i = 1; i < kEvery; ++i) EXPECT_FALSE(onMapped(true)) << i;
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(onMapped(true));
    for (int i = 0; i < kPatience; ++i)
      c.allReduce({.send = in.as<int>(), .recv = ordinary.data(), .count = kCount}, stream);
    stream.synchronize();
    EXPECT_FALSE(onMapped(true));
    // Calls of another size, and those of communicators that are told to, ask.
    c.allReduce({.send = in.as<int>(), .recv = out.as<int>(), .count = kCount / 2});
    EXPECT_EQ(communicator::Inspection::bytesReceived(c), 0U);
  });
  auto forced = Communicator::createLocal(3, {.algorithm = "mapped"});
  runRanks(forced, [&](Communicator& c) {
    Memory out = c.allocate(kCount * 4);
    std::vector<float> ordinary(kCount);
    for (int i = 0; i < 2 * kPatience; ++i)
      c.allReduce({.send = ordinary.data(), .recv = ordinary.data(), .count = kCount});
    c.allReduce({.send = out.as<float>(), .recv = out.as<float>(), .count = kCount});
    EXPECT_EQ(communicator::Inspection::bytesReceived(c), 0U);
  });
}

TEST(Queues, TheRunningOperationIsKnownHoweverManyWaitBehindIt) {
  auto ranks = Communicator::createLocal(3, {.timeout = 20s});
  std::atomic<int> queued{0};
  runRanks(ranks, [&](Communicator& c) {
    if (c.rank() == 2) {
      while (queued < 2) std::this_thread::sleep_for(1ms);
      std::this_thread::sleep_for(50ms);  // let the others begin to wait
      Communicator gone = std::move(c);
      return;
    }
    Stream stream;
    for (int i = 0; i < 200; ++i) c.barrier(stream);
    EXPECT_TRUE(contains(c.describe(), "operation 200 waits for its turn: barrier"))
        << c.describe();
    ++queued;
    const Outcome outcome = outcomeOf([&] { stream.synchronize(); });
    EXPECT_EQ(outcome.code, ErrorCode::PeerLost) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, "rank 2 (pid ")) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, "left after operation 0")) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, "operation 1, barrier")) << outcome.text;
  });
}

// Nobody leaves a barrier before everybody has come to it.
TEST(Barrier, KeepsEverybodyUntilAllHaveCome) {
  for (const int size : {2, 3, 5, 8}) {
    auto ranks = Communicator::createLocal(size);
    std::atomic<int> arrived{0};
    runRanks(ranks, [&](Communicator& c) {
      Stream stream;
      for (int round = 1; round <= 60; ++round) {
        if (round % size == c.rank()) std::this_thread::sleep_for(2ms);  // someone is late
        ++arrived;
        if (round % 3) {
          c.barrier();
        } else {
          c.barrier(stream);
          stream.synchronize();
        }
        const int seen = arrived;
        EXPECT_GE(seen, round * size);
        EXPECT_LE(seen, round * size + size - 1) << "a rank is two barriers ahead";
      }
    });
  }
}

// The deadline's message: who, where, in what, for whom, and how far.
TEST(Timeout, NamesRankHostOperationAndBytes) {
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  auto ranks = Communicator::createLocal(3, {.timeout = 500ms, .algorithm = "ring"});
  std::string texts[3];
  std::atomic<int> failed{0};
  runRanks(ranks, [&](Communicator& c) {
    std::vector<float> x(1000), y(3000);
    c.barrier();
    if (c.rank() == 1) {
      while (failed < 2) std::this_thread::sleep_for(1ms);
      return;
    }
    texts[c.rank()] =
        outcomeOf([&] { c.allGather({.send = x.data(), .recv = y.data(), .count = 1000}); }).text;
    ++failed;
  });
  // Blocks go round: rank 0 has got rank 2's, and waits for rank 1's from there; rank 2 has got
  // nothing from rank 1. The first deadline to pass is what both throw.
  const std::string process = "(pid " + std::to_string(::getpid()) + " on host " + host + ")";
  const auto message = [&](int rank, int peer, int bytes) {
    return "rank " + std::to_string(rank) + " " + process +
           ": operation 2, all_gather of 1000 float32, by ring did not complete within 500 ms; it "
           "waits for rank " +
           std::to_string(peer) + " " + process + " with " + std::to_string(bytes) +
           " bytes received";
  };
  for (const int rank : {0, 2})
    EXPECT_TRUE(contains(texts[rank], message(0, 2, 4000)) ||
                contains(texts[rank], message(2, 1, 0)))
        << texts[rank];
}

TEST(Describe, ShowsMembersTransportAndOperations) {
  auto ranks = Communicator::createLocal(2);
  runRanks(ranks, [](Communicator& c) {
    std::vector<float> x(1024);
    c.allReduce({.send = x.data(), .recv = x.data(), .count = 1024});
    c.barrier();
    const std::string text = c.describe();
    for (const std::string& part :
         {"rank " + std::to_string(c.rank()) + " of 2",
          "rank 0 (pid " + std::to_string(::getpid()) + " on host ", std::string(" by shm"),
          std::string("operation 1 is done: all_reduce of 1024 float32, sum, by "),
          std::string("operation 2 is done: barrier, by ")})
      EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
  });
}

}  // namespace
}  // namespace tutti::tests
