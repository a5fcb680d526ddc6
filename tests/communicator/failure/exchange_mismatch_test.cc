// Sends and receives that ranks disagree about, and those that cannot be right.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include <tutti/tutti.h>

#include "tests/communicator/transfers.h"
#include "tests/support/leftovers.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"
#include "tests/support/rank_processes.h"
#include "tests/support/text.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

// Both sides are told, also the one whose part was done; nothing was delivered.
TEST(Exchange, CountsThatDifferAreAMismatchOnBothSides) {
  for (const auto& [sent, expected] : std::vector<std::pair<size_t, size_t>>{{12, 16},
                                                                             {16, 12},
                                                                             {0, 1},
                                                                             {1, 0},
                                                                             {65536, 131072},
                                                                             {131072, 65536},
                                                                             {3000000, 2999999}}) {
    auto ranks = Communicator::createLocal(3, {.timeout = 20s});
    runRanks(ranks, [&, sent = sent, expected = expected](Communicator& c) {
      const Bytes mine(sent, 1);
      Bytes theirs(expected, 0xa5);
      const Outcome outcome = outcomeOf([&] {
        if (c.rank() == 0) give(c, mine, 1);
        if (c.rank() == 1) take(c, theirs, 0);
        c.barrier();
      });
      EXPECT_EQ(outcome.code, ErrorCode::Mismatch) << outcome.text;
      EXPECT_TRUE(contains(outcome.text, "rank 1 receives " + std::to_string(expected) +
                                             " uint8 from rank 0, which sends " +
                                             std::to_string(sent) + " uint8"))
          << outcome.text;
      EXPECT_EQ(theirs, Bytes(expected, 0xa5)) << "delivered";
      EXPECT_EQ(c.shrink().size(), 3);
    });
  }
}

/// `count` elements, which lie in one buffer of bytes.
struct Elements {
  size_t count;
  DataType type;
  Bytes bytes = Bytes(count * sizeOf(type), 0xa5);
  std::string text() const { return std::to_string(count) + " " + toString(type); }
};

// Where the bytes are as many, too, and where there are none.
TEST(Exchange, TypesThatDifferAreAMismatchOnBothSides) {
  using enum DataType;
  const std::pair<Elements, Elements> pairs[] = {
      {{16, Float32}, {16, Int32}},       {{16, Float32}, {64, Int8}},
      {{16, BFloat16}, {16, Float16}},    {{0, Float64}, {0, Int64}},
      {{16, Float32}, {16, Float64}},     {{100'000, UInt32}, {100'000, Int32}},
      {{3, Float8E4M3}, {3, Float8E5M2}}, {{1'000'000, Int64}, {1'000'000, UInt64}}};
  for (const auto& [sent, received] : pairs)
    for (const bool asBlocks : {false, true}) {
      auto ranks = Communicator::createLocal(2, {.timeout = 20s});
      runRanks(ranks, [&, sent = sent, received = received](Communicator& c) {
        const Elements& mine = c.rank() == 0 ? sent : received;
        Bytes into = received.bytes, unused(mine.bytes.size());
        const void* const from = sent.bytes.data();  // of no type
        void* const to = into.data();
        const size_t sends[] = {0, c.rank() == 0 ? mine.count : 0};
        const size_t receives[] = {c.rank() == 1 ? mine.count : 0, 0};
        const Outcome outcome = outcomeOf([&] {
          if (asBlocks)
            c.allToAllV({.send = from,
                         .sendCounts = sends,
                         .recv = to,
                         .recvCounts = receives,
                         .type = mine.type});
          else if (c.rank() == 0)
            c.send({.send = from, .count = mine.count, .type = mine.type, .peer = 1});
          else
            c.receive({.recv = to, .count = mine.count, .type = mine.type, .peer = 0});
          c.barrier();
        });
        EXPECT_EQ(outcome.code, ErrorCode::Mismatch) << outcome.text;
        // Of blocks, an empty one of the other direction may be the first that is compared.
        const bool isNamed = contains(outcome.text, "rank 1 receives " + received.text() +
                                                        " from rank 0, which sends " + sent.text());
        const bool isOther = asBlocks && contains(outcome.text, "rank 0 receives 0 ");
        EXPECT_TRUE(isNamed || isOther) << outcome.text;
        EXPECT_EQ(into, received.bytes) << "delivered";
      });
    }
}

TEST(Exchange, ASendAgainstACollectiveIsAMismatch) {
  for (const bool collectiveAtReceiver : {true, false}) {
    auto ranks = Communicator::createLocal(2, {.timeout = 20s});
    runRanks(ranks, [&](Communicator& c) {
      Bytes data(1000, 1);
      const Outcome outcome = outcomeOf([&] {
        if (c.rank() == 0 && collectiveAtReceiver) give(c, data, 1);
        if (c.rank() == 1 && !collectiveAtReceiver) take(c, data, 0);
        c.allGather({.send = data.data(),
                     .recv = Bytes(2000).data(),
                     .count = 1000,
                     .type = DataType::UInt8});
        c.barrier();
      });
      EXPECT_EQ(outcome.code, ErrorCode::Mismatch) << outcome.text;
      EXPECT_TRUE(contains(outcome.text, "is in a collective")) << outcome.text;
    });
  }
}

