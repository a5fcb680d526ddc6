// Sends and receives of all patterns: cycles, oneself, nothing, many to one peer, and large ones.

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "src/base/check.h"
#include "src/base/transfer_key.h"
#include "tests/executor/copy/copy_ranks.h"

namespace tutti::tests {
namespace {

/// One transfer, by whom and to whom, in the order in which both ends name it.
struct Sent {
  int from, to;
  uint64_t bytes;
};

/// Transfers of all ranks in buffers of their own.
class Exchanges {
 public:
  Exchanges(CopyRanks& ranks, std::vector<Sent> all, uint64_t seed)
      : ranks_(ranks), all_(std::move(all)) {
    std::mt19937_64 random(seed);
    for (const Sent& sent : all_) {
      Buffer data(sent.bytes);
      for (std::byte& byte : data) byte = std::byte(random());
      from_.emplace_back(ranks.deviceOf(sent.from), data, 0);
      to_.emplace_back(ranks.deviceOf(sent.to), Buffer(sent.bytes), random() % 4);
      data_.push_back(std::move(data));
    }
  }
  Exchange of(int rank) const {
    Exchange exchange;
    for (size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].from == rank)
        exchange.sends.push_back({all_[i].to, from_[i].data(), all_[i].bytes});
      if (all_[i].to == rank)
        exchange.receives.push_back({all_[i].from, to_[i].data(), all_[i].bytes});
    }
    return exchange;
  }
  void launch(int rank) { exchangeOn(ranks_.executor(rank), of(rank), ranks_.stream(rank)); }
  void clear() {
    for (size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].bytes == 0) continue;
      TUTTI_CUDA(cudaMemset(to_[i].data(), 0, all_[i].bytes));
    }
    TUTTI_CUDA(cudaDeviceSynchronize());
  }
  void expectReceived() {
    for (int r = 0; r < ranks_.size(); ++r) ASSERT_EQ(std::string(ranks_.failureOf(r).what()), "");
    for (size_t i = 0; i < all_.size(); ++i)
      ASSERT_EQ(to_[i].download(), data_[i])
          << i << ": from " << all_[i].from << " to " << all_[i].to << ", " << all_[i].bytes;
  }

 private:
  CopyRanks& ranks_;
  std::vector<Sent> all_;
  std::vector<DeviceBuffer> from_, to_;
  std::vector<Buffer> data_;
};

void expectRight(CopyRanks& ranks, const std::vector<Sent>& all, uint64_t seed) {
  Exchanges exchanges(ranks, all, seed);
  for (int r = 0; r < ranks.size(); ++r) exchanges.launch(r);
  ranks.finish();
  exchanges.expectReceived();
}

TEST(CopyExchange, OfPatternsWithCircles) {
  CopyRanks ranks({.ranks = 3, .devices = 2});
  expectRight(ranks, {}, 1);
  expectRight(ranks, {{0, 1, 10}}, 2);
  expectRight(ranks, {{0, 1, 5000}, {1, 2, 5000}, {2, 0, 5000}}, 3);
  expectRight(ranks, {{1, 1, 70}, {1, 1, 0}, {0, 0, 9000}}, 4);
  expectRight(ranks, {{0, 2, 0}, {0, 2, 1}, {0, 2, 0}, {2, 0, 4096}, {0, 2, 4097}}, 5);
  expectRight(ranks, {{0, 1, 100'003}, {1, 0, 100'003}, {2, 1, 3}}, 6);  // in 25 messages
}

