// Tensors, arenas and counter-based random numbers.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "parallel/tensor/arena.h"
#include "parallel/tensor/random.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

TEST(Shape, CountsAndPrints) {
  EXPECT_EQ(Shape({}).count(), 1);
  EXPECT_EQ(Shape({3, 0, 2}).count(), 0);
  EXPECT_EQ(Shape({3, 4})[-1], 4);
  EXPECT_EQ(Shape({3, 4}).describe(), "[3, 4]");
  EXPECT_THROW(Shape({-1}), Error);
  EXPECT_THROW(Shape({1, 1, 1, 1, 1}), Error);
}

std::string messageOf(const std::function<void()>& call,
                      ErrorCode code = ErrorCode::InvalidArgument) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  return "nothing was thrown";
}

TEST(Shape, RefusesExtentsWhoseProductIsBeyond63Bits) {
  const int64_t large = int64_t{1} << 32, most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Shape({most}).count(), most);
  EXPECT_EQ(Shape({large - 1, large / 2}).count(), (large - 1) * (large / 2));
  const std::string said = "a tensor cannot be as large as ", both = "[4294967296, 4294967296]";
  EXPECT_EQ(messageOf([&] { Shape({large, large}).count(); }), said + both);
  EXPECT_EQ(messageOf([&] {
              Shape({2, 4, large, large}).count();
            }),
            said + "[2, 4, 4294967296, 4294967296]");
  EXPECT_EQ(messageOf([&] { Tensor(nullptr, DType::Float32, {large, large}); }), said + both);
  // As many elements as can be counted, but not their bytes.
  const std::string half = said + "[4611686018427387904]";
  EXPECT_EQ(messageOf([&] { Arena("test").allocate(DType::Float32, {most / 2 + 1}); }), half);
  EXPECT_EQ(messageOf([&] { byteCount(DType::Int32, {most / 2 + 1}); }), half);
}

TEST(Tensor, ViewsShareElementsAndRefuseWhatTheyCannotBe) {
  float data[24] = {};
  Tensor x(data, DType::Float32, {2, 3, 4});
  EXPECT_EQ(x.matrix().shape, Shape({6, 4}));
  EXPECT_EQ(Tensor(nullptr, DType::Float32, {2, 3, 0}).matrix().shape, Shape({6, 0}));
  EXPECT_EQ(x.rows(1, 1).as<float>(), data + 12);
  Tensor part = x.matrix();  // the first two columns, as a strided view
  part.shape[1] = 2;
  EXPECT_FALSE(part.contiguous());
  EXPECT_THROW(part.view({12}), Error);
  EXPECT_THROW(x.view({5}), Error);
  EXPECT_THROW(x.as<double>(), Error);
  EXPECT_THROW(x.rows(1, 2), Error);
}

TEST(Layout, PrintsTheSeedNotation) {
  Layout layout;
  layout.dims[1] = {Axis::Fsdp, Axis::Tensor};
  layout.partial = {Axis::Data};
  EXPECT_EQ(layout.describe(2), "[_, fsdp.tp] {dp}");
  EXPECT_FALSE(layout.replicated());
  EXPECT_TRUE(Layout{}.replicated());
}

// Gaps between rows stay where leading dimensions are folded, if all are alike.
TEST(Tensor, RowsWithGapsFoldWhereTheyAreEvenlyApart) {
  float memory[2 * 3 * 8] = {};
  const Tensor whole(memory, DType::Float32, {2, 3, 8}), part = whole.part(2, 1, 5);
  EXPECT_EQ(whole.rowStride(), 8);
  EXPECT_EQ(part.rowStride(), 8);
  EXPECT_EQ(Tensor(memory, DType::Float32, {}).rowStride(), 1);
  EXPECT_EQ(Tensor(memory, DType::Float32, {4}).rowStride(), 4);
  EXPECT_EQ(whole.rows(1, 0).part(2, 0, 5).rowStride(), 8) << "without rows";
  const Tensor folded = part.matrix();
  EXPECT_EQ(folded.shape, Shape({6, 5}));
  EXPECT_EQ(folded.strides, Shape({8, 1}));
  EXPECT_EQ(folded.rows(4, 1).data, memory + 4 * 8 + 1);
  const Tensor some = whole.part(1, 0, 2);
  EXPECT_EQ(some.rowStride(), std::nullopt);
  EXPECT_THROW(some.matrix(), Error);
  Tensor overlapping = part, apart = part;
  overlapping.strides[0] = 12, overlapping.strides[1] = 4;
  apart.strides[2] = 2;
  EXPECT_EQ(overlapping.rowStride(), std::nullopt);
  EXPECT_EQ(apart.rowStride(), std::nullopt);
}

