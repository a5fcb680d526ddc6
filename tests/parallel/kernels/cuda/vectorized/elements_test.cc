// Element by element: to the bit what the reference kernels compute, wherever rows begin and end.

#include <cmath>
#include <limits>

#include "tests/parallel/kernels/cuda/vectorized/pool.h"
#include "tests/parallel/kernels/cuda/vectorized/some_cases.h"

namespace tutti::parallel::cuda {
namespace {

// Several blocks and one run; rows with gaps that keep the alignment and that do not; rows and
// memory that do not begin at 16 bytes, and widths that no run divides.
constexpr Rows kLayouts[] = {{41, 264, 264},   {6, 8, 8},     {3, 4, 4},
                             {5, 264, 272},    {5, 264, 269}, {5, 264, 272, 1},
                             {5, 264, 272, 4}, {5, 13, 13},   {2, 20, 20}};

template <class Arguments>
cudaError_t start(MemoryBoundFamily family, const Arguments& x) {
  return enqueue(ChosenMemoryBound{family, x}, false, nullptr);
}
template <class Arguments>
cudaError_t startUntyped(MemoryBoundFamily family, const Arguments& x) {
  return enqueue(ChosenMemoryBound{family, x}, nullptr);
}

Rows contiguous(const Rows& layout) {
  return {layout.rows, layout.width, layout.width, layout.shift};
}
/// Three dimensions before the last, with a row that is left out in the middle.
RowPlaces placesOf(const Rows& layout, bool isContiguous) {
  return {isContiguous, {2, 3, 4}, {13 * layout.stride, 4 * layout.stride, layout.stride}};
}
/// Memory for these.
Rows placed(const Rows& layout) { return {26, layout.width, layout.stride, layout.shift}; }

std::string describe(const char* what, const Rows& x, const Formats& formats) {
  return std::string(what) + " of " + std::to_string(x.rows) + " rows of " +
         std::to_string(x.width) + ", " + std::to_string(x.stride) + " apart, shifted by " +
         std::to_string(x.shift) + ", " + nameOf(formats.elements) + " and " + nameOf(formats.kept);
}

template <class Test>
void forAll(const Test& test) {
  SomeCases cases;
  for (const Rows& layout : kLayouts)
    for (const Formats& formats : kAllFormats) {
      if (!cases.takeNext()) continue;
      Pool pool;
      test(pool, layout, formats);
    }
}

TEST(VectorizedElements, CopiesAndSums) {
  forAll([](Pool& pool, const Rows& layout, const Formats& formats) {
    const Elements from = pool.random(placed(layout), formats.elements),
                   to = pool.random(placed(layout), formats.kept),
                   same = pool.result(placed(layout), formats.elements);
    // Contiguous, too, where there are no gaps: then places do not matter.
    const bool isContiguous = layout.stride == layout.width;
    const RowPlaces places = placesOf(layout, false);
    for (const bool flat : {false, true}) {
      if (flat && !isContiguous) continue;
      RowPlaces all = places;
      if (flat) all.isContiguous = 1;
      const int64_t count = 24 * layout.width;
      const Convert convert{from, to, all, all, count, layout.width};
      const AddRows add{from, to, all, all, count, layout.width};
      const MoveRows move{from.data,
                          same.data,
                          all,
                          all,
                          count,
                          layout.width,
                          static_cast<int32_t>(bytesOf(formats.elements))};
      pool.expectReferenceBits([&](MemoryBoundFamily f) { return startUntyped(f, convert); },
                               describe("convert", layout, formats));
      pool.expectReferenceBits([&](MemoryBoundFamily f) { return start(f, add); },
                               describe("add", layout, formats));
      pool.expectReferenceBits([&](MemoryBoundFamily f) { return startUntyped(f, move); },
                               describe("move", layout, formats));
    }
  });
}

TEST(VectorizedElements, AddBias) {
  forAll([](Pool& pool, const Rows& layout, const Formats& formats) {
    const AddBias x{.bias = pool.random({1, layout.width, layout.width}, formats.kept),
                    .y = {pool.random(layout, formats.elements), layout.stride},
                    .rows = layout.rows,
                    .width = layout.width};
    pool.expectReferenceBits([&](MemoryBoundFamily f) { return start(f, x); },
                             describe("addBias", layout, formats));
  });
}

// Also in the place of what is read.
TEST(VectorizedElements, Activations) {
  forAll([](Pool& pool, const Rows& all, const Formats& formats) {
    const Rows layout = contiguous(all), twice{all.rows, 2 * all.width, 2 * all.width, all.shift};
    const Elements x = pool.random(layout, formats.elements),
                   dy = pool.random(layout, formats.kept), y = pool.result(layout, formats.kept),
                   gates = pool.random(twice, formats.elements),
                   dGates = pool.result(twice, formats.kept);
    const int64_t count = layout.rows * layout.width;
    for (const Gelu& gelu : {Gelu{{}, x, y, count}, Gelu{dy, x, y, count}, Gelu{dy, x, dy, count}})
      pool.expectReferenceBits([&](MemoryBoundFamily f) { return start(f, gelu); },
                               describe("gelu", layout, formats));
    for (const SwiGlu& glu : {SwiGlu{{}, gates, y, layout.rows, layout.width},
                              SwiGlu{dy, gates, dGates, layout.rows, layout.width},
                              SwiGlu{dy, gates, gates, layout.rows, layout.width}})
      pool.expectReferenceBits([&](MemoryBoundFamily f) { return start(f, glu); },
                               describe("swiGlu", layout, formats));
  });
}

// Of rows with more heads than are turned, by positions in order and by given ones, of which the
// host would refuse one.
TEST(VectorizedElements, Rotary) {
  SomeCases cases;
  for (const Formats& formats : kAllFormats)
    for (const int32_t half : {8, 4, 5, 32})
      for (const int64_t shift : {0, 1})
        for (const bool isPlaced : {false, true}) {
          if (!cases.takeNext()) continue;
          Pool pool;
          const int64_t columns = 3 * 2 * half + 8;
          const Rotary x{.x = pool.random({6, columns, columns, shift}, formats.elements),
                         .cosine = pool.random({7, half, half}, formats.kept, {-1, 1}),
                         .sine = pool.random({7, half, half}, formats.kept, {-1, 1}),
                         .at = isPlaced ? pool.numbers({6, 7, 2}) : nullptr,
                         .rows = 6,
                         .columns = columns,
                         .context = 3,
                         .positions = 7,
                         .heads = 3,
                         .half = half,
                         .back = isPlaced};
          pool.expectReferenceBits([&](MemoryBoundFamily f) { return start(f, x); },
                                   describe("rotary", {6, half, columns, shift}, formats));
        }
}

// A NaN becomes the processor's own, whose bits no reference kernel makes: so vectors compute it.
TEST(VectorizedElements, AreByVectors) {
  Pool pool;
  const Elements from = pool.random({1, 16, 16}, ElementFormat::Float32),
                 to = pool.result({1, 16, 16}, ElementFormat::BFloat16);
  pool.set(from, 3, std::numeric_limits<double>::quiet_NaN());
  const RowPlaces places{.isContiguous = 1, .extents = {1, 1, 1}, .strides = {0, 0, 0}};
  const Convert convert{from, to, places, places, 16, 16};
  const Pool::Results results =
      pool.compute([&](MemoryBoundFamily f) { return startUntyped(f, convert); });
  EXPECT_TRUE(std::isnan(pool.numberIn(results.vectorized, to, 3)));
  EXPECT_FALSE(results.vectorized == results.reference);
}

}  // namespace
}  // namespace tutti::parallel::cuda