// No message flows at all: the root of the Reduce only receives, and so does the other.
TEST(Exchange, AReceiveAgainstACollectiveThatWaitsIsAMismatch) {
  auto ranks = Communicator::createLocal(2, {.timeout = 20s});
  runRanks(ranks, [](Communicator& c) {
    Bytes data(10), sum(10);
    const Outcome outcome = outcomeOf([&] {
      if (c.rank() == 0)
        take(c, data, 1);
      else
        c.reduce({.send = data.data(),
                  .recv = sum.data(),
                  .count = 10,
                  .type = DataType::UInt8,
                  .root = 1});
    });
    EXPECT_EQ(outcome.code, ErrorCode::Mismatch) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, "and waits for rank ")) << outcome.text;
  });
}

TEST(Exchange, RefusesWhatCannotBeRight) {
  auto ranks = Communicator::createLocal(2);
  runRanks(ranks, [](Communicator& c) {
    Bytes x(100), y(100);
    const auto refused = [](ErrorCode code, const std::string& part,
                            const std::function<void()>& call) {
      const Outcome outcome = outcomeOf(call);
      EXPECT_EQ(outcome.code, code) << outcome.text;
      EXPECT_TRUE(contains(outcome.text, part)) << outcome.text;
    };
    const int me = c.rank(), other = 1 - me;
    void* const memory = x.data();
    using enum ErrorCode;
    refused(InvalidArgument, "peer 2 is not a rank of 0..1", [&] { give(c, x, 2); });
    refused(InvalidArgument, "peer -1", [&] { take(c, x, -1); });
    refused(InvalidArgument, "send is null",
            [&] { c.send({.count = 1, .type = DataType::Float32, .peer = other}); });
    refused(InvalidArgument, "does not fit in memory", [&] {
      c.receive({.recv = memory, .count = SIZE_MAX / 2, .type = DataType::Float32, .peer = other});
    });
    refused(InvalidArgument, "send of 281474976710656 bytes", [&] {
      c.send({.send = memory, .count = size_t{1} << 46, .type = DataType::Int32, .peer = other});
    });
    refused(InvalidArgument, "there is no data type 77",
            [&] { c.send({.send = memory, .count = 1, .type = DataType{77}, .peer = other}); });
    refused(InvalidUsage, "1 sends to itself and 0 receives", [&] { give(c, x, me); });
    refused(InvalidUsage, "0 sends to itself and 1 receives", [&] {
      Group group;
      give(c, x, other);
      take(c, y, me);
      group.end();
    });
    for (const auto& [count, type] :
         {std::pair(size_t{99}, DataType::UInt8), std::pair(size_t{100}, DataType::Int8),
          std::pair(size_t{25}, DataType::Float32)})
      refused(
          InvalidUsage,
          "sends 100 uint8 to itself and receives " + std::to_string(count) + " " + toString(type),
          [&, count = count, type = type] {
            Group group;
            give(c, x, me);
            void* const to = y.data();
            c.receive({.recv = to, .count = count, .type = type, .peer = me});
            group.end();
          });
    refused(InvalidArgument, "overlapping buffers: sent to rank", [&] {
      Group group;
      give(c, x, other);
      take(c, x, other);
      group.end();
    });
    refused(InvalidUsage, "different streams", [&] {
      Stream stream;
      Group group;
      give(c, x, other);
      take(c, y, other, stream);
      group.end();
    });
    const std::vector<size_t> counts{10, 10}, one{10}, overlapping{0, 5}, far{0, SIZE_MAX - 3};
    refused(InvalidArgument, "alltoallv send: 1 counts for 2 ranks", [&] {
      c.allToAllV({.send = x.data(),
                   .sendCounts = one,
                   .recv = y.data(),
                   .recvCounts = counts,
                   .type = DataType::UInt8});
    });
    refused(InvalidArgument, "alltoallv recv: 1 offsets for 2 ranks", [&] {
      c.allToAllV({.send = x.data(),
                   .sendCounts = counts,
                   .recv = y.data(),
                   .recvCounts = counts,
                   .recvOffsets = one,
                   .type = DataType::UInt8});
    });
    refused(InvalidArgument, "overlapping buffers: received from rank 0 and received from rank 1",
            [&] {
              c.allToAllV({.send = x.data(),
                           .sendCounts = counts,
                           .recv = y.data(),
                           .recvCounts = counts,
                           .recvOffsets = overlapping,
                           .type = DataType::UInt8});
            });
    refused(InvalidArgument, "do not fit in memory", [&] {
      c.allToAllV({.send = x.data(),
                   .sendCounts = counts,
                   .sendOffsets = far,
                   .recv = y.data(),
                   .recvCounts = counts,
                   .type = DataType::UInt8});
    });
    // None of it was made.
    const Bytes mine = content(static_cast<uint64_t>(me), 100);
    Group group;
    c.allToAllV({.send = mine.data(),
                 .sendCounts = std::vector<size_t>{50, 50},
                 .recv = y.data(),
                 .recvCounts = std::vector<size_t>{50, 50},
                 .type = DataType::UInt8});
    group.end();
    EXPECT_TRUE(std::equal(y.begin(), y.begin() + 50, content(0, 100).begin() + 50 * me));
  });
}

}  // namespace
}  // namespace tutti::tests