TEST(Arena, ReturnsToZeroAndReusesItsMemory) {
  Arena arena("test", {}, 4096);
  const Arena::Mark start = arena.mark();
  void* first = arena.allocate(DType::Float32, {7}).data;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  arena.allocate(DType::Float32, {5000});  // does not fit the first block
  const size_t held = arena.heldBytes();
  EXPECT_EQ(arena.usedBytes(), 64u + 20032u);
  for (int i = 0; i < 3; ++i) {
    arena.rewind(start);
    EXPECT_EQ(arena.usedBytes(), 0u);
    EXPECT_EQ(arena.allocate(DType::Float32, {7}).data, first);
    arena.allocate(DType::Float32, {5000});
  }
  EXPECT_EQ(arena.heldBytes(), held);
  EXPECT_EQ(arena.allocate(DType::Float32, {0}).data, nullptr);
}

// Rows of types of 16 bits, of float32 and of bytes begin at multiples of 16 bytes, with gaps where
// that takes any; those of float64 have none.
TEST(Arena, PadsRowsToWordsOf16Bytes) {
  Arena arena("test", {}, 4096);
  const auto stride = [&](DType type, const Shape& shape) {
    const Tensor x = arena.allocateRows(type, shape);
    EXPECT_EQ(x.shape, shape);
    EXPECT_TRUE(x.data == nullptr || reinterpret_cast<uintptr_t>(x.data) % 16 == 0);
    return x.rowStride();
  };
  for (const DType type : {DType::BFloat16, DType::Float16}) {
    EXPECT_EQ(stride(type, {2, 3, 50257}), 50264);
    EXPECT_EQ(stride(type, {2, 3, 50264}), 50264);
    EXPECT_EQ(stride(type, {3, 1}), 8);
  }
  EXPECT_EQ(stride(DType::Float32, {3, 50257}), 50260);
  EXPECT_EQ(stride(DType::Float32, {1, 1, 8}), 8);
  EXPECT_EQ(stride(DType::UInt8, {3, 17}), 32);
  EXPECT_EQ(stride(DType::Float64, {3, 17}), 17);
  EXPECT_EQ(stride(DType::Float32, {17}), 17) << "one row";
  EXPECT_EQ(stride(DType::Float32, {3, 0}), 0);
  EXPECT_EQ(arena.allocateRows(DType::Float32, {0, 5}).data, nullptr);
  const size_t before = arena.usedBytes();
  arena.allocateRows(DType::BFloat16, {5, 9});
  EXPECT_EQ(arena.usedBytes() - before, 192u) << "5 rows of 32 bytes, and what fills 64";
}

TEST(Arena, StartsALargeBlockAtAHugePage) {
  constexpr size_t kHugePage = size_t{1} << 21;
  Arena arena("test", {}, kHugePage);
  const auto place = [&](int64_t bytes) {
    return reinterpret_cast<uintptr_t>(arena.allocate(DType::UInt8, {bytes}).data);
  };
  for (const int64_t bytes : {64, 1 << 21, (1 << 21) + 1, 3 << 21})
    EXPECT_EQ(place(bytes) % kHugePage, 0) << bytes;
}

