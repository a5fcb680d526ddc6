// AllGatherV and ReduceScatterV: blocks of any sizes and places, by every algorithm that has them.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include <tutti/tutti.h>

#include "src/base/check.h"
#include "src/numbers/fill.h"
#include "tests/support/leftovers.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"

namespace tutti::tests {
namespace {

using Bytes = std::vector<std::byte>;
constexpr std::byte kCanary{0xa5};

/// The same on all ranks.
struct Blocks {
  std::vector<size_t> counts, offsets;  // elements
  size_t end = 0;
  bool places = false;  // given, with gaps; else one after another

  Blocks(std::mt19937_64& random, size_t ranks, uint64_t most, bool givePlaces)
      : counts(ranks), offsets(ranks), places(givePlaces) {
    for (size_t& count : counts) count = random() % 3 == 0 ? 0 : random() % (most + 1);
    std::vector<size_t> order(ranks);
    std::iota(order.begin(), order.end(), size_t{0});
    if (places) std::ranges::shuffle(order, random);
    for (const size_t r : order) {
      offsets[r] = end + (places ? random() % 3 : 0);
      end = offsets[r] + counts[r];
    }
  }
  std::span<const size_t> given() const {
    return places ? std::span<const size_t>(offsets) : std::span<const size_t>();
  }
};

struct Case {
  const Blocks& blocks;
  DataType type = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  bool inPlace = false;
};

numbers::FillPattern patternOf(const Communicator& c, const Case& t) {
  return {.type = t.type, .op = t.op, .seed = t.blocks.end, .ranks = c.size()};
}

/// Rank `rank`'s elements [first, first + count).
Bytes input(const Communicator& c, const Case& t, int rank, size_t first, size_t count) {
  Bytes bytes(count * sizeOf(t.type));
  numbers::fillInput(patternOf(c, t), rank, first, count, bytes.data());
  return bytes;
}

std::string nameOf(const Communicator& c, const Case& t) {
  std::string text = base::message("rank ", c.rank(), " of ", c.size(), ", ", toString(t.type),
                                   ", ", toString(t.op), t.inPlace ? ", in place" : "", ", seed ",
                                   testSeed(), ", counts");
  for (const size_t count : t.blocks.counts) text += base::message(' ', count);
  return text;
}

/// Two buffers in windows or in ordinary memory, full of canaries.
struct Buffers {
  Memory windows[2];
  Bytes ordinary[2];
  std::byte* data[2];
  Buffers(Communicator& c, size_t bytes, bool window) {
    for (int i = 0; i < 2; ++i) {
      if (window)
        windows[i] = c.allocate(bytes);
      else
        ordinary[i].resize(bytes);
      data[i] = window ? windows[i].as<std::byte>() : ordinary[i].data();
      std::fill_n(data[i], bytes, kCanary);
    }
  }
};

void checkAllGather(Communicator& c, const Case& t, bool window) {
  const auto me = static_cast<size_t>(c.rank());
  const size_t size = sizeOf(t.type), all = t.blocks.end * size + 64;
  Buffers b(c, all, window);
  const Bytes mine = input(c, t, c.rank(), 0, t.blocks.counts[me]);
  std::byte* send = t.inPlace ? b.data[1] + t.blocks.offsets[me] * size : b.data[0];
  std::ranges::copy(mine, send);
  Bytes expected(all, kCanary);
  for (size_t r = 0; r < t.blocks.counts.size(); ++r)
    std::ranges::copy(input(c, t, static_cast<int>(r), 0, t.blocks.counts[r]),
                      expected.data() + t.blocks.offsets[r] * size);
  c.allGatherV({.send = send,
                .recv = b.data[1],
                .counts = t.blocks.counts,
                .offsets = t.blocks.given(),
                .type = t.type});
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), b.data[1])) << nameOf(c, t);
  EXPECT_TRUE(std::equal(mine.begin(), mine.end(), send)) << nameOf(c, t);
}

void checkReduceScatter(Communicator& c, const Case& t, bool window) {
  const auto me = static_cast<size_t>(c.rank());
  const size_t size = sizeOf(t.type), all = t.blocks.end * size + 64;
  Buffers b(c, all, window);
  const Bytes mine = input(c, t, c.rank(), 0, t.blocks.end);
  std::ranges::copy(mine, b.data[0]);
  const size_t first = t.blocks.offsets[me], count = t.blocks.counts[me];
  std::byte* recv = t.inPlace ? b.data[0] + first * size : b.data[1];
  Bytes sum(count * size);
  numbers::fillExpected(patternOf(c, t), first, count, sum.data());
  c.reduceScatterV({.send = b.data[0],
                    .recv = recv,
                    .counts = t.blocks.counts,
                    .offsets = t.blocks.given(),
                    .type = t.type,
                    .op = t.op,
                    .scalar = numbers::premulScalar(patternOf(c, t), c.rank())});
  EXPECT_TRUE(std::equal(sum.begin(), sum.end(), recv)) << nameOf(c, t);
  if (t.inPlace) return;
  EXPECT_TRUE(std::equal(mine.begin(), mine.end(), b.data[0])) << nameOf(c, t);
  EXPECT_EQ(b.data[1][count * size], kCanary) << nameOf(c, t);
}

class Uneven : public testing::TestWithParam<int> {};

