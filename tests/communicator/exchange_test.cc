// Sends and receives: any pattern, in groups and alone, and AllToAllV, which is made of them; and
// what happens when ranks go away.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <numeric>
#include <random>
#include <thread>

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

TEST(Exchange, ASendMeetsItsReceive) {
  auto ranks = Communicator::createLocal(2);
  runRanks(ranks, [](Communicator& c) {
    for (const size_t bytes : {0, 1, 3, 48, 49, 4096, 65536, 65537, 3000001})
      for (const size_t misalign : {0, 1, 7}) {
        const Bytes expected = content(bytes, bytes);
        Bytes memory(bytes + 64, 0xa5);
        uint8_t* data = memory.data() + 32 + misalign;
        if (c.rank() == 0) {
          std::ranges::copy(expected, data);
          c.send({.send = data, .count = bytes, .type = DataType::UInt8, .peer = 1});
        } else {
          c.receive({.recv = data, .count = bytes, .type = DataType::UInt8, .peer = 0});
        }
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), data)) << bytes << " bytes";
        EXPECT_EQ(data[-1], 0xa5);
        EXPECT_EQ(data[bytes], 0xa5);
      }
  });
}

// A small send returns before its receive is called; so ranks may send to each other in turn.
TEST(Exchange, ASmallSendNeedsNoReceiver) {
  auto ranks = Communicator::createLocal(2);
  runRanks(ranks, [](Communicator& c) {
    const Bytes mine = content(static_cast<uint64_t>(c.rank()), 1000);
    Bytes theirs(1000);
    give(c, mine, 1 - c.rank());
    take(c, theirs, 1 - c.rank());
    EXPECT_EQ(theirs, content(static_cast<uint64_t>(1 - c.rank()), 1000));
  });
}

struct Message {
  int from, to;
  uint64_t number;
  size_t bytes;
};

/// The same on all ranks: some pairs have many, some none; some messages are empty, some large.
std::vector<Message> drawMessages(std::mt19937_64& random, int ranks) {
  std::vector<Message> messages(random() % 30);
  for (Message& m : messages) {
    m.from = static_cast<int>(random() % static_cast<uint64_t>(ranks));
    m.to = static_cast<int>(random() % static_cast<uint64_t>(ranks));
    m.number = random() % 1000000;
    const size_t sizes[] = {0, 1, random() % 100, random() % 10000, random() % 500000};
    m.bytes = sizes[random() % 5];
  }
  return messages;
}

/// One group with this rank's part of `messages`; sends and receives are issued in any order that
/// keeps each pair's.
void exchangeAll(Communicator& c, const std::vector<Message>& messages, std::mt19937_64& own,
                 Stream* onStream) {
  const StreamRef stream = onStream ? StreamRef(*onStream) : StreamRef();
  std::vector<Bytes> received(messages.size()), sent(messages.size());
  std::vector<int> peers(static_cast<size_t>(2 * c.size()));
  std::iota(peers.begin(), peers.end(), 0);
  std::ranges::shuffle(peers, own);
  {
    Group group;
    for (const int turn : peers) {
      const int peer = turn % c.size();
      for (size_t i = 0; i < messages.size(); ++i) {
        const Message& m = messages[i];
        if (turn < c.size() && m.from == c.rank() && m.to == peer) {
          sent[i] = content(m.number, m.bytes);
          give(c, sent[i], peer, stream);
        }
        if (turn >= c.size() && m.to == c.rank() && m.from == peer) {
          received[i].resize(m.bytes);
          take(c, received[i], peer, stream);
        }
      }
    }
    group.end();
  }
  if (onStream) onStream->synchronize();
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].to != c.rank()) continue;
    EXPECT_TRUE(received[i] == content(messages[i].number, messages[i].bytes))
        << "message " << i << " of " << messages[i].bytes << " bytes from rank " << messages[i].from
        << " to " << messages[i].to << ", seed " << testSeed();
  }
}

class Patterns : public testing::TestWithParam<int> {};

