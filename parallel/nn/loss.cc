#include "parallel/nn/loss.h"

namespace tutti::parallel {

double crossEntropy(ParallelContext& context, const LossArgs& args) {
  const Tensor& logits = args.logits;
  const int64_t tokens = args.labels.count();
  const Layout columns{.dims = {AxisList{}, logits.layout.dims[2]}, .partial = {}};
  const bool cut = !columns.dims[1].empty();
  const Range part =
      boxOf({tokens, args.vocabulary}, columns, context.mesh.shape(), context.mesh.place())[1];
  require(logits.shape.rank() == 3 && logits.shape[2] == part.count(), "logits ", logits,
          " of a vocabulary of ", args.vocabulary, " of which ", part.count(), " are here");
  const ArenaScope scope(context.scratch);
  const Tensor own = context.scratch.allocate(statisticsType(logits.type), {tokens, 3});
  context.kernels.logitStatistics({.logits = logits,
                                   .labels = args.labels,
                                   .statistics = own,
                                   .firstId = part.begin,
                                   .vocabulary = args.vocabulary});
  const Tensor all = cut ? context.tensor.stack(MutationPoint::LossStatistics, own, context.scratch)
                         : own.view({1, own.count()});
  return context.kernels.crossEntropy({.logits = logits,
                                       .labels = args.labels,
                                       .statistics = all.view({all.shape[0], tokens, 3}),
                                       .scale = args.scale,
                                       .gradient = args.gradient,
                                       .firstId = part.begin,
                                       .vocabulary = args.vocabulary});
}

}  // namespace tutti::parallel
