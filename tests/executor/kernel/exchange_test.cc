// Sends and receives: whatever the pattern, one launch of each rank delivers every transfer to the
// byte, and ranks that disagree are told.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "src/base/check.h"
#include "tests/executor/kernel/failures.h"
#include "tests/executor/kernel/networks.h"
#include "tests/support/outcome.h"
#include "tests/support/sanitized.h"

namespace tutti::tests {
namespace {

using executor::Transfer;

/// In the order of the list between each two ranks.
struct Move {
  int from, to;
  uint64_t bytes;
};

/// One exchange of all ranks: their memory, and what it has to be when it has ended.
class Exchange {
 public:
  Exchange(DeviceRanks& ranks, std::span<const Move> moves, uint64_t seed) : ranks_(ranks) {
    std::mt19937_64 random(seed);
    const auto size = static_cast<size_t>(ranks.size());
    std::vector<Buffer> sent(size);
    expected_.resize(size);
    std::vector<std::vector<size_t>> sendsAt(size), receivesAt(size);
    // Gaps, so that transfers begin anywhere and who writes too much is seen.
    const auto reserve = [&](Buffer& memory, uint64_t bytes) {
      const size_t at = memory.size() + random() % 20;
      memory.resize(at + bytes + random() % 2 * 16, std::byte{0x5a});
      return at;
    };
    for (const Move& move : moves) {
      Buffer data(move.bytes);
      for (std::byte& byte : data) byte = std::byte(random());
      const size_t from = reserve(sent[move.from], move.bytes);
      std::ranges::copy(data, sent[move.from].begin() + static_cast<ptrdiff_t>(from));
      const size_t to = reserve(expected_[move.to], move.bytes);
      std::ranges::copy(data, expected_[move.to].begin() + static_cast<ptrdiff_t>(to));
      sendsAt[move.from].push_back(from);
      receivesAt[move.to].push_back(to);
    }
    for (int r = 0; r < ranks.size(); ++r) {
      from_.emplace_back(ranks.deviceOf(r), sent[r], random() % 2 * 4);
      to_.emplace_back(ranks.deviceOf(r), Buffer(expected_[r].size(), std::byte{0x5a}), 0);
    }
    sends_.resize(size);
    receives_.resize(size);
    for (const Move& move : moves) {
      auto &sends = sends_[move.from], &receives = receives_[move.to];
      sends.push_back(
          {move.to, from_[move.from].data() + sendsAt[move.from][sends.size()], move.bytes});
      receives.push_back(
          {move.from, to_[move.to].data() + receivesAt[move.to][receives.size()], move.bytes});
    }
  }

  executor::Exchange of(int rank) const { return {sends_[rank], receives_[rank]}; }
  std::vector<Transfer>& sends(int rank) { return sends_[rank]; }
  std::vector<Transfer>& receives(int rank) { return receives_[rank]; }
  void launch(int rank) { exchangeOn(ranks_.executor(rank), of(rank), ranks_.stream(rank)); }
  void launchAll() {
    for (int r = 0; r < ranks_.size(); ++r) launch(r);
  }
  /// Where some rank's memory is not as it should be.
  std::string difference() {
    for (int r = 0; r < ranks_.size(); ++r) ranks_.wait(r);
    for (int r = 0; r < ranks_.size(); ++r) {
      if (const auto failed = ranks_.executor(r).failure()) return failed->what();
      const Buffer actual = to_[r].download();
      for (size_t i = 0; i < actual.size(); ++i)
        if (actual[i] != expected_[r][i])
          return base::message("rank ", r, " differs from byte ", i, " of ", actual.size());
    }
    return {};
  }
  bool isUntouched() const {
    return std::ranges::all_of(to_, [](const DeviceBuffer& buffer) {
      return std::ranges::all_of(buffer.download(),
                                 [](std::byte b) { return b == std::byte{0x5a}; });
    });
  }
  /// Puts back what was there before.
  void clear() {
    for (int r = 0; r < ranks_.size(); ++r) {
      device::OnDevice on(ranks_.deviceOf(r));
      TUTTI_CUDA(cudaMemsetAsync(to_[r].data(), 0x5a, expected_[r].size(), ranks_.stream(r)));
    }
  }

