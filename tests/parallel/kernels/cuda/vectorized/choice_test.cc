// Which operands the kernels of vectorized/ take, and how they count runs: functions of numbers.

#include <gtest/gtest.h>

#include <cstdlib>

#include <tutti/error.h>

#include "parallel/kernels/cuda/vectorized/arguments.h"
#include "parallel/kernels/cuda/vectorized/choice.h"
#include "parallel/kernels/cuda/vectorized/runs_device.cuh"
#include "parallel/kernels/kernels.h"

namespace tutti::parallel::cuda {
namespace {

Elements at(uintptr_t address, ElementFormat format) {
  return {reinterpret_cast<void*>(address), format};
}
constexpr auto kBrain = ElementFormat::BFloat16, kFloat = ElementFormat::Float32,
               kDouble = ElementFormat::Float64;

TEST(MemoryBoundChoice, IsOfTypesAndAlignment) {
  const auto gelu = [](const Elements& dy, const Elements& x, const Elements& y, int64_t count) {
    return runOf(Gelu{dy, x, y, count});
  };
  const Elements floats = at(4096, kFloat), brains = at(8192, kBrain), none{};
  EXPECT_EQ(gelu(none, floats, floats, 12), 4);
  EXPECT_EQ(gelu(none, floats, floats, 10), 0);
  EXPECT_EQ(gelu(none, floats, floats, 0), 0);
  EXPECT_EQ(gelu(none, brains, brains, 16), 8);
  EXPECT_EQ(gelu(none, brains, brains, 12), 0);
  EXPECT_EQ(gelu(brains, floats, floats, 16), 8);
  EXPECT_EQ(gelu(brains, floats, floats, 12), 0);
  EXPECT_EQ(gelu(none, floats, at(4104, kFloat), 16), 0);
  EXPECT_EQ(gelu(at(8200, kBrain), brains, brains, 16), 0);
  EXPECT_EQ(gelu(none, at(4096, kDouble), at(8192, kDouble), 16), 0);
  // More runs than are counted, and as many.
  constexpr int64_t kMost = int64_t{1} << 31;
  EXPECT_EQ(gelu(none, floats, floats, 4 * kMost), 0);
  EXPECT_EQ(gelu(none, floats, floats, 4 * (kMost - 1)), 4);
}

TEST(MemoryBoundChoice, IsOfRows) {
  const Elements x = at(4096, kBrain);
  const auto places = [](int64_t outer, int64_t stride) {
    return RowPlaces{.isContiguous = 0, .extents = {1, 2, 5}, .strides = {0, outer, stride}};
  };
  const auto add = [&](const RowPlaces& from, const RowPlaces& to, int64_t width) {
    return runOf(AddRows{x, x, from, to, 10 * width, width});
  };
  EXPECT_EQ(add(places(80, 16), places(168, 24), 16), 8);
  EXPECT_EQ(add(places(80, 16), places(168, 24), 12), 0);
  EXPECT_EQ(add(places(80, 12), places(168, 24), 8), 0);
  EXPECT_EQ(add(places(80, 16), places(164, 24), 8), 0);
  RowPlaces flat = places(60, 12);
  EXPECT_EQ(add(flat, flat, 12), 0);
  flat.isContiguous = 1;
  EXPECT_EQ(add(flat, flat, 12), 8);
  EXPECT_EQ(runOf(MoveRows{x.data, x.data, places(80, 16), places(80, 16), 160, 16, 1}), 16);
  EXPECT_EQ(runOf(MoveRows{x.data, x.data, places(80, 8), places(80, 8), 80, 8, 1}), 0);
  EXPECT_EQ(runOf(MoveRows{x.data, x.data, places(80, 16), places(80, 16), 160, 16, 8}), 2);
  EXPECT_EQ(runOf(AddBias{x, {x, 20}, 3, 16}), 0);
  EXPECT_EQ(runOf(AddBias{x, {x, 24}, 3, 16}), 8);
  EXPECT_EQ(runOf(SwiGlu{{}, x, x, 3, 12}), 0);
  EXPECT_EQ(runOf(SwiGlu{{}, x, x, 3, 16}), 8);
  EXPECT_EQ(runOf(Convert{x, at(8192, kFloat), flat, flat, 120, 12}), 8);
  const auto rotary = [&](int64_t columns, int32_t half) {
    return runOf(Rotary{x, x, x, nullptr, 4, columns, 2, 2, 1, half, 0});
  };
  EXPECT_EQ(rotary(32, 8), 8);
  EXPECT_EQ(rotary(36, 8), 0);
  EXPECT_EQ(rotary(32, 12), 0);
}

TEST(MemoryBoundChoice, IsOfWhatNormsReadAndWrite) {
  const Elements x = at(4096, kBrain), wide = at(8192, kFloat), odd = at(4100, kFloat), none{};
  const auto norm = [&](const Elements& in, const Elements& weight, int32_t width) {
    return runOf(NormForward{in, weight, none, in, none, odd, none, 3, width, 0});
  };
  const auto withResidual = [&](const Elements& residual, int32_t width) {
    return runOf(NormForward{x, x, none, x, none, odd, residual, 3, width, 0});
  };
  EXPECT_EQ(withResidual(wide, 16), 8);
  EXPECT_EQ(withResidual(wide, 12), 0);
  EXPECT_EQ(withResidual(odd, 16), 0);
  EXPECT_EQ(norm(x, x, 16), 8);
  EXPECT_EQ(norm(x, wide, 16), 8);
  EXPECT_EQ(norm(wide, wide, 16), 8);
  EXPECT_EQ(norm(wide, wide, 12), 0);
  EXPECT_EQ(norm(x, wide, 12), 0);
  EXPECT_EQ(norm(wide, odd, 16), 0);
  EXPECT_EQ(norm(x, x, kMostNormColumns), 8);
  EXPECT_EQ(norm(x, x, kMostNormColumns + 8), 0);
  const auto backward = [&](const Elements& residual, const Elements& dx, int32_t width) {
    return runOf(NormBackward{wide, wide, wide, none, odd, residual, dx, 3, width});
  };
  EXPECT_EQ(backward(none, wide, 16), 8);
  EXPECT_EQ(backward(none, wide, 12), 0);
  EXPECT_EQ(backward(x, wide, 16), 8);
  EXPECT_EQ(backward(x, wide, 12), 0);
  EXPECT_EQ(backward(odd, wide, 16), 0);
  EXPECT_EQ(backward(none, odd, 16), 0);
  EXPECT_EQ(backward(none, wide, kMostNormColumns + 8), 0);
}

// A norm leaves sums of what its kernels take.
TEST(MemoryBoundChoice, IsThatOfNormsThatLeaveSums) {
  const auto expectAlike = [](DType type, int64_t rows, int64_t width, uintptr_t spoilt,
                              uintptr_t address) {
    const auto tensor = [&](uintptr_t number, DType of, const Shape& shape) {
      return Tensor(reinterpret_cast<void*>(number == spoilt ? address : 4096 * number), of, shape);
    };
    const Shape all{rows, width};
    const NormSlicesArgs args{tensor(1, type, all), tensor(2, type, all),
                              tensor(3, DType::Float32, {width}), tensor(4, type, all),
                              tensor(5, type, all)};
    const auto elements = [](const Tensor& x) {
      return Elements{x.data, x.type == DType::BFloat16  ? ElementFormat::BFloat16
                              : x.type == DType::Float64 ? ElementFormat::Float64
                                                         : ElementFormat::Float32};
    };
    const NormBackward norm{.dy = elements(args.dy),
                            .x = elements(args.x),
                            .weight = elements(args.weight),
                            .mean = {},
                            .rstd = {},
                            .residual = elements(args.residual),
                            .dx = elements(args.dx),
                            .rows = static_cast<int32_t>(rows),
                            .width = static_cast<int32_t>(width)};
    const int64_t slices = runOf(norm) == 0 ? 0 : normSlicesOf(rows).count;
    EXPECT_EQ(normSlicesOf(args), slices) << rows << " rows of " << width << ", " << spoilt;
  };
  for (const DType type : {DType::BFloat16, DType::Float32, DType::Float64})
    for (const int64_t width : {0, 4, 8, 12, kMostNormColumns, kMostNormColumns + 8})
      for (const int64_t rows : {0, 1, 100}) expectAlike(type, rows, width, 0, 0);
  for (uintptr_t operand = 1; operand <= 5; ++operand) {
    expectAlike(DType::BFloat16, 100, 16, operand, 4104);
    expectAlike(DType::BFloat16, 100, 16, operand, 65536);
  }
  expectAlike(DType::BFloat16, 100, 16, 4, 0);  // no residual
}

TEST(MemoryBoundChoice, IsOfRowsThatAreSummed) {
  const Elements x = at(4096, kBrain), wide = at(8192, kFloat), odd = at(4100, kFloat), none{};
  const auto sums = [&](const Elements& dy, int64_t stride, const Elements& normal, int32_t rows,
                        int32_t width, const Elements& second) {
    return ColumnSums{{dy, stride}, normal, none, odd, odd, second, nullptr, {}, rows, width, 1, 0};
  };
  EXPECT_EQ(runOf(sums(wide, 16, none, 3, 16, none)), 4);
  EXPECT_EQ(runOf(sums(x, 16, none, 3, 16, none)), 8);
  EXPECT_EQ(runOf(sums(wide, 16, x, 3, 16, none)), 8);
  // A multiple of 4 would do for float32, but not for sums of 16 bits in the same order.
  EXPECT_EQ(runOf(sums(wide, 20, none, 3, 16, none)), 0);
  EXPECT_EQ(runOf(sums(wide, 24, none, 3, 12, none)), 0);
  EXPECT_EQ(runOf(sums(odd, 16, none, 3, 16, none)), 0);
  EXPECT_EQ(runOf(sums(wide, 16, odd, 3, 16, none)), 0);
  EXPECT_EQ(runOf(sums(at(4096, kDouble), 16, none, 3, 16, none)), 0);
  EXPECT_EQ(runOf(sums(wide, 16, none, 0, 16, none)), 0);
  // Scratch where rows are several slices, for each sum; none for the reference kernels.
  EXPECT_EQ(partialSumsOf(sums(x, 16, none, kSliceRows, 16, none)), 0);
  EXPECT_EQ(partialSumsOf(sums(x, 16, none, kSliceRows + 1, 16, none)), 2 * 16);
  EXPECT_EQ(partialSumsOf(sums(x, 16, x, 5 * kSliceRows, 16, odd)), 2 * 5 * 16);
  EXPECT_EQ(partialSumsOf(sums(x, 16, x, 1 << 20, 16, odd)), 2 * kMostSlices * 16);
  EXPECT_EQ(partialSumsOf(sums(odd, 16, none, 5 * kSliceRows, 16, none)), 0);
}

TEST(MemoryBoundChoice, IsOfWhereLogitsBegin) {
  const auto statistics = [](const Elements& logits, int32_t rows, int32_t width) {
    return runOf(
        LogitStatistics{logits, at(4100, kFloat), nullptr, {0, width}, rows, width, width + 1});
  };
  const auto loss = [](const Elements& logits, int32_t rows, int32_t width) {
    return runOf(CrossEntropy{
        logits, at(4100, kFloat), nullptr, {0, width}, nullptr, rows, width, 1, 1, 0.5, width + 1});
  };
  for (const int32_t width : {1, 8, 50257}) {
    EXPECT_EQ(statistics(at(4096, kFloat), 3, width), kLossRun);
    EXPECT_EQ(loss(at(4096, kBrain), 3, width), kLossRun);
  }
  EXPECT_EQ(statistics(at(4096, kFloat), 0, 8), 0);
  EXPECT_EQ(statistics(at(4096, kFloat), 3, 0), 0);
  EXPECT_EQ(statistics(at(4100, kFloat), 3, 8), 0);
  EXPECT_EQ(statistics(at(4096, kDouble), 3, 8), 0);
  EXPECT_EQ(loss(at(4096, kBrain), 0, 8), 0);
  EXPECT_EQ(loss(at(4096, kBrain), 3, 0), 0);
  EXPECT_EQ(loss(at(4104, kBrain), 3, 8), 0);
  EXPECT_EQ(loss(at(4096, kDouble), 3, 8), 0);
}

TEST(MemoryBoundChoice, IsOfRowsThatAreLookedUp) {
  const Elements x = at(4096, kBrain), wide = at(8192, kFloat), odd = at(4100, kFloat), none{};
  const auto embedding = [&](const Elements& positions, int32_t rows, int32_t width) {
    return runOf(Embedding{nullptr, nullptr, wide, positions, x, {0, 9}, rows, 1, width, 9});
  };
  EXPECT_EQ(embedding(none, 3, 16), 8);
  EXPECT_EQ(embedding(none, 0, 16), 0);
  EXPECT_EQ(embedding(none, 3, 12), 0);
  EXPECT_EQ(embedding(odd, 3, 16), 0);
  const auto placed = [](const Elements& rows, const Elements& others, const Elements& weights,
                         int32_t count, int32_t width) {
    return Placed{rows, others, weights, nullptr, count, 2, width, 9};
  };
  EXPECT_EQ(runOf(SpreadRows{placed(x, x, odd, 6, 16)}), 8);  // weights may be anywhere
  EXPECT_EQ(runOf(SpreadRows{placed(wide, wide, none, 6, 12)}), 4);
  EXPECT_EQ(runOf(SpreadRows{placed(wide, odd, none, 6, 12)}), 0);
  EXPECT_EQ(runOf(SpreadRows{{x, x, none, nullptr, 0, 0, 16, 9}}), 0);
  EXPECT_EQ(runOf(CombineRows{placed(x, wide, none, 3, 16)}), 8);
  EXPECT_EQ(runOf(CombineRows{placed(x, wide, none, 3, 20)}), 0);
  EXPECT_EQ(runOf(RowDots{placed(x, x, odd, 6, 16)}), 8);
  EXPECT_EQ(runOf(RowDots{placed(at(4096, kDouble), at(8192, kDouble), odd, 6, 16)}), 0);
  const auto sums = [&](const Elements& dx, int32_t count, int32_t width) {
    SumByRow sum{};
    sum.dx = dx, sum.to = wide, sum.count = count, sum.width = width;
    return runOf(sum);
  };
  EXPECT_EQ(sums(x, 3, 16), 8);
  EXPECT_EQ(sums(wide, 3, 12), 4);
  EXPECT_EQ(sums(x, 3, 12), 1);
  EXPECT_EQ(sums(odd, 3, 16), 1);
  EXPECT_EQ(sums(at(4096, kDouble), 3, 16), 1);
  EXPECT_EQ(sums(x, 0, 16), 0);
}

TEST(MemoryBoundChoice, IsOfRowsOfHeads) {
  const Elements x = at(4096, kBrain), wide = at(8192, kFloat);
  const auto merge = [&](const Elements& part, int32_t headWidth, int64_t batch, int64_t row) {
    AttentionMerge merged{};
    merged.sizes.batch = merged.sizes.heads = 1, merged.sizes.queries = 3;
    merged.sizes.headWidth = headWidth;
    merged.part = {part, batch, row};
    merged.out = {wide, 3 * 64, 64};
    const AttentionDots dots{merged.sizes, merged.out, merged.part, {}};
    EXPECT_EQ(runOf(dots), runOf(merged));
    return runOf(merged);
  };
  EXPECT_EQ(merge(x, 64, 192, 64), 8);
  EXPECT_EQ(merge(wide, 12, 36, 12), 4);
  EXPECT_EQ(merge(x, 12, 192, 64), 0);
  EXPECT_EQ(merge(x, 64, 192, 68), 0);
  EXPECT_EQ(merge(x, 64, 196, 64), 0);
  EXPECT_EQ(merge(at(4100, kFloat), 64, 192, 64), 0);
}

TEST(MemoryBoundChoice, IsOfTheEnvironment) {
  EXPECT_EQ(memoryBoundOfEnvironment(), MemoryBoundFamily::Vectorized);
  setenv("TUTTI_MEMORY_BOUND", "reference", 1);
  EXPECT_EQ(memoryBoundOfEnvironment(), MemoryBoundFamily::Reference);
  setenv("TUTTI_MEMORY_BOUND", "vectorized", 1);
  EXPECT_EQ(memoryBoundOfEnvironment(), MemoryBoundFamily::Vectorized);
  setenv("TUTTI_MEMORY_BOUND", "scalars", 1);
  EXPECT_THROW(memoryBoundOfEnvironment(), Error);
  unsetenv("TUTTI_MEMORY_BOUND");
}

// At the edges of quotients, and for the largest numbers.
TEST(VectorizedSpaces, Divide) {
  for (const uint32_t by :
       {1u, 2u, 3u, 5u, 7u, 96u, 641u, 6283u, 65535u, 65536u, 65537u, 0x40000001u, 0x7fffffffu}) {
    const Divider divider = dividerBy(by);
    for (const uint32_t q : {0u, 1u, 2u, 1000u, 0x7fffffffu / by})
      for (const int64_t near : {-1, 0, 1}) {
        const int64_t n = int64_t{q} * by + near;
        if (n < 0 || n > 0x7fffffff) continue;
        EXPECT_EQ(quotientOf(divider, static_cast<uint32_t>(n)), n / by) << n << " / " << by;
      }
  }
}

}  // namespace
}  // namespace tutti::parallel::cuda