TEST_P(Patterns, OfAnyShapeGoThroughInAGroup) {
  auto ranks = Communicator::createLocal(GetParam());
  runRanks(ranks, [](Communicator& c) {
    std::mt19937_64 common(testSeed()), own(testSeed() + static_cast<uint64_t>(c.rank()) + 1);
    Stream stream;
    for (int repeat = 0; repeat < 40; ++repeat) {
      exchangeAll(c, drawMessages(common, c.size()), own, repeat % 2 ? &stream : nullptr);
      // Some ranks had nothing to exchange; collectives go on as if nothing had been.
      int64_t sum = c.rank() + 1;
      c.allReduce({.send = &sum, .recv = &sum, .count = 1, .type = DataType::Int64});
      EXPECT_EQ(sum, c.size() * (c.size() + 1) / 2);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Patterns, testing::Values(1, 2, 3, 5, 8));

// More than the slots hold in both directions of a cycle: without a group nobody would get through.
TEST(Exchange, ACycleOfLargeMessages) {
  auto ranks = Communicator::createLocal(3);
  runRanks(ranks, [](Communicator& c) {
    constexpr size_t kBytes = 20 << 20;
    const Bytes mine = content(static_cast<uint64_t>(c.rank()), kBytes);
    Bytes theirs(kBytes);
    Group group;
    give(c, mine, (c.rank() + 1) % 3);
    take(c, theirs, (c.rank() + 2) % 3);
    group.end();
    EXPECT_TRUE(theirs == content(static_cast<uint64_t>((c.rank() + 2) % 3), kBytes));
  });
}

// Sends and receives of a group come after its collectives, in whatever order it has them.
TEST(Exchange, MixesWithCollectivesInAGroup) {
  auto ranks = Communicator::createLocal(3);
  runRanks(ranks, [](Communicator& c) {
    for (int repeat = 0; repeat < 5; ++repeat) {
      std::vector<int> x(50000, c.rank());
      const Bytes mine = content(static_cast<uint64_t>(c.rank()), 300000);
      Bytes theirs(300000);
      Group group;
      if (c.rank() == 1) take(c, theirs, 0);
      c.allReduce({.send = x.data(), .recv = x.data(), .count = x.size(), .type = DataType::Int32});
      if (c.rank() == 0) give(c, mine, 1);
      c.barrier();
      group.end();
      EXPECT_EQ(x[49999], 3);
      EXPECT_TRUE(c.rank() != 1 || theirs == content(0, 300000));
    }
  });
}

TEST(Exchange, RunsInTheOrderOfItsStream) {
  auto ranks = Communicator::createLocal(2);
  runRanks(ranks, [](Communicator& c) {
    Stream stream;
    std::vector<Bytes> data(50);
    for (size_t i = 0; i < data.size(); ++i) {
      data[i] = c.rank() == 0 ? content(i, 5000 * i) : Bytes(5000 * i);
      if (i % 2 == 0)
        c.rank() == 0 ? give(c, data[i], 1, stream) : take(c, data[i], 0, stream);
      else
        c.broadcast({.send = data[i].data(),
                     .recv = data[i].data(),
                     .count = data[i].size(),
                     .type = DataType::UInt8},
                    stream);
    }
    stream.synchronize();
    for (size_t i = 0; i < data.size(); ++i) EXPECT_TRUE(data[i] == content(i, 5000 * i)) << i;
  });
}

class Uneven : public testing::TestWithParam<int> {};

TEST_P(Uneven, BlocksGoToTheirRanks) {
  auto ranks = Communicator::createLocal(GetParam());
  runRanks(ranks, [](Communicator& c) {
    const auto n = static_cast<size_t>(c.size()), me = static_cast<size_t>(c.rank());
    std::mt19937_64 common(testSeed());
    for (int repeat = 0; repeat < 30; ++repeat) {
      std::vector<std::vector<size_t>> counts(n, std::vector<size_t>(n));
      const uint64_t most = uint64_t{1} << (common() % 17);
      for (auto& row : counts)
        for (size_t& count : row) count = common() % 3 == 0 ? 0 : common() % most;
      const bool gaps = common() % 2 == 0;
      std::vector<size_t> sendOffsets(n), recvCounts(n), recvOffsets(n);
      size_t in = 0, out = 0;
      for (size_t q = n; q-- > 0;) {  // offsets need not ascend
        recvCounts[q] = counts[q][me];
        sendOffsets[q] = in;
        recvOffsets[q] = out;
        in += counts[me][q] + 3;
        out += recvCounts[q] + 2;
      }
      if (!gaps)
        for (size_t q = 0; q < n; ++q) {
          sendOffsets[q] = q == 0 ? 0 : sendOffsets[q - 1] + counts[me][q - 1];
          recvOffsets[q] = q == 0 ? 0 : recvOffsets[q - 1] + recvCounts[q - 1];
        }
      const auto value = [&](size_t from, size_t to, size_t i) {
        return static_cast<int32_t>(from * 1000003 + to * 10007 + i * 31 +
                                    static_cast<size_t>(repeat));
      };
      std::vector<int32_t> send(in, -1), recv(out, -7);
      for (size_t q = 0; q < n; ++q)
        for (size_t i = 0; i < counts[me][q]; ++i) send[sendOffsets[q] + i] = value(me, q, i);
      std::vector<int32_t> expected(out, -7);
      for (size_t q = 0; q < n; ++q)
        for (size_t i = 0; i < recvCounts[q]; ++i) expected[recvOffsets[q] + i] = value(q, me, i);
      using Offsets = std::span<const size_t>;
      c.allToAllV({.send = send.data(),
                   .sendCounts = counts[me],
                   .sendOffsets = gaps ? Offsets(sendOffsets) : Offsets(),
                   .recv = recv.data(),
                   .recvCounts = recvCounts,
                   .recvOffsets = gaps ? Offsets(recvOffsets) : Offsets(),
                   .type = DataType::Int32});
      EXPECT_EQ(recv == expected, true)
          << "rank " << me << " of " << n << ", repeat " << repeat << ", seed " << testSeed();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Uneven, testing::Values(1, 2, 3, 5, 8));

TEST(Exchange, EarlierTransfersOfAGroupMayArrive) {
  auto ranks = Communicator::createLocal(2, {.timeout = 20s});
  runRanks(ranks, [](Communicator& c) {
    const Bytes first = content(1, 10), second = content(2, 30);
    Bytes a(10), b(20, 0xa5);
    const Outcome outcome = outcomeOf([&] {
      Group group;
      if (c.rank() == 0) {
        give(c, first, 1);
        give(c, second, 1);
      } else {
        take(c, a, 0);
        take(c, b, 0);
      }
      group.end();
      c.barrier();
    });
    EXPECT_EQ(outcome.code, ErrorCode::Mismatch) << outcome.text;
    EXPECT_EQ(b, Bytes(20, 0xa5));
  });
}

// abort(), shrink() and a death end an exchange that waits.
TEST(Exchange, EndsWhenTheCommunicatorDoes) {
  for (const bool shrinks : {false, true}) {
    auto ranks = Communicator::createLocal(3, {.timeout = 30s});
    std::atomic<int> waiting{0};
    runRanks(ranks, [&](Communicator& c) {
      if (c.rank() == 2) {
        while (waiting < 2) std::this_thread::sleep_for(1ms);
        std::this_thread::sleep_for(20ms);
        if (!shrinks) c.abort();
        EXPECT_EQ(c.shrink().size(), 3);
        return;
      }
      Bytes data(10);
      ++waiting;
      const Outcome outcome = outcomeOf([&] { take(c, data, 2); });
      EXPECT_EQ(outcome.code, ErrorCode::Aborted) << outcome.text;
      EXPECT_EQ(c.shrink().size(), 3);
    });
  }
}

TEST(Exchange, ADeathEndsIt) {
  RankProcesses ranks(3, [](const RankProcesses::Context& context) {
    Communicator c = context.join({.timeout = 20s});
    Bytes data(10);
    // The others may hear of the death before they have left the barrier.
    const Outcome outcome = outcomeOf([&] {
      c.barrier();
      if (context.rank == 2) {
        std::this_thread::sleep_for(50ms);
        ::raise(SIGKILL);
      }
      take(c, data, 1 - context.rank);
    });
    context.say(outcome.text);
    return outcome.code == ErrorCode::PeerLost && contains(outcome.text, "rank 2 (pid ") ? 0 : 1;
  });
  for (const int r : {0, 1}) EXPECT_EQ(ranks.wait(r, 15s), 0) << ranks.output(r);
}

// Ranks number their collectives alike, however many sends and receives some of them made between.
TEST(Exchange, DoesNotDisturbTheNumbersOfCollectives) {
  auto ranks = Communicator::createLocal(3, {.timeout = 20s});
  runRanks(ranks, [](Communicator& c) {
    Bytes data(10);
    for (int i = 0; i < 100; ++i) {
      if (c.rank() == 0) give(c, data, 1);
      if (c.rank() == 1) take(c, data, 0);
    }
    std::vector<float> x(100), y(300);
    // The others may be in the second collective before this rank has left the first.
    const Outcome outcome = outcomeOf([&] {
      c.barrier();
      if (c.rank() == 2)
        c.allReduce({.send = x.data(), .recv = x.data(), .count = 100});
      else
        c.allGather({.send = x.data(), .recv = y.data(), .count = 100});
      c.barrier();
    });
    EXPECT_EQ(outcome.code, ErrorCode::Mismatch) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, "operation 2")) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, "all_reduce of 100")) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, "all_gather of 100")) << outcome.text;
  });
}

