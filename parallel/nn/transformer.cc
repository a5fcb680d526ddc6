#include "parallel/nn/transformer.h"

namespace tutti::parallel {

Mlp::Mlp(const BlockOptions& o)
    : up_({.maps = {{o.name + ".mlp.up", 4 * o.width}},
           .points = kMlpPoints,
           .unit = o.unit,
           .inputs = o.width,
           .deviation = o.deviation,
           .sequenceParallel = o.sequenceParallel}),
      down_({.name = o.name + ".mlp.down",
             .points = kMlpPoints,
             .unit = o.unit,
             .inputs = 4 * o.width,
             .outputs = o.width,
             .deviation = o.residualDeviation,
             .sequenceParallel = o.sequenceParallel}) {}

ExpertsOptions expertsOf(const BlockOptions& o) {
  return {.name = o.name,
          .unit = o.unit,
          .width = o.width,
          .inner = 4 * o.width,
          .deviation = o.deviation,
          .residualDeviation = o.residualDeviation,
          .sequenceParallel = o.sequenceParallel,
          .points = kMlpPoints,
          .experts = o.experts,
          .number = o.expertNumber};
}

void Mlp::declare(ParameterStore& store) {
  up_.declare(store);
  down_.declare(store);
}

Tensor Mlp::forward(ParallelContext& context, const Tensor& x, Saved& saved) {
  const Tensor inner = up_.forward(context, x, saved);
  const Tensor active = saved.untilWeights.allocate(inner.type, inner.shape);
  context.kernels.gelu(inner, active);
  saved.push(inner);
  return down_.forward(context, active, saved);
}

Tensor Mlp::backward(ParallelContext& context, const Tensor& dy, Saved& saved) {
  const Tensor dInner = down_.backward(context, dy, saved);
  context.kernels.geluBackward(dInner, saved.pop(), dInner);
  return up_.backward(context, dInner, saved);
}

Attention::Attention(const AttentionOptions& o)
    : heads_(o.heads),
      kvHeads_(o.kvHeads),
      recompute_(o.recompute),
      qkv_({.maps = {{o.name + ".attention.query", o.width},
                     {o.name + ".attention.key", o.width / o.heads * o.kvHeads, {Axis::Tensor}},
                     {o.name + ".attention.value", o.width / o.heads * o.kvHeads, {Axis::Tensor}}},
            .points = kAttentionPoints,
            .unit = o.unit,
            .inputs = o.width,
            .deviation = o.deviation,
            .bias = o.bias,
            .sequenceParallel = o.sequenceParallel}),
      project_({.name = o.name + ".attention.project",
                .points = kAttentionPoints,
                .unit = o.unit,
                .inputs = o.width,
                .outputs = o.width,
                .deviation = o.residualDeviation,
                .bias = o.bias,
                .sequenceParallel = o.sequenceParallel}) {}

void Attention::declare(ParameterStore& store) {
  requireHeadsFit(store.mesh(), heads_, kvHeads_);
  qkv_.declare(store);
  project_.declare(store);
}

/// Its result in `outs`, what backward needs besides in `sums`.
Attention::Result Attention::attend(ParallelContext& context, const Tensor& qkv, Arena& outs,
                                    Arena& sums) const {
  const int64_t heads = heads_ / context.tensor.ranks();
  const int64_t kvHeads = kvHeads_ / context.mesh.extent(Axis::Tensor);
  const int64_t batch = qkv.shape[0], length = qkv.shape[1];
  const int64_t width = qkv.shape[2] / (heads + 2 * kvHeads) * heads;
  const Result result{outs.allocate(qkv.type, {batch, length, width}),
                      sums.allocate(statisticsType(qkv.type), {batch, heads, length})};
  context.kernels.attention({qkv, result.out, result.logSumExp, heads, kvHeads}, context.scratch);
  return result;
}

Tensor Attention::forward(ParallelContext& context, const Tensor& x, Saved& saved) {
  const int64_t batch = saved.tokens[0], length = saved.tokens[1];
  const Tensor rows = qkv_.forward(context, x, saved);
  const Tensor qkv = rows.view({batch, length, rows.shape[1]});
  turn(context, qkv, heads_ / context.tensor.ranks() + kvHeads_ / context.mesh.extent(Axis::Tensor),
       false);
  saved.push(qkv);
  if (recompute_) {
    const ArenaScope scope(context.scratch);
    const Result result = attend(context, qkv, context.scratch, context.scratch);
    const Tensor y = project_.forward(context, result.out.matrix(), saved);
    saved.pop();  // its input
    return y;
  }
  const Result result = attend(context, qkv, saved.untilWeights, saved.untilBackward);
  saved.push(result.out);
  saved.push(result.logSumExp);
  return project_.forward(context, result.out.matrix(), saved);
}

Tensor Attention::backward(ParallelContext& context, const Tensor& dy, Saved& saved) {
  if (recompute_) {
    const Tensor kept = saved.pop();
    const Result again = attend(context, kept, saved.untilWeights, saved.untilBackward);
    for (const Tensor& tensor : {kept, again.out, again.logSumExp, again.out.matrix()})
      saved.push(tensor);
  }
  const Tensor dOut = project_.backward(context, dy, saved);
  const Tensor logSumExp = saved.pop(), out = saved.pop(), qkv = saved.pop();
  const int64_t heads = heads_ / context.tensor.ranks();
  const int64_t kvHeads = kvHeads_ / context.mesh.extent(Axis::Tensor);
  const Tensor dQkv = saved.untilWeights.allocate(qkv.type, qkv.shape);
  context.kernels.attentionBackward(
      {dOut.view(out.shape), qkv, out, logSumExp, dQkv, heads, kvHeads}, context.scratch);
  turn(context, dQkv, heads + kvHeads, true);
  return qkv_.backward(context, dQkv.matrix(), saved);
}

namespace {

NormOptions normOptions(const BlockOptions& o, const char* name) {
  return {.name = o.name + name,
          .unit = o.unit,
          .width = o.width,
          .sequenceParallel = o.sequenceParallel};
}

std::unique_ptr<Module> mlpOf(const BlockOptions& o) {
  if (o.experts.count == 0) return std::make_unique<Mlp>(o);
  return std::make_unique<Experts>(expertsOf(o));
}

}  // namespace

GptBlock::GptBlock(const BlockOptions& o)
    : Block({.beforeAttention = std::make_unique<LayerNorm>(normOptions(o, ".beforeAttention")),
             .attention = std::make_unique<Attention>(
                 AttentionOptions{.name = o.name,
                                  .unit = o.unit,
                                  .width = o.width,
                                  .heads = o.heads,
                                  .kvHeads = o.heads,
                                  .deviation = o.deviation,
                                  .residualDeviation = o.residualDeviation,
                                  .sequenceParallel = o.sequenceParallel,
                                  .recompute = o.recomputeAttention}),
             .beforeMlp = std::make_unique<LayerNorm>(normOptions(o, ".beforeMlp")),
             .mlp = mlpOf(o)}) {}

void Block::declare(ParameterStore& store) {
  parts_.beforeAttention->declare(store);
  parts_.attention->declare(store);
  parts_.beforeMlp->declare(store);
  parts_.mlp->declare(store);
}

Tensor Block::forward(ParallelContext& context, const Tensor& x, Saved& saved) {
  const Tensor middle =
      parts_.attention->forward(context, parts_.beforeAttention->forward(context, x, saved), saved);
  context.kernels.add(x, middle);
  const Tensor y =
      parts_.mlp->forward(context, parts_.beforeMlp->forward(context, middle, saved), saved);
  context.kernels.add(middle, y);
  return y;
}

Tensor Block::backward(ParallelContext& context, const Tensor& dy, Saved& saved) {
  const Tensor dMiddle =
      parts_.beforeMlp->backward(context, parts_.mlp->backward(context, dy, saved), dy, saved);
  return parts_.beforeAttention->backward(
      context, parts_.attention->backward(context, dMiddle, saved), dMiddle, saved);
}

}  // namespace tutti::parallel
