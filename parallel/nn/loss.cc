#include "parallel/nn/loss.h"

namespace tutti::parallel {

double crossEntropy(ParallelContext& context, const LossArgs& args) {
  const Tensor& logits = args.logits;
  const int64_t batch = logits.shape.rank() == 3 ? logits.shape[0] : 1;
  require(batch > 0 && args.labels.count() % batch == 0, args.labels.count(), " labels of ", batch,
          " sequences");
  const ArenaScope scope(context.scratch);
  const Tensor allLabels = context.mesh.onDevice(args.labels, context.scratch);
  const Tensor ownLabels = context.sequences.cut(
      context.kernels, allLabels.view({batch, args.labels.count() / batch}), context.scratch);
  const int64_t tokens = ownLabels.count();
  const Tensor labels = ownLabels.view({tokens});
  const Layout columns{.dims = {AxisList{}, logits.layout.dims[2]}, .partial = {}};
  const bool cut = !columns.dims[1].empty();
  const Range part =
      boxOf({tokens, args.vocabulary}, columns, context.mesh.shape(), context.mesh.place())[1];
  require(logits.shape.rank() == 3 && logits.shape[2] == part.count(), "logits ", logits,
          " of a vocabulary of ", args.vocabulary, " of which ", part.count(), " are here");
  CrossEntropyArgs loss{.logits = logits,
                        .labels = labels,
                        .statistics = {},
                        .scale = args.scale,
                        .gradient = args.gradient,
                        .firstId = part.begin,
                        .vocabulary = args.vocabulary};
  if (cut) {
    const Tensor own = context.scratch.allocate(statisticsType(logits.type), {tokens, 3});
    context.kernels.logitStatistics({.logits = logits,
                                     .labels = labels,
                                     .statistics = own,
                                     .firstId = part.begin,
                                     .vocabulary = args.vocabulary});
    const Tensor all = context.tensor.stack(Purpose::LossStatistics, own, context.scratch);
    loss.statistics = all.view({all.shape[0], tokens, 3});
  }
  return context.kernels.crossEntropy(loss);
}

}  // namespace tutti::parallel