TEST(Arena, RemembersTheMostThatItNeeded) {
  Arena arena("test", {}, 4096);
  EXPECT_EQ(arena.use(), ArenaUse{});
  arena.allocate(DType::Float32, {16});
  const Arena::Mark middle = arena.mark();
  const Tensor kept = arena.allocate(DType::Float32, {17});
  EXPECT_EQ(arena.peakBytes(), 64u + 128u);
  arena.retain({}, kept);
  arena.allocate(DType::Float32, {16});
  EXPECT_EQ(arena.peakBytes(), 192u);
  arena.rewind(middle);
  arena.allocate(DType::Float32, {33});
  EXPECT_EQ(arena.use(), (ArenaUse{.peak = 64 + 192, .held = 4096}));
  arena.rewind({});
  arena.allocate(DType::Float32, {1});
  EXPECT_EQ(arena.use(), (ArenaUse{.peak = 64 + 192, .held = 4096}));
}

// Addresses as memory would have them, more than any machine has, and no two alike.
TEST(Arena, MayBeDry) {
  Arena arena("test", {.dry = true, .folder = "/no/such/folder"}, 4096);
  EXPECT_TRUE(arena.dry());
  const int64_t huge = int64_t{1} << 44;
  const Tensor first = arena.allocate(DType::UInt8, {huge}),
               second = arena.allocate(DType::UInt8, {huge}),
               third = arena.allocate(DType::UInt8, {1});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data) % 4096, 0u);
  EXPECT_GE(static_cast<char*>(second.data) - static_cast<char*>(first.data), huge);
  EXPECT_GE(static_cast<char*>(third.data) - static_cast<char*>(second.data), huge);
  EXPECT_EQ(arena.use(),
            (ArenaUse{static_cast<size_t>(2 * huge) + 64, static_cast<size_t>(2 * huge) + 4096}));
  const Tensor kept = arena.retain({}, third);  // without a look at it
  EXPECT_EQ(kept.data, first.data);
  EXPECT_EQ(arena.allocate(DType::UInt8, {0}).data, nullptr);
}

