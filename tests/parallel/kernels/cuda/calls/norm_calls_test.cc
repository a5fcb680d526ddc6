// Norms of a GPU, and sums over many rows, against the host's.

#include "tests/parallel/kernels/cuda/compared.h"

namespace tutti::parallel {
namespace {

class CudaNorms : public Compared {};
INSTANTIATE_TEST_SUITE_P(Types, CudaNorms, allTypes, nameOfTypes);

// A block's threads have some columns and no column; the sums of a row of 300 err by as many
// roundings of a sum of sizes that is 300 times an element's, at most 4.
TEST_P(CudaNorms, LayerNorm) {
  for (const int64_t width : {1, 5, 300}) {
    const Shape shape{2, 2, width};
    const Operand x = random(shape, elements()), weight = random({width}, elements()),
                  bias = random({width}, elements()), y = result(shape, elements());
    const Operand mean = result({4}, kept()), rstd = result({4}, kept());
    both([&](const Side& side) {
      side.kernels.layerNorm({.x = side(x),
                              .weight = side(weight),
                              .bias = side(bias),
                              .y = side(y),
                              .mean = side(mean),
                              .rstd = side(rstd),
                              .epsilon = 1e-3});
    });
    // Of a row of one element nothing is left but the epsilon's 30 in rstd.
    expectNear(y, 16 * (static_cast<double>(width) + 30), "layerNorm");
    expectNear(mean, 4 * (static_cast<double>(width) + 2), "mean");
    expectNear(rstd, 16 * (static_cast<double>(width) + 30), "rstd");
  }
}

TEST_P(CudaNorms, LayerNormGradients) {
  constexpr int64_t kWidth = 150;
  const Shape shape{3, kWidth};
  const Operand x = random(shape, elements()), dy = random(shape, elements()),
                weight = random({kWidth}, elements()), residual = random(shape, elements()),
                mean = random({3}, kept()), rstd = random({3}, kept()),
                dx = result(shape, elements()), inPlace = rounded(dy, elements()),
                onResidual = rounded(residual, elements());
  const Operand dWeight = random({kWidth}, kept()), dBias = result({kWidth}, kept());
  both([&](const Side& side) {
    LayerNormBackwardArgs a{.dy = side(dy),
                            .x = side(x),
                            .weight = side(weight),
                            .mean = side(mean),
                            .rstd = side(rstd),
                            .residual = side(residual),
                            .dx = side(dx)};
    side.kernels.layerNormBackward(a);
    a.residual = side(onResidual), a.dx = side(onResidual);
    side.kernels.layerNormBackward(a);
    a.dy = side(inPlace), a.dx = side(inPlace), a.residual = {};
    side.kernels.layerNormBackward(a);
    side.kernels.layerNormWeights({.dy = side(dy),
                                   .x = side(x),
                                   .mean = side(mean),
                                   .rstd = side(rstd),
                                   .dWeight = side(dWeight),
                                   .dBias = side(dBias),
                                   .betaWeight = 1});
  });
  // Means of 150 products of three such numbers, times one more.
  for (const Operand& d : {dx, onResidual, inPlace}) expectNear(d, 64 * kWidth, "dx");
  expectNear(dWeight, 64 * 8, "dWeight");  // sums of 3 of them
  expectNear(dBias, 16, "dBias");
}

// Of more rows than a block takes; a dy with gaps.
TEST_P(CudaNorms, SumsOverManyRows) {
  constexpr int64_t kRows = 300, kWidth = 72;
  const Shape shape{kRows, kWidth};
  const Operand x = grid(shape, elements()), dy = grid(shape, kept()),
                rows = grid({kRows, kWidth + 24}, elements());
  const Operand mean = grid({kRows}, kept()),
                rstd = of(std::vector<double>(kRows, 0.5), {kRows}, kept());
  const Operand dWeight = grid({kWidth}, kept()), dBias = result({kWidth}, kept()),
                rms = result({kWidth}, kept()), db = grid({kWidth}, kept());
  both([&](const Side& side) {
    side.kernels.layerNormWeights({.dy = side(dy),
                                   .x = side(x),
                                   .mean = side(mean),
                                   .rstd = side(rstd),
                                   .dWeight = side(dWeight),
                                   .dBias = side(dBias),
                                   .betaWeight = 1});
    side.kernels.rmsNormWeights(
        {.dy = side(dy), .x = side(x), .rstd = side(rstd), .dWeight = side(rms)});
    side.kernels.biasGradient(side(rows.columns(16, kWidth)), side(db), 1);
  });
  expectExact(dWeight, "layerNormWeights");
  expectExact(dBias, "layerNormWeights' bias");
  expectExact(rms, "rmsNormWeights");
  expectExact(db, "biasGradient");
}

TEST_P(CudaNorms, RmsNorm) {
  for (const int64_t width : {1, 5, 300}) {
    const Shape shape{3, width};
    const Operand x = random(shape, elements()), weight = random({width}, elements()),
                  y = result(shape, elements()), rstd = result({3}, kept());
    const Operand dy = random(shape, elements()), given = random({3}, kept()),
                  residual = random(shape, elements()), dx = result(shape, elements()),
                  alone = result(shape, elements()), dWeight = random({width}, kept());
    both([&](const Side& side) {
      side.kernels.rmsNorm({.x = side(x),
                            .weight = side(weight),
                            .y = side(y),
                            .rstd = side(rstd),
                            .epsilon = 1e-3});
      RmsNormBackwardArgs a{.dy = side(dy),
                            .x = side(x),
                            .weight = side(weight),
                            .rstd = side(given),
                            .residual = side(residual),
                            .dx = side(dx)};
      side.kernels.rmsNormBackward(a);
      a.residual = {}, a.dx = side(alone);
      side.kernels.rmsNormBackward(a);
      side.kernels.rmsNormWeights(
          {.dy = side(dy), .x = side(x), .rstd = side(given), .dWeight = side(dWeight), .beta = 1});
    });
    const double sums = static_cast<double>(width) + 30;
    expectNear(y, 16 * sums, "rmsNorm");
    expectNear(rstd, 16 * sums, "rstd");
    expectNear(dx, 64 * sums, "dx");
    expectNear(alone, 64 * sums, "dx without a residual");
    expectNear(dWeight, 64 * 8, "dWeight");
  }
}

}  // namespace
}  // namespace tutti::parallel