TEST_P(Uneven, EverySizeTypeReductionAndPlace) {
  auto ranks = Communicator::createLocal(GetParam());
  runRanks(ranks, [](Communicator& c) {
    std::mt19937_64 random(testSeed());
    for (int repeat = 0; repeat < 120; ++repeat) {
      const Blocks blocks(random, static_cast<size_t>(c.size()), uint64_t{1} << random() % 17,
                          random() % 2 == 0);
      Case t{.blocks = blocks,
             .type = static_cast<DataType>(random() % kDataTypeCount),
             .op = static_cast<ReduceOp>(random() % kReduceOpCount),
             .inPlace = random() % 2 == 0};
      if (!isDefined(t.op, t.type)) t.op = ReduceOp::Sum;
      const bool window = random() % 2 == 0;
      checkAllGather(c, t, window);
      checkReduceScatter(c, t, window);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Uneven, testing::Values(1, 2, 3, 5, 8));

class Forced : public testing::TestWithParam<std::tuple<const char*, int>> {};

// Where an algorithm has no uneven form another is taken.
TEST_P(Forced, EveryAlgorithm) {
  const auto [algorithm, size] = GetParam();
  auto ranks = Communicator::createLocal(size, {.algorithm = algorithm});
  runRanks(ranks, [algorithm = algorithm](Communicator& c) {
    std::mt19937_64 random(testSeed());
    for (const uint64_t most : {1, 100, 5000, 70001})
      for (const bool inPlace : {false, true}) {
        const Blocks blocks(random, static_cast<size_t>(c.size()), most, inPlace);
        const Case t{.blocks = blocks, .inPlace = inPlace};
        checkAllGather(c, t, std::string(algorithm) == "mapped");
        checkReduceScatter(c, t, std::string(algorithm) == "mapped");
      }
  });
}

TEST(UnevenBits, OfDeterministicModeAreThoseOfEvenBlocks) {
  auto ranks = Communicator::createLocal(5, {.deterministic = true});
  runRanks(ranks, [](Communicator& c) {
    std::mt19937_64 random(testSeed() + static_cast<uint64_t>(c.rank()));
    std::vector<float> x(5 * 1000), sum(5 * 1000), block(2000);
    for (float& value : x) value = static_cast<float>(random() % 1000003) * 1.7e-3f;
    c.allReduce({.send = x.data(), .recv = sum.data(), .count = x.size()});
    const std::vector<size_t> counts{0, 2000, 1, 1999, 1000};
    c.reduceScatterV({.send = x.data(), .recv = block.data(), .counts = counts});
    size_t first = 0;
    for (int r = 0; r < c.rank(); ++r) first += counts[static_cast<size_t>(r)];
    EXPECT_TRUE(std::equal(
        sum.begin() + static_cast<std::ptrdiff_t>(first),
        sum.begin() + static_cast<std::ptrdiff_t>(first + counts[static_cast<size_t>(c.rank())]),
        block.begin()));
  });
}

INSTANTIATE_TEST_SUITE_P(Forced, Forced,
                         testing::Combine(testing::Values("ring", "recursive", "one_shot",
                                                          "mapped"),
                                          testing::Values(2, 3, 5)));

// The same sum of counts, other blocks: some ranks would get what is another's.
TEST(UnevenMismatch, OfBlocksIsRefused) {
  using Counts = std::vector<size_t>;
  for (const auto& [counts, offsets] : std::vector<std::pair<Counts, Counts>>{
           {{10, 20, 31}, {}}, {{20, 10, 30}, {}}, {{10, 20, 30}, {0, 11, 31}}}) {
    auto ranks = Communicator::createLocal(3, {.timeout = std::chrono::seconds(20)});
    runRanks(ranks, [&, counts = counts, offsets = offsets](Communicator& c) {
      const Counts same{10, 20, 30};
      Bytes send(400), recv(400);
      const Outcome outcome = outcomeOf([&] {
        c.allGatherV({.send = send.data(),
                      .recv = recv.data(),
                      .counts = c.rank() == 1 ? counts : same,
                      .offsets = c.rank() == 1 ? offsets : Counts(),
                      .type = DataType::Float32});
        c.barrier();
      });
      EXPECT_EQ(outcome.code, ErrorCode::Mismatch) << outcome.text;
      EXPECT_NE(outcome.text.find("in uneven blocks (fingerprint "), std::string::npos)
          << outcome.text;
    });
  }
}

TEST(UnevenArguments, ThatCannotBeRightAreRefused) {
  auto ranks = Communicator::createLocal(2);
  runRanks(ranks, [](Communicator& c) {
    Bytes x(1000), y(1000);
    using Counts = std::vector<size_t>;
    const auto refused = [&](const std::string& part, const Counts& counts, const Counts& offsets,
                             const void* send, void* recv) {
      const Outcome outcome = outcomeOf([&] {
        c.allGatherV({.send = send,
                      .recv = recv,
                      .counts = counts,
                      .offsets = offsets,
                      .type = DataType::UInt8});
      });
      EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument) << outcome.text;
      EXPECT_NE(outcome.text.find(part), std::string::npos) << outcome.text;
    };
    refused("1 counts for 2 ranks", {1}, {}, x.data(), y.data());
    refused("3 offsets for 2 ranks", {1, 1}, {1, 2, 3}, x.data(), y.data());
    refused("blocks overlap at byte 5 of recv", {10, 5}, {0, 5}, x.data(), y.data());
    refused("do not fit in memory", {10, 5}, {0, SIZE_MAX - 2}, x.data(), y.data());
    refused("does not fit in memory", {10, SIZE_MAX / 2 + 1}, {}, x.data(), y.data());
    refused("send is null", {10, 5}, {}, nullptr, y.data());
    refused("recv is null", {10, 5}, {}, x.data(), nullptr);
    refused("overlap, but are not in place", {10, 10}, {}, x.data() + 5, x.data());
    c.allGatherV({.counts = Counts{0, 0}, .type = DataType::Float32});  // nothing, and no pointer
    c.barrier();
  });
}

}  // namespace
}  // namespace tutti::tests
