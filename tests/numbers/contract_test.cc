// What fold.h promises beyond the reference's values: commutative to the bit over whole types,
// NaN and infinity, the canonical tree split over steps, integer scalars at the ends of the range,
// large streamed folds, and the errors.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include <tutti/error.h>
#include "src/numbers/convert.h"
#include "src/numbers/fold.h"
#include "src/numbers/variants.h"
#include "tests/numbers/reference.h"
#include "tests/numbers/sample.h"

namespace tutti::numbers {
namespace {

constexpr FoldOrder kOrders[] = {FoldOrder::Listed, FoldOrder::ListedRounded, FoldOrder::Canonical};
constexpr ReduceOp kFolds[] = {ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max};

/// Every pair of `patterns`, as two arrays.
template <class Bits>
struct Pairs {
  std::vector<Bits> left, right;
  explicit Pairs(const std::vector<uint64_t>& patterns) {
    for (const uint64_t a : patterns)
      for (const uint64_t b : patterns) {
        left.push_back(static_cast<Bits>(a));
        right.push_back(static_cast<Bits>(b));
      }
  }
};

template <class Bits>
void expectCommutative(DataType type, const std::vector<uint64_t>& patterns) {
  const Pairs<Bits> pairs(patterns);
  const size_t count = pairs.left.size();
  std::vector<Bits> forward(count), backward(count);
  const void* there[] = {pairs.left.data(), pairs.right.data()};
  const void* back[] = {pairs.right.data(), pairs.left.data()};
  void* one = forward.data();
  void* other = backward.data();
  for (const Variant& variant : variants())
    for (const ReduceOp op : kFolds)
      for (const FoldOrder order : kOrders) {
        const auto run = [&](std::span<const void* const> sources, void* const& target) {
          foldWith(*variant.kernels, {.type = type,
                                      .op = op,
                                      .order = order,
                                      .sources = sources,
                                      .targets = {&target, 1},
                                      .count = count});
        };
        run(there, one);
        run(back, other);
        for (size_t i = 0; i < count; ++i) {
          ASSERT_EQ(forward[i], backward[i])
              << toString(type) << " " << toString(op) << " of " << uint64_t{pairs.left[i]}
              << " and " << uint64_t{pairs.right[i]};
          ASSERT_EQ(forward[i],
                    reference::fold(type, op, order, {pairs.left[i], pairs.right[i]}, {}))
              << toString(type) << " " << toString(op) << " of " << uint64_t{pairs.left[i]}
              << " and " << uint64_t{pairs.right[i]} << ", " << variant.name;
        }
      }
}

std::vector<uint64_t> bytePatterns() {
  std::vector<uint64_t> all(256);
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

TEST(FoldCommutes, OverAllPairsOfEveryOneByteType) {
  for (const DataType type :
       {DataType::Int8, DataType::UInt8, DataType::Float8E4M3, DataType::Float8E5M2})
    expectCommutative<uint8_t>(type, bytePatterns());
}

TEST(FoldCommutes, OverSpecialsOfTheWiderTypes) {
  for (const DataType type : {DataType::Float16, DataType::BFloat16})
    expectCommutative<uint16_t>(type, sample::specials(type));
  expectCommutative<uint32_t>(DataType::Float32, sample::specials(DataType::Float32));
  expectCommutative<uint64_t>(DataType::Float64, sample::specials(DataType::Float64));
}

template <class T>
T foldOne(DataType type, ReduceOp op, const std::vector<T>& values,
          const std::vector<double>& premultiply = {}, int divideBy = 1) {
  std::vector<const void*> sources;
  for (const T& value : values) sources.push_back(&value);
  T result{};
  void* target = &result;
  fold({.type = type,
        .op = op,
        .sources = sources,
        .targets = {&target, 1},
        .count = 1,
        .premultiply = premultiply,
        .divideBy = divideBy});
  return result;
}

TEST(FoldLandmarks, NanZeroAndInfinity) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto of = [](ReduceOp op, float a, float b) {
    return foldOne<float>(DataType::Float32, op, {a, b});
  };
  for (const ReduceOp op : kFolds) EXPECT_TRUE(std::isnan(of(op, nan, -inf))) << toString(op);
  EXPECT_TRUE(std::isnan(of(ReduceOp::Sum, inf, -inf)));
  EXPECT_TRUE(std::isnan(of(ReduceOp::Prod, inf, 0)));
  EXPECT_EQ(of(ReduceOp::Min, inf, -inf), -inf);
  EXPECT_EQ(of(ReduceOp::Max, inf, -inf), inf);
  EXPECT_TRUE(std::signbit(of(ReduceOp::Min, 0.0f, -0.0f)));
  EXPECT_FALSE(std::signbit(of(ReduceOp::Max, -0.0f, 0.0f)));
  EXPECT_EQ(std::bit_cast<uint32_t>(of(ReduceOp::Sum, -nan, 1)), 0x7fc00000u);
}

TEST(FoldLandmarks, ReducedTypesRoundOnceListedOtherwiseAtEveryNode) {
  // 256 + 1 + 1 in bfloat16: rounding at every node loses both ones, rounding once does not.
  const std::vector<uint16_t> values{toBFloat16(256), toBFloat16(1), toBFloat16(1)};
  const std::vector<const void*> sources{&values[0], &values[1], &values[2]};
  for (const FoldOrder order : kOrders) {
    uint16_t result = 0;
    void* target = &result;
    fold({.type = DataType::BFloat16,
          .order = order,
          .sources = sources,
          .targets = {&target, 1},
          .count = 1});
    EXPECT_EQ(fromBFloat16(result), order == FoldOrder::Listed ? 258.0f : 256.0f);
  }
}

TEST(FoldLandmarks, ADivisorMeetsTheRoundedSumUnlessListed) {
  // 40000 + 40000 is no float16; halved in float32 it is one again.
  const uint16_t value = toFloat16(40000);
  const void* sources[] = {&value, &value};
  for (const FoldOrder order : kOrders) {
    uint16_t result = 0;
    void* target = &result;
    fold({.type = DataType::Float16,
          .op = ReduceOp::Avg,
          .order = order,
          .sources = sources,
          .targets = {&target, 1},
          .count = 1,
          .divideBy = 2});
    EXPECT_EQ(result, order == FoldOrder::Listed ? value : toFloat16(1e30f));
  }
}

/// What a rank adds of its own equals what it sends: in every order a premultiplied element is
/// rounded, so premultiplying inside the fold or before it gives the same bits.
TEST(FoldLandmarks, APremultipliedElementIsRoundedWhereverItIsAdded) {
  const uint16_t one = toBFloat16(1);
  const double third[] = {1.0 / 3}, both[] = {1.0 / 3, 0.5}, half[] = {1.0, 0.5};
  uint16_t sent = 0;
  const void* source = &one;
  void* target = &sent;
  const auto run = [&](FoldOrder order, std::span<const void* const> from,
                       std::span<const double> scalars, void* const& to) {
    fold({.type = DataType::BFloat16,
          .op = ReduceOp::PreMulSum,
          .order = order,
          .sources = from,
          .targets = {&to, 1},
          .count = 1,
          .premultiply = scalars});
  };
  run(FoldOrder::Listed, {&source, 1}, third, target);
  for (const FoldOrder order : kOrders) {
    uint16_t inside = 0, before = 0;
    const void* own[] = {&one, &one};
    const void* received[] = {&sent, &one};
    run(order, own, both, &inside);
    run(order, received, half, &before);
    EXPECT_EQ(inside, before);
    EXPECT_EQ(fromBFloat16(inside), 0.8359375f);
  }
}

TEST(FoldLandmarks, OverflowOfFloat8) {
  const auto sum = [](DataType type, uint8_t a, uint8_t b) {
    return foldOne<uint8_t>(type, ReduceOp::Sum, {a, b});
  };
  EXPECT_EQ(sum(DataType::Float8E4M3, 0x7e, 0x58), 0x7e);  // 448 + 16 = 464 ties down
  EXPECT_EQ(sum(DataType::Float8E4M3, 0x7e, 0x60), 0x7f);  // 448 + 32 = 480 is NaN
  EXPECT_EQ(sum(DataType::Float8E4M3, 0xfe, 0xe0), 0x7f);
  EXPECT_EQ(sum(DataType::Float8E5M2, 0x7b, 0x7b), 0x7c);
  EXPECT_EQ(sum(DataType::Float8E5M2, 0xfb, 0xfb), 0xfc);
}

TEST(FoldLandmarks, IntegersWrapDivideTowardZeroAndScaleWithSaturation) {
  using std::numeric_limits;
  const double nan = numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(foldOne<int8_t>(DataType::Int8, ReduceOp::Sum, {127, 1}), -128);
  EXPECT_EQ(foldOne<uint16_t>(DataType::UInt16, ReduceOp::Prod, {0xffff, 0xffff}), 1);
  EXPECT_EQ(foldOne<int32_t>(DataType::Int32, ReduceOp::Avg, {-7, 0}, {}, 2), -3);
  EXPECT_EQ(foldOne<int8_t>(DataType::Int8, ReduceOp::Avg, {-128, 0}, {}, 1000), 0);
  EXPECT_EQ(foldOne<int32_t>(DataType::Int32, ReduceOp::Avg, {INT32_MIN, 0}, {}, INT32_MAX), -1);
  EXPECT_EQ(foldOne<uint32_t>(DataType::UInt32, ReduceOp::Avg, {UINT32_MAX, 0}, {}, 2),
            0x7fffffffu);
  EXPECT_EQ(foldOne<int64_t>(DataType::Int64, ReduceOp::Avg, {INT64_MIN, 0}, {}, 3), INT64_MIN / 3);
  EXPECT_EQ(foldOne<int8_t>(DataType::Int8, ReduceOp::PreMulSum, {100, 0}, {1.5, 1.0}), 127);
  EXPECT_EQ(foldOne<int8_t>(DataType::Int8, ReduceOp::PreMulSum, {-100, 0}, {1.5, 1.0}), -128);
  EXPECT_EQ(foldOne<int8_t>(DataType::Int8, ReduceOp::PreMulSum, {-85, 0}, {1.5, 1.0}), -127);
  EXPECT_EQ(foldOne<uint8_t>(DataType::UInt8, ReduceOp::PreMulSum, {7, 1}, {-1.0, 1.0}), 1);
  EXPECT_EQ(foldOne<uint8_t>(DataType::UInt8, ReduceOp::PreMulSum, {7, 1}, {nan, 1.0}), 1);
  EXPECT_EQ(foldOne<int64_t>(DataType::Int64, ReduceOp::PreMulSum, {INT64_MAX}, {2.0}), INT64_MAX);
  EXPECT_EQ(foldOne<uint64_t>(DataType::UInt64, ReduceOp::PreMulSum, {UINT64_MAX}, {2.0}),
            UINT64_MAX);
  // 1.0 leaves 64-bit elements alone: no detour through float64.
  EXPECT_EQ(foldOne<int64_t>(DataType::Int64, ReduceOp::PreMulSum, {INT64_MAX - 1, 0}, {1.0, 2.0}),
            INT64_MAX - 1);
}

/// The canonical tree of 8 leaves gives the same bits however its nodes are spread over calls.
TEST(FoldCanonical, SplitsOverStepsWithoutChangingBits) {
  constexpr size_t kCount = 5000;
  constexpr uint64_t kSeed = 5;
  std::cout << "seed " << kSeed << std::endl;
  for (const DataType type : {DataType::Float16, DataType::BFloat16, DataType::Float32,
                              DataType::Float64, DataType::Float8E4M3, DataType::Float8E5M2})
    for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Prod}) {
      sample::Random random(kSeed);
      const size_t bytes = kCount * sizeOf(type);
      std::vector<std::vector<char>> leaves(8, std::vector<char>(bytes));
      for (auto& leaf : leaves)
        for (size_t i = 0; i < kCount; ++i)
          reference::storeBits(type, leaf.data(), i,
                               sample::element(type, 2 + static_cast<int>(i % 2), random));
      const auto join = [&](const std::vector<const void*>& sources, std::vector<char>& out) {
        void* target = out.data();
        fold({.type = type,
              .op = op,
              .order = FoldOrder::Canonical,
              .sources = sources,
              .targets = {&target, 1},
              .count = kCount});
      };
      std::vector<char> whole(bytes), left(bytes), right(bytes), split(bytes);
      std::vector<const void*> all;
      for (const auto& leaf : leaves) all.push_back(leaf.data());
      join(all, whole);
      join({all.begin(), all.begin() + 4}, left);
      join({all.begin() + 4, all.begin() + 6}, right);
      std::vector<char> last(bytes);
      join({all.begin() + 6, all.end()}, last);
      join({right.data(), last.data()}, right);
      join({left.data(), right.data()}, split);
      EXPECT_EQ(whole, split) << toString(type) << " " << toString(op);
    }
}

