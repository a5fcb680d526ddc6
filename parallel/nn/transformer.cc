#include "parallel/nn/transformer.h"

namespace tutti::parallel {

Mlp::Mlp(const BlockOptions& o)
    : up_({o.name + ".mlp.up", o.unit, o.width, 4 * o.width, o.deviation}),
      down_({o.name + ".mlp.down", o.unit, 4 * o.width, o.width, o.residualDeviation}) {}

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

Attention::Attention(const BlockOptions& o)
    : heads_(o.heads),
      qkv_({o.name + ".attention.qkv", o.unit, o.width, 3 * o.width, o.deviation}),
      project_({o.name + ".attention.project", o.unit, o.width, o.width, o.residualDeviation}) {}

void Attention::declare(ParameterStore& store) {
  qkv_.declare(store);
  project_.declare(store);
}

Tensor Attention::forward(ParallelContext& context, const Tensor& x, Saved& saved) {
  const Tensor qkv = qkv_.forward(context, x, saved);
  const Tensor out = saved.untilWeights.allocate(x.type, x.shape);
  const Tensor logSumExp =
      saved.untilBackward.allocate(statisticsType(x.type), {x.shape[0], heads_, x.shape[1]});
  context.kernels.attention({qkv, out, logSumExp, heads_, heads_}, context.scratch);
  saved.push(qkv);
  saved.push(out);
  saved.push(logSumExp);
  return project_.forward(context, out, saved);
}

Tensor Attention::backward(ParallelContext& context, const Tensor& dy, Saved& saved) {
  const Tensor dOut = project_.backward(context, dy, saved);
  const Tensor logSumExp = saved.pop(), out = saved.pop(), qkv = saved.pop();
  const Tensor dQkv = saved.untilWeights.allocate(qkv.type, qkv.shape);
  context.kernels.attentionBackward({dOut, qkv, out, logSumExp, dQkv, heads_, heads_},
                                    context.scratch);
  return qkv_.backward(context, dQkv, saved);
}

GptBlock::GptBlock(const BlockOptions& o)
    : Block({.beforeAttention = std::make_unique<LayerNorm>(
                 NormOptions{o.name + ".beforeAttention", o.unit, o.width}),
             .attention = std::make_unique<Attention>(o),
             .beforeMlp =
                 std::make_unique<LayerNorm>(NormOptions{o.name + ".beforeMlp", o.unit, o.width}),
             .mlp = std::make_unique<Mlp>(o)}) {}

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
