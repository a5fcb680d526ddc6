// Optimizers and copies of many tensors of a GPU against the host's.

#include "tests/parallel/kernels/cuda/compared.h"

namespace tutti::parallel {
namespace {

class CudaOptimizers : public Compared {};
INSTANTIATE_TEST_SUITE_P(Types, CudaOptimizers, allTypes, nameOfTypes);

// Weights and gradients of one type, and what is kept of another. A step is at most the rate times
// 10, the quotient of a mean and a root that each err by some roundings.
TEST_P(CudaOptimizers, Optimizers) {
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

// More than a table has, that begin and end anywhere; rows with gaps, another type, and nothing.
TEST_P(CudaOptimizers, CopiesMany) {
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

}  // namespace
}  // namespace tutti::parallel
