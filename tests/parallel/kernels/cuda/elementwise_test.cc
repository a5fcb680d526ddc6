// Copies, sums, activations and rotary positions of a GPU against the host's.

#include "tests/parallel/kernels/cuda/compared.h"

namespace tutti::parallel {
namespace {

class CudaElements : public Compared {};
INSTANTIATE_TEST_SUITE_P(Types, CudaElements, allTypes, nameOfTypes);

TEST_P(CudaElements, CopiesAndSums) {
  const Shape shape{2, 3, 2, 5};
  const Operand wide = random({2, 3, 2, 9}, elements()), from = wide.columns(3, 5);
  const Operand reference = random(shape, kept());
  const Operand to = result({2, 3, 2, 7}, kept()), back = result(shape, elements());
  const Operand sum = grid({2, 3, 2, 6}, kept()), more = grid(shape, elements());
  const Operand rows = grid({7, 40}, elements()), bias = grid({33}, kept());
  const Operand biases = grid({33}, kept());
  both([&](const Side& side) {
    side.kernels.copy(side(from), side(to.columns(1, 5)));
    side.kernels.copy(side(reference), side(back));
    side.kernels.add(side(more), side(sum.columns(1, 5)));
    side.kernels.addBias(side(bias), side(rows.columns(4, 33)));
    side.kernels.biasGradient(side(rows.columns(2, 33)), side(biases), 1);
  });
  expectExact(to, "copy");
  expectExact(back, "copy of all");
  expectExact(sum, "add");
  expectExact(rows, "addBias");
  expectExact(biases, "biasGradient");
}

// In float64 exp errs by 3 roundings of its own and by its argument's, of which there are 5 of at
// most 17; see host/elementwise_test.cc. In float32 it errs by 4 and its argument by two more,
// which are 123; but of these a sigmoid s gets s (1 - s), a quarter at most, and by its quotient 5.
// Far from zero nothing overflows.
TEST_P(CudaElements, Activations) {
  const Operand x = random({3, 86}, elements(), 2), y = result({3, 86}, elements()),
                dy = random({3, 86}, elements()), inPlace = rounded(dy, elements());
  const Operand below = of({-1e4, -100, -30, -19.5, -8}, {5}, elements()),
                above = of({8, 19.5, 30, 100, 1e4}, {5}, elements()),
                ones = of(std::vector<double>(5, 1), {5}, elements());
  const Operand belowY = result({5}, elements()), belowDx = result({5}, elements()),
                aboveY = result({5}, elements()), aboveDx = result({5}, elements());
  const Operand glu = result({3, 43}, elements()), dGlu = random({3, 43}, elements()),
                dx = result({3, 86}, elements()), onX = rounded(x, elements());
  both([&](const Side& side) {
    side.kernels.gelu(side(x), side(y));
    side.kernels.geluBackward(side(inPlace), side(x), side(inPlace));
    side.kernels.gelu(side(below), side(belowY));
    side.kernels.gelu(side(above), side(aboveY));
    side.kernels.geluBackward(side(ones), side(below), side(belowDx));
    side.kernels.geluBackward(side(ones), side(above), side(aboveDx));
    side.kernels.swiGlu(side(x), side(glu));
    side.kernels.swiGluBackward(side(dGlu), side(x), side(dx));
    side.kernels.swiGluBackward(side(dGlu), side(onX), side(onX));
  });
  for (const Operand& r : {y, belowY, aboveY, glu}) expectNear(r, 8 * 92, "activation");
  for (const Operand& r : {inPlace, belowDx, aboveDx, dx, onX}) expectNear(r, 32 * 92, "gradient");
}

TEST_P(CudaElements, Rotary) {
  const Operand x = random({2, 3, 22}, elements()), back = rounded(x, elements());
  const Operand cosine = random({7, 4}, kept()), sine = random({7, 4}, kept());
  const Operand at = numbers({6, 0, 2}, {3});
  both([&](const Side& side) {
    side.kernels.rotary({.x = side(x),
                         .cosine = side(cosine),
                         .sine = side(sine),
                         .at = {},
                         .heads = 2,
                         .headWidth = 8});
    side.kernels.rotary({.x = side(back),
                         .cosine = side(cosine),
                         .sine = side(sine),
                         .at = side(at),
                         .heads = 2,
                         .headWidth = 8,
                         .back = true});
  });
  // Two products of numbers below 4, and their sum.
  expectNear(x, 3 * 16, "rotary");
  expectNear(back, 3 * 16, "rotary back");
}

}  // namespace
}  // namespace tutti::parallel