// What a rank sent before it left arrives; what it did not send is not waited for.
TEST(Exchange, ALeaverIsNoticedByThoseWhoNeedIt) {
  auto ranks = Communicator::createLocal(3, {.timeout = 30s});
  std::atomic<bool> left{false};
  runRanks(ranks, [&](Communicator& c) {
    if (c.rank() == 0) {
      give(c, content(1, 5000), 1);
      { Communicator gone = std::move(c); }
      left = true;
      return;
    }
    while (!left) std::this_thread::sleep_for(1ms);
    if (c.rank() == 2) {  // needs nobody who has left
      Bytes data(3000000);
      take(c, data, 1);
      EXPECT_TRUE(data == content(2, 3000000));
      return;
    }
    Bytes data(5000), more(10);
    take(c, data, 0);
    EXPECT_TRUE(data == content(1, 5000));
    give(c, content(2, 3000000), 2);
    const auto begin = std::chrono::steady_clock::now();
    const Outcome outcome = outcomeOf([&] { take(c, more, 0); });
    EXPECT_EQ(outcome.code, ErrorCode::PeerLost) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, "rank 0 (pid ")) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, " left; rank 1 (pid ")) << outcome.text;
    EXPECT_TRUE(
        contains(outcome.text, "in exchange 3, 0 sends of 0 bytes and 1 receive of 10 bytes"))
        << outcome.text;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  });
}

TEST(Exchange, AReceiveThatNobodySendsTimesOutByName) {
  auto ranks = Communicator::createLocal(2, {.timeout = 1500ms});
  runRanks(ranks, [](Communicator& c) {
    Bytes data(10);
    const Outcome outcome = outcomeOf([&] { take(c, data, 1 - c.rank()); });
    EXPECT_EQ(outcome.code, ErrorCode::Timeout) << outcome.text;
    for (const char* part : {"exchange 1, 0 sends of 0 bytes and 1 receive of 10 bytes did not "
                             "complete within 1500 ms; it waits for rank ",
                             " with 0 bytes received, which sends and receives"})
      EXPECT_TRUE(contains(outcome.text, part)) << outcome.text;
  });
}

}  // namespace
}  // namespace tutti::tests