/// Above the size from which targets are streamed to unasked, and at odd addresses.
TEST(FoldLarge, StreamedCopiesAndSumsAreComplete) {
  constexpr size_t kCount = (size_t{9} << 20) + 3;  // float32: 36 MiB a target
  std::vector<char> a(kCount * 4 + 64), b(kCount * 4 + 64), x(kCount * 4 + 64), y(kCount * 4 + 64);
  for (size_t i = 0; i < kCount; ++i) {
    const auto one = static_cast<float>(i % 1021), two = static_cast<float>(i % 2039);
    std::memcpy(a.data() + 4 + i * 4, &one, 4);
    std::memcpy(b.data() + 1 + i * 4, &two, 4);
  }
  const void* sources[] = {a.data() + 4, b.data() + 1};
  for (const int offset : {4, 5}) {
    void* targets[] = {x.data() + 4, y.data() + offset};
    fold({.sources = sources, .targets = targets, .count = kCount});
    size_t wrong = 0;
    for (size_t i = 0; i < kCount; ++i) {
      float sum;
      std::memcpy(&sum, x.data() + 4 + i * 4, 4);
      wrong += sum != static_cast<float>(i % 1021) + static_cast<float>(i % 2039);
    }
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(std::memcmp(x.data() + 4, y.data() + offset, kCount * 4), 0);
    fold({.sources = {sources, 1}, .targets = targets, .count = kCount});
    EXPECT_EQ(std::memcmp(a.data() + 4, x.data() + 4, kCount * 4), 0);
    EXPECT_EQ(std::memcmp(a.data() + 4, y.data() + offset, kCount * 4), 0);
  }
}