TEST(Arena, RetainMovesOverlappingElementsDown) {
  Arena arena("test");
  const Arena::Mark start = arena.mark();
  arena.allocate(DType::Int32, {16});
  Tensor x = arena.allocate(DType::Int32, {100});
  for (int i = 0; i < 100; ++i) x.as<int32_t>()[i] = i;
  const Tensor moved = arena.retain(start, x);
  EXPECT_EQ(arena.usedBytes(), 448u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(moved.as<int32_t>()[i], i);
}

TEST(Arena, RefusesToRewindForward) {
  Arena arena("test");
  arena.allocate(DType::Float32, {16});
  const Arena::Mark later = arena.mark();
  arena.rewind({});
  EXPECT_THROW(arena.rewind(later), Error);
}

// A folder's files have no names, and last as long as the arena.
TEST(Arena, MayBeAFile) {
  const tests::TemporaryFolder temporary;
  const std::string folder = temporary.path();
  const auto files = [&] { return std::distance(std::filesystem::directory_iterator(folder), {}); };
  const auto mappings = [&] {
    std::ifstream maps("/proc/self/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);) count += line.find(folder) != line.npos;
    return count;
  };
  {
    Arena arena("test", {.folder = folder}, 4096);
    const Tensor first = arena.allocate(DType::Float64, {512}),
                 second = arena.allocate(DType::Int32, {3});
    EXPECT_EQ(mappings(), 2);
    EXPECT_EQ(first.as<double>()[511], 0);
    first.as<double>()[511] = 5;
    second.as<int32_t>()[2] = 7;
    EXPECT_EQ(first.as<double>()[511], 5);
    EXPECT_EQ(arena.growths(), 2u);
    EXPECT_EQ(files(), 0);
    arena.rewind({});
    EXPECT_EQ(arena.allocate(DType::Float64, {512}).data, first.data);
  }
  EXPECT_EQ(mappings(), 0);
  EXPECT_EQ(rmdir(folder.c_str()), 0);
  EXPECT_NE(messageOf([&] { Arena("test", {.folder = folder}, 4096).allocate(DType::Int32, {1}); },
                      ErrorCode::System)
                .find("the test arena has no file in " + folder),
            std::string::npos);
}

// A disk without room is said before anything is written to it.
TEST(Arena, NamesTheFolderThatIsFull) {
  const rlimit before = [] {
    rlimit limit{};
    getrlimit(RLIMIT_FSIZE, &limit);
    return limit;
  }();
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1 << 20, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  Arena arena("test", {.folder = "/tmp"}, 4096);
  EXPECT_NO_THROW(arena.allocate(DType::UInt8, {1 << 20}));
  const std::string said =
      messageOf([&] { arena.allocate(DType::UInt8, {(1 << 20) + 64}); }, ErrorCode::OutOfMemory);
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(said.find("the test arena could not grow by 1048640 bytes in /tmp: "),
            std::string::npos)
      << said;
}

// The known answers that Random123, the generator's own library, publishes for 10 rounds.
TEST(Random, PhiloxGivesItsKnownAnswers) {
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, HashIsFnv1a) {
  EXPECT_EQ(hashBytes("", 0), 0xcbf29ce484222325u);
  EXPECT_EQ(hashBytes("a", 1), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(hashBytes("foobar", 6), 0x85944171f73967e8u);
}

TEST(Random, SeedNameAndIndexAllCount) {
  EXPECT_NE(Random(1, "a").bits(5), Random(1, "b").bits(5));
  EXPECT_NE(Random(1, "a").bits(5), Random(2, "a").bits(5));
  EXPECT_NE(Random(1, "a").bits(5), Random(uint64_t{1} << 32 | 1, "a").bits(5));
  EXPECT_NE(Random(1, "a").bits(5), Random(1, "a").bits(5 + (uint64_t{1} << 32)));
}

// From a second implementation, in Python: how (seed, name, index) become counter and key, and
// words a number. The logarithm and the cosine may differ in their last place between C libraries.
TEST(Random, FirstWeightsNeverChange) {
  const Random random(1, "blocks.0.attention.query.weight");
  EXPECT_EQ(random.bits(0), 0x6c0caa0c6aecbe40u);
  EXPECT_EQ(random.bits(24575), 0xf76f14bab6a7e63au);
  const std::pair<uint64_t, double> expected[] = {{0, 0.35742823456949735},
                                                  {1, -1.159339000297334},
                                                  {2, -0.5609946200656271},
                                                  {24575, -0.029445647356763745}};
  for (const auto& [index, value] : expected)
    EXPECT_NEAR(random.normal(index), value, 4e-16 * std::max(1.0, std::fabs(value))) << index;
}

TEST(Random, NormalHasItsMoments) {
  constexpr int n = 100000;
  const Random random(3, "moments");
  double sum = 0, squares = 0;
  for (uint64_t i = 0; i < n; ++i) {
    const double x = random.normal(i);
    sum += x;
    squares += x * x;
  }
  EXPECT_LT(std::fabs(sum / n), 5 / std::sqrt(n));                // five standard errors
  EXPECT_LT(std::fabs(squares / n - 1), 5 * std::sqrt(2.0 / n));  // the variance of x^2 is 2
}

TEST(Random, BelowStaysBelow) {
  const Random random(4, "below");
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 200; ++i) seen.insert(random.below(i, 5));
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_EQ(*seen.rbegin(), 4u);
  EXPECT_THROW(random.below(0, 0), Error);
}

TEST(Permutation, IsOne) {
  for (uint64_t size : {1u, 2u, 3u, 4u, 5u, 63u, 64u, 65u, 1000u}) {
    const Permutation permutation(7, "p", size);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < size; ++i) seen.insert(permutation[i]);
    EXPECT_EQ(seen.size(), size);
    EXPECT_LT(*seen.rbegin(), size);
    EXPECT_THROW(permutation[size], Error);
  }
  int same = 0;
  for (uint64_t i = 0; i < 1000; ++i)
    same += Permutation(7, "p", 1000)[i] == Permutation(8, "p", 1000)[i];
  EXPECT_LT(same, 20);  // one is expected
}

}  // namespace
}  // namespace tutti::parallel
