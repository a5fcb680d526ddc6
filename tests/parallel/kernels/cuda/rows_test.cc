// Products, copies, sums, norms, activations and optimizers of a GPU against the host's.

#include "tests/parallel/kernels/cuda/compared.h"

namespace tutti::parallel {
namespace {

class CudaRows : public Compared {};
INSTANTIATE_TEST_SUITE_P(Types, CudaRows, allTypes, nameOfTypes);

struct Product {
  int64_t rows, columns, depth;
};

// One tile and several, whole and ragged, in all arrangements, added or not, of rows with gaps. Of
// numbers of a grid no sum has an error.
TEST_P(CudaRows, Gemm) {
  for (const Product& p : {Product{1, 1, 1}, Product{64, 64, 16}, Product{67, 5, 35},
                           Product{3, 130, 18}, Product{2, 3, 0}})
    for (int arrangement = 0; arrangement < 8; ++arrangement) {
      const bool a = (arrangement & 1) != 0, b = (arrangement & 2) != 0;
      const Operand left =
          grid(a ? Shape{p.depth, p.rows + 2} : Shape{p.rows, p.depth + 2}, elements())
              .columns(1, a ? p.rows : p.depth);
      const Operand right =
          grid(b ? Shape{p.columns, p.depth + 3} : Shape{p.depth, p.columns + 3}, elements())
              .columns(2, b ? p.depth : p.columns);
      const Operand whole = grid({p.rows, p.columns + 2}, kept());
      const Operand product = whole.columns(1, p.columns);
      both([&](const Side& side) {
        side.kernels.gemm({.a = side(left),
                           .b = side(right),
                           .c = side(product),
                           .transposeA = a,
                           .transposeB = b,
                           .beta = (arrangement & 4) != 0 ? 1.0 : 0.0});
      });
      expectExact(whole, "gemm");  // the columns beside it, too
    }
}

// Sums of 50 products: each of 50 additions and products errs by one rounding of at most the sum of
// sizes, which is below 50 * 4^2.
TEST_P(CudaRows, GemmOfAnyNumbers) {
  const Operand a = random({20, 50}, elements()), b = random({50, 9}, elements());
  const Operand c = result({20, 9}, kept());
  both([&](const Side& side) { side.kernels.gemm({.a = side(a), .b = side(b), .c = side(c)}); });
  expectNear(c, 50.0 * 50 * 16, "gemm");
}

// Sums of 10 such products err by 11 roundings of 10 * 4^2 at most, and are multiplied by gates,
// slopes and numbers that are below 5 together.
TEST_P(CudaRows, GemmWithEpilogues) {
  for (const Activation activation : {Activation::None, Activation::Gelu, Activation::GeluBackward,
                                      Activation::SwiGlu, Activation::SwiGluBackward})
    for (const double beta : {0.0, 1.0}) {
      const int64_t columns = activation == Activation::SwiGluBackward ? 18 : 9;
      const Operand a = random({20, 10}, elements()), b = random({10, 9}, elements());
      const Operand bias = random({9}, kept()), residual = random({20, columns}, elements());
      const Operand c = beta == 0 ? result({20, columns}, kept()) : random({20, columns}, kept());
      const Operand inner =
          activation == Activation::Gelu
              ? result({20, 9}, elements())
              : random({20, activation >= Activation::SwiGlu ? 18 : 9}, elements());
      both([&](const Side& side) {
        side.kernels.gemm(
            {.a = side(a),
             .b = side(b),
             .c = side(c),
             .beta = beta,
             .epilogue = {.activation = activation,
                          .inner = activation == Activation::None ? Tensor{} : side(inner),
                          .bias = side(bias),
                          .residual = side(residual),
                          .scale = 0.5}});
      });
      expectNear(c, 11 * 160 * 5, "c");
      expectNear(inner, 11 * 160, "inner");
    }
}

TEST_P(CudaRows, CopiesAndSums) {
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

// More than a table has, that begin and end anywhere; rows with gaps, another type, and nothing.
TEST_P(CudaRows, CopiesMany) {
  std::vector<Operand> from, to;
  for (int64_t i = 0; i < 150; ++i) {
    const int64_t count = i * i % 83 + (i == 77 ? 5000 : 0), first = i % 5 == 0 ? i % 3 : 0;
    from.push_back(random({count + first}, kept()).columns(first, count));
    to.push_back(result({count + first}, elements()).columns(first, count));
  }
  from.push_back(random({4, 9}, kept()).columns(1, 6));
  to.push_back(result({4, 6}, elements()));
  from.push_back(random({40}, elements()));
  to.push_back(result({40}, kept()));
  both([&](const Side& side) {
    std::vector<TensorCopy> all;
    for (size_t i = 0; i < from.size(); ++i) all.push_back({side(from[i]), side(to[i])});
    side.kernels.copyAll(all);
    side.kernels.copyAll({});
  });
  for (size_t i = 0; i < to.size(); ++i) expectExact(to[i], ("copy " + std::to_string(i)).c_str());
}

// A block's threads have some columns and no column; the sums of a row of 300 err by as many
// roundings of a sum of sizes that is 300 times an element's, at most 4.
TEST_P(CudaRows, LayerNorm) {
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

TEST_P(CudaRows, LayerNormGradients) {
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
TEST_P(CudaRows, SumsOverManyRows) {
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

TEST_P(CudaRows, RmsNorm) {
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

// In float64 exp errs by 3 roundings of its own and by its argument's, of which there are 5 of at
// most 17; see leaves_test.cc. In float32 it errs by 4 and its argument by two more, which are 123;
// but of these a sigmoid s gets s (1 - s), a quarter at most, and by its quotient 5. Far from zero
// nothing overflows.
TEST_P(CudaRows, Activations) {
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

TEST_P(CudaRows, Rotary) {
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

// Weights and gradients of one type, and what is kept of another. A step is at most the rate times
// 10, the quotient of a mean and a root that each err by some roundings.
TEST_P(CudaRows, Optimizers) {
  const Shape shape{3, 100};
  const Operand weight = random(shape, kept()), gradient = random(shape, elements());
  const Operand first = random(shape, kept()),
                second = of(std::vector<double>(300, 0.5), shape, kept());
  const Operand reference = rounded(weight, kept()), slow = rounded(weight, kept());
  const Operand velocity = random(shape, kept());
  both([&](const Side& side) {
    const AdamWTensors moments{.weight = side(weight),
                               .gradient = side(gradient),
                               .first = side(first),
                               .second = side(second),
                               .weightDecay = 0.25};
    side.kernels.adamW({.tensors = {&moments, 1},
                        .gradientScale = 0.5,
                        .learningRate = 0.125,
                        .correction1 = 0.5,
                        .correction2 = 0.75});
    const SgdTensors both[] = {{.weight = side(reference),
                                .gradient = side(gradient),
                                .velocity = {},
                                .weightDecay = 0.25},
                               {.weight = side(slow),
                                .gradient = side(gradient),
                                .velocity = side(velocity),
                                .weightDecay = 0.25}};
    side.kernels.sgd(
        {.tensors = both, .gradientScale = 0.5, .learningRate = 0.125, .momentum = 0.75});
  });
  for (const Operand& result : {weight, first, second, reference, slow, velocity})
    expectNear(result, 100, "optimizer");
}

}  // namespace
}  // namespace tutti::parallel
