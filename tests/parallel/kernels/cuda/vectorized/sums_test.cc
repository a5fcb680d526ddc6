// Sums of rows by id, whose tokens are sorted: to the bit what the reference kernels give, which
// look for the next token of each id one by one; exactly what sums of integers are; and the same
// links.

#include <algorithm>
#include <map>
#include <string>

#include "tests/parallel/kernels/cuda/vectorized/pool.h"

namespace tutti::parallel::cuda {
namespace {

/// Which rows tokens are of, and of a vocabulary which part is here.
struct Tokens {
  std::string name;
  int32_t count;
  VocabularyPart part;
  std::function<int64_t(int64_t)> id;
};

// Tiles that are full, and by one token not; digits of one, two and three bytes, of which two rows
// differ in the last or in the first alone; all of one row, all of others, some of rows elsewhere,
// before and behind.
std::vector<Tokens> allTokens() {
  constexpr int32_t kTile = kSortTile;
  const auto scattered = [](int64_t among) {
    return [=](int64_t i) {
      return static_cast<int64_t>(uint64_t(i) * 2654435761u % 1000003 % among);
    };
  };
  return {
      {"one", 1, {0, 3}, [](int64_t) { return 2; }},
      {"elsewhere", 40, {5, 3}, [](int64_t i) { return i % 2 == 0 ? 4 : 8; }},
      {"of one row", 2 * kTile + 33, {0, 255}, [](int64_t) { return 254; }},
      {"alone", 256, {0, 256}, [](int64_t i) { return (i * 37) % 256; }},
      {"a tile", kTile, {0, 40}, scattered(40)},
      {"less than a tile", kTile - 1, {3, 30}, scattered(40)},
      {"more than a tile", kTile + 1, {3, 40}, scattered(40)},
      {"of two bytes", 3 * kTile - 5, {0, 300}, scattered(300)},
      {"of two bytes, in part", 700, {1000, 280}, [](int64_t i) { return 1000 + i * 256 % 400; }},
      {"of three bytes", 900, {0, 66000}, [](int64_t i) { return i % 5 * 16384 + i % 3; }}};
}

/// A row of each that is here, as far as there are tokens of it: rows between have no memory.
int64_t lastRow(const Tokens& tokens) {
  int64_t last = 0;
  for (int64_t i = 0; i < tokens.count; ++i)
    if (const int64_t row = tokens.id(i) - tokens.part.first; row >= 0 && row < tokens.part.here)
      last = std::max(last, row);
  return last;
}

struct Sums {
  SumByRow x;
  const int32_t* numbers;  ///< rowOf, next, hasPrevious
};
int32_t* mutableNumbers(Pool& pool, int64_t count) {
  return const_cast<int32_t*>(pool.numbers(std::vector<int32_t>(static_cast<size_t>(count), -77)));
}
/// Where sums begin: at what is there, or at zero; then rows without tokens stay, or become zero.
enum class Start { There, Zero, ZeroOfAll };
constexpr Start kStarts[] = {Start::There, Start::Zero, Start::ZeroOfAll};

/// `areKept`: what the scratch has afterwards is compared, too, but for what sorts. Where all rows
/// become zero there are no more than have memory.
SumByRow sumsOf(Pool& pool, const Tokens& tokens, int64_t width, const Formats& formats,
                Start begin, int64_t shift, bool areKept) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < tokens.count; ++i) ids.push_back(static_cast<int32_t>(tokens.id(i)));
  const int64_t count = tokens.count, rows = lastRow(tokens) + 1;
  const auto scratch = [&](int64_t numbers) {
    return reinterpret_cast<int32_t*>(pool.scratch(numbers));
  };
  int32_t* const links = areKept ? mutableNumbers(pool, 3 * count) : scratch(3 * count);
  return {.tokenIds = pool.numbers(ids),
          .at = nullptr,
          .part = {tokens.part.first, begin == Start::ZeroOfAll ? rows : tokens.part.here},
          .dx = pool.random({count, width, width, shift}, formats.elements),
          .to = begin == Start::There ? pool.random({rows, width, width, shift}, formats.kept)
                                      : pool.result({rows, width, width, shift}, formats.kept),
          .rowOf = links,
          .next = links + count,
          .hasPrevious = links + 2 * count,
          .sorting = scratch(sortingNumbers(count)),
          .count = tokens.count,
          .context = tokens.count,
          .width = static_cast<int32_t>(width),
          .accumulate = begin == Start::There,
          .clears = begin == Start::ZeroOfAll};
}

cudaError_t start(MemoryBoundFamily family, const SumByRow& x) {
  return enqueue(ChosenMemoryBound{family, x}, false, nullptr);
}