TEST(FoldErrors, NameWhatIsWrong) {
  float a = 1, b = 2;
  const void* sources[] = {&a, &b};
  void* target = &a;
  const std::vector<double> one{2.0}, two{2.0, 3.0};
  const auto error = [](const FoldRequest& request) -> std::string {
    try {
      fold(request);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::InvalidArgument);
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(error({.sources = {}, .targets = {&target, 1}, .count = 1}), "fold has no sources");
  EXPECT_EQ(error({.sources = sources, .targets = {}, .count = 1}), "fold has no targets");
  EXPECT_EQ(error({.sources = sources, .targets = {&target, 1}, .count = 1, .premultiply = one}),
            "fold has 2 sources and 1 scalars");
  EXPECT_EQ(error({.sources = sources, .targets = {&target, 1}, .count = 1, .divideBy = 0}),
            "fold divides by 0");
  EXPECT_EQ(error({.op = ReduceOp::Max,
                   .sources = sources,
                   .targets = {&target, 1},
                   .count = 1,
                   .divideBy = 2}),
            "fold of max has scalars or a divisor");
  EXPECT_EQ(error({.op = ReduceOp::Prod,
                   .sources = sources,
                   .targets = {&target, 1},
                   .count = 1,
                   .premultiply = two}),
            "fold of prod has scalars or a divisor");
  const std::vector<const void*> many((size_t{1} << 16) + 1, &a);
  EXPECT_EQ(error({.sources = many, .targets = {&target, 1}, .count = 1}),
            "fold has 65537 sources; the limit is 65536");
  EXPECT_EQ(a, 1);
}

/// The most sources there may be: a full stack of waiting subtrees.
TEST(FoldLimits, TakesTheMostSourcesInEveryOrder) {
  const float one = 1;
  for (const size_t sources : {kMaxSources, kMaxSources - 1}) {
    const std::vector<const void*> many(sources, &one);
    for (const FoldOrder order : kOrders)
      for (const Variant& variant : variants()) {
        float sum = 0;
        void* target = &sum;
        foldWith(*variant.kernels,
                 {.order = order, .sources = many, .targets = {&target, 1}, .count = 1});
        EXPECT_EQ(sum, static_cast<float>(sources));
      }
  }
}

TEST(FoldVariants, AreNamedForTheLog) {
  for (const Variant& variant : variants()) std::cout << "variant " << variant.name << std::endl;
  EXPECT_STREQ(variants().front().name, "baseline");
}

}  // namespace
}  // namespace tutti::numbers
