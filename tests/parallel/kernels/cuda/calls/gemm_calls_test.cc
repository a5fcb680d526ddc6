// Products of a GPU by the reference kernels against the host's.

#include "tests/parallel/kernels/cuda/compared.h"

namespace tutti::parallel {
namespace {

class CudaGemm : public Compared {};
INSTANTIATE_TEST_SUITE_P(Types, CudaGemm, allTypes, nameOfTypes);

struct Product {
  int64_t rows, columns, depth;
};

// One tile and several, whole and ragged, in all arrangements, added or not, of rows with gaps. Of
// numbers of a grid no sum has an error.
TEST_P(CudaGemm, Gemm) {
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
TEST_P(CudaGemm, GemmOfAnyNumbers) {
  const Operand a = random({20, 50}, elements()), b = random({50, 9}, elements());
  const Operand c = result({20, 9}, kept());
  both([&](const Side& side) { side.kernels.gemm({.a = side(a), .b = side(b), .c = side(c)}); });
  expectNear(c, 50.0 * 50 * 16, "gemm");
}

// Sums of 10 such products err by 11 roundings of 10 * 4^2 at most, and are multiplied by gates,
// slopes and numbers that are below 5 together.
TEST_P(CudaGemm, GemmWithEpilogues) {
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

}  // namespace
}  // namespace tutti::parallel