// Rows of a run, of more than a warp has, and of more words than a block has threads; memory of
// 2 MiB has them all.
int64_t widthOf(const Tokens& tokens) {
  if (tokens.count == 1) return 2056;
  return tokens.part.here > 60000 ? 8 : tokens.count > kSortTile ? 16 : 264;
}

TEST(SumsByRow, AreTheReferenceOnes) {
  for (const Tokens& tokens : allTokens())
    for (const Formats& formats : kAllFormats)
      for (const Start begin : kStarts) {
        if (tokens.part.here > 60000 && formats.kept == ElementFormat::Float32)
          continue;  // no memory
        SCOPED_TRACE(tokens.name + ", " + nameOf(formats.elements) + " and " +
                     nameOf(formats.kept));
        Pool pool;
        const SumByRow x = sumsOf(pool, tokens, widthOf(tokens), formats, begin, 0, false);
        EXPECT_GT(runOf(x), 1);
        const Pool::Results results =
            pool.compute([&](MemoryBoundFamily f) { return start(f, x); });
        EXPECT_TRUE(results.vectorized == results.reference);
        EXPECT_EQ(results.reference == pool.image(),
                  tokens.name == "elsewhere" && begin != Start::ZeroOfAll);
      }
}

// By positions in order, and by given ones.
TEST(SumsByRow, OfPositions) {
  const Tokens tokens{"positions", 300, {0, 60}, [](int64_t i) { return i % 60; }};
  for (const bool isPlaced : {false, true}) {
    Pool pool;
    SumByRow x = sumsOf(pool, tokens, 40, kAllFormats[2], Start::There, 0, false);
    std::vector<int32_t> at;
    for (int32_t t = 0; t < 60; ++t) at.push_back(t * 7 % 31);
    x.tokenIds = nullptr;
    x.context = 60;
    if (isPlaced) x.at = pool.numbers(at);
    pool.expectReferenceBits([&](MemoryBoundFamily f) { return start(f, x); }, "positions");
  }
}

// Operands that do not begin at 16 bytes, and rows that no run divides, are added up by the plain
// kernel, along links that sorting has found: the same ones.
TEST(SumsByRow, LinkTheSameTokens) {
  for (const Tokens& tokens : allTokens())
    for (const bool isShifted : {false, true}) {
      if (tokens.part.here > 60000 && isShifted) continue;
      SCOPED_TRACE(tokens.name);
      Pool pool;
      const SumByRow x =
          sumsOf(pool, tokens, isShifted ? 8 : 5, kAllFormats[3],
                 isShifted ? Start::ZeroOfAll : Start::There, isShifted ? 1 : 0, true);
      EXPECT_EQ(runOf(x), 1);
      pool.expectReferenceBits([&](MemoryBoundFamily f) { return start(f, x); }, tokens.name);
    }
}

// Sums of integers, by their definition; all that has no token stays, or is zero.
TEST(SumsByRow, AreExactOfIntegers) {
  const auto number = [](int64_t i, int64_t column) {
    return static_cast<double>((i * 5 + column) % 7 - 3);
  };
  for (const Tokens& tokens : allTokens())
    for (const Start begin : {Start::Zero, Start::ZeroOfAll}) {
      if (tokens.part.here > 60000) continue;
      SCOPED_TRACE(tokens.name);
      Pool pool;
      const int64_t width = widthOf(tokens);
      const SumByRow x = sumsOf(pool, tokens, width, kAllFormats[2], begin, 0, false);
      std::map<int64_t, std::vector<double>> sums;
      for (int64_t i = 0; i < tokens.count; ++i)
        for (int64_t column = 0; column < width; ++column) {
          pool.set(x.dx, i * width + column, number(i, column));
          const int64_t row = tokens.id(i) - tokens.part.first;
          if (row < 0 || row >= tokens.part.here) continue;
          auto& sum = sums[row];
          sum.resize(static_cast<size_t>(width));
          sum[static_cast<size_t>(column)] += number(i, column);
        }
      const std::vector<char> got =
          pool.compute([&](MemoryBoundFamily f) { return start(f, x); }).vectorized;
      if (begin == Start::ZeroOfAll)
        for (int64_t row = 0; row < x.part.here; ++row)
          sums[row].resize(static_cast<size_t>(width));
      std::vector<char> others = got;
      for (const auto& [row, sum] : sums) {
        for (int64_t column = 0; column < width; ++column)
          ASSERT_EQ(pool.numberIn(got, x.to, row * width + column),
                    sum[static_cast<size_t>(column)])
              << row << ", " << column;
        pool.erase(others, {static_cast<char*>(x.to.data) + row * width * 4, x.to.format}, width);
      }
      EXPECT_TRUE(others == pool.image()) << "writes beside its results";
    }
}

}  // namespace
}  // namespace tutti::parallel::cuda