 private:
  DeviceRanks& ranks_;
  std::vector<Buffer> expected_;
  std::vector<DeviceBuffer> from_, to_;
  std::vector<std::vector<Transfer>> sends_, receives_;
};

DeviceRanksOptions exchanging(int ranks, int devices = 4) {
  DeviceRanksOptions options{.ranks = ranks, .devices = devices};
  options.layout.rings.channels = 3;
  options.executor.blocks = 4;
  return options;
}

std::string differenceOf(DeviceRanks& ranks, std::span<const Move> moves, uint64_t seed = 1) {
  Exchange exchange(ranks, moves, seed);
  exchange.launchAll();
  return exchange.difference();
}

// What a message by LL carries in tests, what three of them do, and slots of 4096 bytes.
constexpr uint64_t kSizes[] = {0,    1,    8,     77,    2047,  2048,  2049,
                               4097, 6144, 10240, 18433, 40003, 100000};

TEST(Exchanges, OfAllSizesInBothDirections) {
  for (const int channels : {1, 3}) {
    DeviceRanksOptions options = exchanging(2, 2);
    options.layout.rings.channels = channels;
    DeviceRanks ranks(options);
    for (size_t i = 0; i < std::size(kSizes); ++i) {
      const Move moves[] = {{0, 1, kSizes[i]}, {1, 0, kSizes[(i + 3) % std::size(kSizes)]}};
      ASSERT_EQ(differenceOf(ranks, moves, i), "") << kSizes[i];
    }
    const Move oneWay[] = {{0, 1, 5000}};
    ASSERT_EQ(differenceOf(ranks, oneWay), "");
  }
}

// More messages than slots, in a ring of ranks that all send before any receives.
TEST(Exchanges, InACycleDoNotWaitForEachOther) {
  DeviceRanks ranks(exchanging(5));
  std::vector<Move> moves;
  for (int r = 0; r < 5; ++r) moves.push_back({r, (r + 1) % 5, 200000});
  ASSERT_EQ(differenceOf(ranks, moves), "");
}

TEST(Exchanges, BetweenTheSameRanksMatchInOrder) {
  DeviceRanks ranks(exchanging(2));
  std::vector<Move> moves;
  for (const uint64_t bytes : kSizes)
    for (const Move& move : {Move{0, 1, bytes}, Move{1, 0, bytes / 2}, Move{1, 0, 40}})
      moves.push_back(move);
  ASSERT_EQ(differenceOf(ranks, moves), "");
}

TEST(Exchanges, WithItself) {
  DeviceRanks ranks(exchanging(2));
  const Move moves[] = {{0, 0, 0}, {0, 0, 5}, {0, 0, 70001}, {1, 1, 64}, {0, 1, 12}};
  ASSERT_EQ(differenceOf(ranks, moves), "");
}

TEST(Exchanges, OfOneRankAlone) {
  DeviceRanks ranks(exchanging(1));
  const Move moves[] = {{0, 0, 5000}};
  ASSERT_EQ(differenceOf(ranks, moves), "");
  ASSERT_EQ(differenceOf(ranks, {}), "");
  EXPECT_EQ(ranks.executor(0).completed(), 2U);
}

// Random patterns one after the other, which leave the links as they find them, also for the
// collectives in between.
TEST(Exchanges, OfRandomPatterns) {
  for (const int size : {2, 3, 4, 8}) {
    if (kSanitized && size > 4) continue;
    DeviceRanks ranks(exchanging(size));
    std::mt19937_64 random(static_cast<uint64_t>(size));
    for (int round = 0; round < 6; ++round) {
      std::vector<Move> moves;
      for (int from = 0; from < size; ++from)
        for (int to = 0; to < size; ++to)
          for (uint64_t i = random() % 3; i > 0; --i)
            moves.push_back({from, to, random() % 4 == 0 ? 0 : random() % 20000 >> random() % 14});
      std::shuffle(moves.begin(), moves.end(), random);
      ASSERT_EQ(differenceOf(ranks, moves, random()), "") << size << " ranks, round " << round;
      if (size > 2) continue;
      for (const Wire wire : kWires)
        ASSERT_EQ(differenceFromHost(ranks, ringCall(size, 500), wire), "");
    }
    EXPECT_EQ(ranks.executor(0).completed(), size > 2 ? 6U : 24U);
  }
}

/// Of payloads in memory of the devices between hosts; some messages are shorter.
constexpr uint32_t kDirectBytes = 300;

/// Ranks 0 and 2 on one host, the others on another.
DeviceRanksOptions exchangingOverHosts(uint32_t directBytes) {
  DeviceRanksOptions options = exchanging(4);
  options.hosts = {0, 1, 0, 1};
  options.network = badSimNetwork(1);
  options.directBytes = directBytes;
  return options;
}

// Local and remote transfers at the same time, in turns with collectives.
class ExchangesOverHosts : public testing::TestWithParam<uint32_t> {};
TEST_P(ExchangesOverHosts, GiveWhatWasSent) {
  DeviceRanks ranks(exchangingOverHosts(GetParam()));
  std::mt19937_64 random(1);
  for (int round = 0; round < 6; ++round) {
    std::vector<Move> moves;
    for (int from = 0; from < 4; ++from)
      for (int to = 0; to < 4; ++to) {
        moves.push_back({from, to, kSizes[random() % std::size(kSizes)]});
        if (random() % 2 == 0) moves.push_back({from, to, random() % 300});
      }
    ASSERT_EQ(differenceOf(ranks, moves, random()), "") << "round " << round;
    for (const Wire wire : kWires) ASSERT_EQ(differenceFromHost(ranks, ringCall(4, 500), wire), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Direct, ExchangesOverHosts,
                         testing::Values(transports::p2p::kNoMessage, kDirectBytes));

// One rank is ahead by several launches; its peer takes what was sent in one.
TEST(Exchanges, MatchFromLaunchToLaunch) {
  DeviceRanks ranks(exchanging(2));
  const Move moves[] = {{0, 1, 300}, {0, 1, 5000}, {0, 1, 0}, {0, 1, 9000}};
  Exchange exchange(ranks, moves, 1);
  for (size_t i = 0; i < 4; ++i)
    exchangeOn(ranks.executor(0), {{exchange.sends(0)[i]}, {}}, ranks.stream(0));
  exchange.launch(1);
  EXPECT_EQ(exchange.difference(), "");
}

TEST(Exchanges, OfRanksThatShareAStreamAreMerged) {
  DeviceRanks ranks(exchanging(3, 1));
  std::vector<Move> moves;
  for (int from = 0; from < 3; ++from)
    for (int to = 0; to < 3; ++to) moves.push_back({from, to, static_cast<uint64_t>(9000 * from)});
  Exchange exchange(ranks, moves, 1);
  std::vector<executor::Exchange> exchanges;
  for (int r = 0; r < 3; ++r) exchanges.push_back(exchange.of(r));
  std::vector<executor::kernel::KernelExchange> all;
  for (int r = 0; r < 3; ++r) all.push_back({&ranks.executor(r), &exchanges[r]});
  KernelExecutor::launchExchanges(all, ranks.stream(0));
  EXPECT_EQ(exchange.difference(), "");
}

TEST(Exchanges, OfGraphsReplay) {
  DeviceRanksOptions options = exchanging(2);
  options.executor.tableBytes = 512;
  DeviceRanks ranks(options);
  const Move moves[] = {{0, 1, 30000}, {1, 0, 100}};
  const Move others[] = {{0, 1, 100}, {1, 0, 300}};
  Exchange exchange(ranks, moves, 1), other(ranks, others, 2);
  std::vector<cudaGraphExec_t> graphs;
  for (int r = 0; r < 2; ++r) graphs.push_back(ranks.capture(r, [&] { exchange.launch(r); }));
  for (int i = 0; i < 5; ++i) {
    other.launchAll();
    ASSERT_EQ(other.difference(), "");
    exchange.clear();
    for (int r = 0; r < 2; ++r) {
      device::OnDevice on(ranks.deviceOf(r));
      TUTTI_CUDA(cudaGraphLaunch(graphs[r], ranks.stream(r)));
    }
    ASSERT_EQ(exchange.difference(), "") << i;
  }
  for (cudaGraphExec_t graph : graphs) cudaGraphExecDestroy(graph);
}

/// The mismatch that one of two ranks has.
std::string mismatchOf(DeviceRanks& ranks) {
  std::string text;
  for (int r = 0; r < 2; ++r) ranks.wait(r);
  for (int r = 0; r < 2; ++r) {
    const auto error = ranks.executor(r).failure();
    if (!error) continue;
    if (error->code() == ErrorCode::Mismatch)
      text = error->what();
    else
      EXPECT_EQ(error->code(), ErrorCode::PeerLost) << error->what();
  }
  return text;
}

enum class Way { Local, Remote, Direct };

// Also where one of both is one message and the other many, and from host to host.
class ExchangesThatDiffer : public testing::TestWithParam<Way> {};
TEST_P(ExchangesThatDiffer, AreAMismatchThatNamesBoth) {
  using enum DataType;
  struct Elements {
    uint64_t count;
    DataType type = UInt8;
    uint64_t bytes() const { return count * sizeOf(type); }
    std::string text() const { return base::message(count, " ", toString(type)); }
  };
  constexpr std::pair<Elements, Elements> kPairs[] = {
      {{100}, {104}},
      {{0}, {8}},
      {{8}, {0}},
      {{100}, {90000}},
      {{90000}, {100}},
      {{90000}, {90004}},
      {{5000}, {90000}},
      {{16, Float32}, {16, Int32}},
      {{16, Float32}, {64, Int8}},
      {{0, Float16}, {0, BFloat16}},
      {{20000, Float32}, {20000, UInt32}},
      {{3, Float8E5M2}, {3, Float8E4M3}},
  };
  for (const auto& [sent, received] : kPairs) {
    DeviceRanksOptions options = exchanging(2);
    if (GetParam() != Way::Local) {
      options.hosts = {0, 1};
      options.network = badSimNetwork(1);
    }
    if (GetParam() == Way::Direct) options.directBytes = kDirectBytes;
    DeviceRanks ranks(options);
    const Move moves[] = {{1, 0, sent.bytes()}};
    Exchange exchange(ranks, moves, 1);
    exchange.sends(1)[0].type = sent.type;
    DeviceBuffer buffer(ranks.deviceOf(0), Buffer(90000), 0);
    exchange.receives(0)[0] = {1, buffer.data(), received.bytes(), received.type};
    exchange.launchAll();
    const std::string text = mismatchOf(ranks);
    for (const std::string& part :
         {"rank 0 receives " + received.text(), "rank 1 sends " + sent.text()})
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
    EXPECT_EQ(buffer.download(), Buffer(90000)) << "something was delivered";
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, ExchangesThatDiffer,
                         testing::Values(Way::Local, Way::Remote, Way::Direct));

// One rank is in a collective, the other sends or receives.
TEST(Exchanges, AreNotCollectives) {
  for (const bool sends : {true, false}) {
    DeviceRanks ranks(exchanging(2));
    ranks.begin(ringCall(2, 30), Wire::LL, 1);
    const Move moves[] = {{sends ? 1 : 0, sends ? 0 : 1, 300}};
    Exchange exchange(ranks, moves, 1);
    ranks.launch(0);
    exchange.launch(1);
    const std::string text = mismatchOf(ranks);
    EXPECT_NE(text.find(sends ? "rank 1 sends 300 uint8" : "rank 1 receives 300 uint8"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("rank 0 is in operation 0 of fingerprint 77"), std::string::npos) << text;
  }
}

TEST(Exchanges, EndWhenAborted) {
  DeviceRanks ranks(exchanging(2));
  const Move moves[] = {{0, 1, 300000}};
  Exchange exchange(ranks, moves, 1);
  exchange.launch(0);
  ranks.executor(0).abort();
  ranks.wait(0);
  EXPECT_EQ(ranks.executor(0).failure()->code(), ErrorCode::Aborted);
  exchange.launch(1);
  ranks.wait(1);
  EXPECT_EQ(ranks.executor(1).failure()->code(), ErrorCode::PeerLost);
}

TEST(Exchanges, ThatAreDiscardedTouchNothing) {
  DeviceRanks ranks(exchanging(2));
  const Move moves[] = {{0, 1, 300000}, {1, 0, 16}, {1, 1, 3000}};
  Exchange exchange(ranks, moves, 1);
  discard(ranks, [&](int r) { exchange.launch(r); });
  EXPECT_TRUE(exchange.isUntouched());
}

// The word that takes launches back is asked when they begin.
TEST(Exchanges, ThatHaveBegunEndWellWhenLaterOnesAreDiscarded) {
  DeviceRanks ranks(exchanging(2));
  const Move moves[] = {{1, 0, 300}};
  Exchange exchange(ranks, moves, 1);
  exchange.launch(0);
  while (!ranks.executor(0).isRunning()) std::this_thread::yield();
  EXPECT_TRUE(ranks.executor(0).discard());
  exchange.launch(1);
  EXPECT_EQ(exchange.difference(), "");
  EXPECT_EQ(ranks.executor(0).completed(), 1U);
}

// Launches that have not begun hold all the room for what the next one is to be given.
TEST(Exchanges, ThatWaitForRoomEndWhenAborted) {
  DeviceRanksOptions options = exchanging(2);
  options.executor.tableBytes = 512;
  DeviceRanks ranks(options);
  const Move moves[] = {{1, 0, 300}};
  Exchange exchange(ranks, moves, 1);
  CudaGate gate(device::AnyStream::cudaRef(ranks.stream(0), ranks.deviceOf(0)));
  std::atomic<int> launched{0};
  Outcome outcome;
  std::thread calls([&] {
    outcome = outcomeOf([&] {
      for (;; ++launched) exchange.launch(0);
    });
  });
  for (int before = 0; before == 0 || before != launched;) {
    before = launched;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ranks.executor(0).abort();
  calls.join();
  EXPECT_LE(launched, 8);
  expectError(outcome, ErrorCode::Aborted, "rank 0 was aborted");
  gate.open();
  ranks.wait(0);
}

// One lane has sent what it has to, and another gives up: the next call, which is behind them on
// the stream, is told to have left the peers' memory all the same.
TEST(Exchanges, OfWhichOneLaneGivesUpAreLeftByAll) {
  DeviceRanksOptions options = exchanging(2);
  options.executor.deadlineNs = 1'000'000'000;
  for (const int behind : {0, 1, 2}) {
    DeviceRanks ranks(options);
    ranks.begin(ringCall(2, 3000), Wire::Simple, 1);
    const Move moves[] = {{0, 1, 16}, {1, 0, 16}};
    Exchange exchange(ranks, moves, 1);
    exchange.launch(0);
    for (int i = 0; i < behind; ++i) ranks.launch(0);
    ranks.wait(0);
    ASSERT_TRUE(ranks.executor(0).failure());
    EXPECT_EQ(ranks.executor(0).failure()->code(), ErrorCode::Timeout);
    EXPECT_FALSE(ranks.executor(0).isRunning()) << behind << " calls behind";
    EXPECT_EQ(ranks.executor(0).completed(), 0U);
  }
}

TEST(Exchanges, ThatAreLateSayWhatHasArrived) {
  DeviceRanksOptions options = exchanging(2);
  options.executor.deadlineNs = 300'000'000;
  DeviceRanks ranks(options);
  const Move moves[] = {{1, 0, 100}, {1, 0, 50}, {1, 0, 8}};
  Exchange exchange(ranks, moves, 1);
  exchange.launch(0);
  exchangeOn(ranks.executor(1), {{exchange.sends(1)[0], exchange.sends(1)[1]}, {}},
             ranks.stream(1));
  ranks.wait(0);
  const auto error = ranks.executor(0).failure();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::Timeout);
  EXPECT_EQ(std::string(error->what()),
            "rank 0, a transfer of 8 uint8, lane 0, after 150 bytes: the deadline passed while "
            "waiting for rank 1");
}

TEST(Exchanges, ThatCannotBeRightAreRefused) {
  DeviceRanks ranks(exchanging(2));
  std::byte data[8];
  const auto refuses = [&](ErrorCode code, std::vector<Transfer> sends,
                           std::vector<Transfer> receives) {
    try {
      exchangeOn(ranks.executor(0), {sends, receives}, ranks.stream(0));
      ADD_FAILURE() << "it is launched";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
    }
  };
  refuses(ErrorCode::InvalidArgument, {{2, data, 8}}, {});
  refuses(ErrorCode::InvalidArgument, {{-1, data, 8}}, {});
  refuses(ErrorCode::InvalidArgument, {}, {{1, nullptr, 8}});
  refuses(ErrorCode::InvalidArgument, {{1, data, uint64_t{1} << 48}}, {});
  refuses(ErrorCode::InvalidUsage, {{0, data, 8}}, {});
  refuses(ErrorCode::InvalidUsage, {{0, data, 8}}, {{0, data, 4}});
  refuses(ErrorCode::InvalidUsage, {{0, data, 8, DataType::Int64}},
          {{0, data, 8, DataType::Float64}});
  EXPECT_EQ(ranks.executor(0).completed(), 0U);
}

// A lane for each peer and direction, and for the rank itself.
TEST(Exchanges, AreCutIntoWhatTheBlocksHold) {
  DeviceRanksOptions options = exchanging(2, 2);
  EXPECT_EQ(DeviceRanks(options).executor(0).mostExchangeSlices(), 3U);
  options.layout.rings.channels = 8;
  options.executor.blocks = 1;
  EXPECT_EQ(DeviceRanks(options).executor(0).mostExchangeSlices(), 5U);
  options.ranks = 9;
  EXPECT_EQ(DeviceRanks(options).executor(0).mostExchangeSlices(), 1U);
}

}  // namespace
}  // namespace tutti::tests