TEST(CopyExchange, OfRandomPatterns) {
  if (!haveQueues(5, 4)) GTEST_SKIP() << "it wants two devices";
  CopyRanks ranks({.ranks = 5, .devices = 4});
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<Sent> all;
    for (uint64_t i = random() % 40; i > 0; --i) {
      const uint64_t sizes[] = {0, 1, 4096, random() % 20'000};
      all.push_back(
          {static_cast<int>(random() % 5), static_cast<int>(random() % 5), sizes[random() % 4]});
    }
    expectRight(ranks, all, seed);
    if (HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

TEST(CopyExchange, IsReplayedAndHasNoKernels) {
  CopyRanks ranks({.ranks = 3, .devices = 2});
  Exchanges exchanges(ranks, {{0, 1, 5000}, {1, 2, 9000}, {2, 0, 0}, {2, 0, 17'000}, {1, 1, 8}}, 1);
  std::vector<cudaGraphExec_t> graphs;
  for (int r = 0; r < 3; ++r) {
    cudaGraph_t graph = captured(ranks, r, [&] { exchanges.launch(r); });
    EXPECT_EQ(kernelsOf(graph), 0U);
    TUTTI_CUDA(cudaGraphInstantiate(&graphs.emplace_back(), graph, 0));
    TUTTI_CUDA(cudaGraphDestroy(graph));
  }
  for (int i = 0; i < 5; ++i) {
    exchanges.clear();
    for (int r = 0; r < 3; ++r) TUTTI_CUDA(cudaGraphLaunch(graphs[r], ranks.stream(r)));
    ranks.finish();
    exchanges.expectReceived();
    if (HasFatalFailure()) break;
  }
  for (cudaGraphExec_t graph : graphs) TUTTI_CUDA(cudaGraphExecDestroy(graph));
}

struct Elements {
  uint64_t count;
  DataType type;
  uint64_t bytes() const { return count * sizeOf(type); }
  std::string text() const { return base::message(count, " ", toString(type)); }
};

class CopiedElements : public testing::TestWithParam<std::pair<Elements, Elements>> {};
TEST_P(CopiedElements, ThatDifferAreAMismatchOnBothSides) {
  const auto& [sent, received] = GetParam();
  CopyRanks ranks({.ranks = 2});
  DeviceBuffer a(0, Buffer(9000), 0), b(ranks.deviceOf(1), Buffer(9000), 0);
  exchangeOn(ranks.executor(0), {.sends = {{1, a.data(), sent.bytes(), sent.type}}},
             ranks.stream(0));
  exchangeOn(ranks.executor(1), {.receives = {{0, b.data(), received.bytes(), received.type}}},
             ranks.stream(1));
  ranks.finishWithFailures();
  const std::string text = "ranks disagree: rank 1 receives " + received.text() +
                           " from rank 0, which sends " + sent.text();
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(ranks.failureOf(r).code(), ErrorCode::Mismatch) << ranks.failureOf(r).what();
    EXPECT_NE(std::string(ranks.failureOf(r).what()).find(text), std::string::npos)
        << text << " is not in: " << ranks.failureOf(r).what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Pairs, CopiedElements,
    testing::Values(std::pair(Elements{16, DataType::Float32}, Elements{16, DataType::Int32}),
                    std::pair(Elements{16, DataType::Int32}, Elements{16, DataType::Float32}),
                    std::pair(Elements{64, DataType::Int8}, Elements{16, DataType::Float32}),
                    std::pair(Elements{0, DataType::Float64}, Elements{0, DataType::UInt64}),
                    std::pair(Elements{4000, DataType::BFloat16},
                              Elements{4000, DataType::Float16}),
                    std::pair(Elements{8000, DataType::UInt8}, Elements{9000, DataType::UInt8}),
                    std::pair(Elements{9000, DataType::UInt8}, Elements{8000, DataType::UInt8})));

// A word tells no more.
TEST(CopyExchange, OfManyElementsIsTold) {
  using executor::copy::kMostTold;
  const auto key = [](uint64_t count) { return base::transferKey(DataType::Float64, 8 * count); };
  EXPECT_EQ(executor::copy::told(key(kMostTold - 1), 5) & kMostTold, kMostTold - 1);
  EXPECT_EQ(executor::copy::told(key(kMostTold + 1), 5) & kMostTold, kMostTold);
  EXPECT_EQ(executor::copy::told(77, 5), 5U);
}

TEST(CopyExchange, RefusesWhatCannotBe) {
  CopyRanks ranks({.ranks = 2});
  DeviceBuffer a(0, Buffer(64), 0);
  EXPECT_THROW(exchangeOn(ranks.executor(0), {.sends = {{0, a.data(), 8}}}, ranks.stream(0)),
               Error);
  EXPECT_THROW(exchangeOn(ranks.executor(0),
                          {.sends = {{0, a.data(), 8, DataType::Int64}},
                           .receives = {{0, a.data() + 8, 8, DataType::Float64}}},
                          ranks.stream(0)),
               Error);
  EXPECT_THROW(exchangeOn(ranks.executor(0),
                          {.sends = {{1, a.data(), 8}}, .receives = {{1, a.data() + 4, 8}}},
                          ranks.stream(0)),
               Error);
  expectRight(ranks, {{0, 1, 10}, {1, 0, 20}}, 1);
}

}  // namespace
}  // namespace tutti::tests
