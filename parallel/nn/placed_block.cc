#include "parallel/nn/placed_block.h"

#include <optional>

namespace tutti::parallel {

void ParallelBlock::declare(ParameterStore& store) {
  const int ranks = store.mesh().ranks(kTensorAxes);
  require(!placed_ || ranks <= 2,
          "the two branches of a block can be placed on 1 or 2 ranks of tensor "
          "parallelism, not on ",
          ranks);
  parts_.beforeAttention->declare(store);
  parts_.attention->declare(store);
  parts_.beforeMlp->declare(store);
  parts_.mlp->declare(store);
}

ParallelBlock::Here ParallelBlock::here(const ParallelContext& context) const {
  const bool all = !placed_ || context.tensor.ranks() == 1;
  return {all || context.tensor.rank() == 0, all || context.tensor.rank() == 1};
}

/// The sum of what those that are here give.
Tensor ParallelBlock::branches(ParallelContext& context, const Tensor& x, ActivationStash& stash) {
  const Here has = here(context);
  std::optional<TensorParallel::Alone> alone;
  if (placed_) alone.emplace(context.tensor);
  Tensor sum;
  if (has.attention)
    sum = parts_.attention->forward(context, parts_.beforeAttention->forward(context, x, stash),
                                    stash);
  if (!has.mlp) return sum;
  return parts_.mlp->forward(context, parts_.beforeMlp->forward(context, x, stash), sum, stash);
}

/// The sum of their input gradients.
Tensor ParallelBlock::branchGradients(ParallelContext& context, const Tensor& dy,
                                      ActivationStash& stash) {
  const Here has = here(context);
  std::optional<TensorParallel::Alone> alone;
  if (placed_) alone.emplace(context.tensor);
  Tensor dx;
  if (has.mlp)
    dx = parts_.beforeMlp->backward(context, parts_.mlp->backward(context, dy, stash), stash);
  if (!has.attention) return dx;
  return parts_.beforeAttention->backward(context, parts_.attention->backward(context, dy, stash),
                                          dx, stash);
}

/// Over the ranks that the branches are placed on, and with what goes around them.
Tensor ParallelBlock::addUp(ParallelContext& context, Purpose purpose, const Tensor& own,
                            const Tensor& residual) const {
  // In place: no memory is needed for a sum that is not cut.
  const Tensor sum = placed_ ? context.tensor.addUp(purpose, own, false, context.scratch) : own;
  context.kernels.add(residual, sum);
  return sum;
}

Tensor ParallelBlock::forward(ParallelContext& context, const Tensor& x, ActivationStash& stash) {
  const Tensor own = branches(context, x, stash);
  return addUp(context, Purpose::BranchSum, own, x);
}

Tensor ParallelBlock::backward(ParallelContext& context, const Tensor& dy, ActivationStash& stash) {
  const Tensor own = branchGradients(context, dy, stash);
  return addUp(context, Purpose::BranchGradientSum, own, dy);
}

}  // namespace tutti::parallel
