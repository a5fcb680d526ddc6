#include "parallel/nn/transformer.h"

#include "parallel/nn/ring_attention.h"

namespace tutti::parallel {

Mlp::Mlp(const BlockOptions& o)
    : up_({.maps = {{o.name + ".mlp.up", 4 * o.width}},
           .purposes = kMlpPurposes,
           .unit = o.unit,
           .inputs = o.width,
           .deviation = o.deviation,
           .sequenceParallel = o.sequenceParallel,
           .owner = o.mlpOwner}),
      down_({.name = o.name + ".mlp.down",
             .purposes = kMlpPurposes,
             .unit = o.unit,
             .inputs = 4 * o.width,
             .outputs = o.width,
             .deviation = o.residualDeviation,
             .sequenceParallel = o.sequenceParallel,
             .owner = o.mlpOwner}) {}

ExpertsOptions expertsOf(const BlockOptions& o) {
  return {.name = o.name,
          .unit = o.unit,
          .width = o.width,
          .inner = 4 * o.width,
          .deviation = o.deviation,
          .residualDeviation = o.residualDeviation,
          .sequenceParallel = o.sequenceParallel,
          .purposes = kMlpPurposes,
          .experts = o.experts,
          .number = o.expertNumber};
}

void Mlp::declare(ParameterStore& store) {
  up_.declare(store);
  down_.declare(store);
}

Tensor Mlp::forward(ParallelContext& context, const Tensor& x, const Tensor& residual,
                    ActivationStash& stash) {
  const Tensor active = up_.forward(context, x, stash, Activation::Gelu);
  return down_.forward(context, active, residual, stash);
}

Tensor Mlp::backward(ParallelContext& context, const Tensor& dy, ActivationStash& stash) {
  const Tensor dInner = down_.backward(context, dy, stash, Activation::GeluBackward);
  return up_.backward(context, dInner, stash);
}

Attention::Attention(const AttentionOptions& o)
    : unit_(o.unit),
      heads_(o.heads),
      kvHeads_(o.kvHeads),
      recompute_(o.recompute),
      whole_(o.owner >= 0),
      context_(o.context),
      qkv_({.maps = {{o.name + ".attention.query", o.width},
                     {o.name + ".attention.key", o.width / o.heads * o.kvHeads, {Axis::Tensor}},
                     {o.name + ".attention.value", o.width / o.heads * o.kvHeads, {Axis::Tensor}}},
            .purposes = kAttentionPurposes,
            .unit = o.unit,
            .inputs = o.width,
            .deviation = o.deviation,
            .bias = o.bias,
            .sequenceParallel = o.sequenceParallel,
            .owner = o.owner}),
      project_({.name = o.name + ".attention.project",
                .purposes = kAttentionPurposes,
                .unit = o.unit,
                .inputs = o.width,
                .outputs = o.width,
                .deviation = o.residualDeviation,
                .bias = o.bias,
                .sequenceParallel = o.sequenceParallel,
                .owner = o.owner}) {}

void Attention::declare(ParameterStore& store) {
  const MeshShape& mesh = store.mesh();
  if (!whole_) requireHeadsFit(mesh, heads_, kvHeads_);
  if (context_ == ContextAttention::Heads)
    requireHeadsShared(mesh[Axis::Context], heads_ / (whole_ ? 1 : mesh.ranks(kTensorAxes)),
                       kvHeads_ / (whole_ ? 1 : mesh[Axis::Tensor]));
  qkv_.declare(store);
  project_.declare(store);
}

/// The heads that this rank computes queries, keys and values of.
Attention::Part Attention::layerPart(const ParallelContext& context) const {
  return {heads_ / context.tensor.ranks(), kvHeads_ / context.tensor.keyParts()};
}

bool Attention::exchanges(const ParallelContext& context) const {
  return context_ == ContextAttention::Heads && context.sequences.cuts();
}

HeadExchange Attention::exchange(ParallelContext& context, const ActivationStash& stash) const {
  const Part part = layerPart(context);
  return {context, part.heads, part.kvHeads, stash.length};
}

/// The heads that it computes attention of.
Attention::Part Attention::ownPart(ParallelContext& context, const ActivationStash& stash) const {
  if (!exchanges(context)) return layerPart(context);
  const HeadExchange heads = exchange(context, stash);
  return {heads.heads(), heads.kvHeads()};
}

/// `qkv` is of these heads, of all positions where they were
/// exchanged for others. The result is in `outs`, what backward needs besides in `sums`.
Attention::Result Attention::attend(ParallelContext& context, const Tensor& qkv,
                                    const ActivationStash& stash, Arena& outs, Arena& sums) const {
  const Part part = ownPart(context, stash);
  const int64_t batch = qkv.shape[0], length = qkv.shape[1];
  const int64_t width = qkv.shape[2] / (part.heads + 2 * part.kvHeads) * part.heads;
  const Result result{outs.allocate(qkv.type, {batch, length, width}),
                      sums.allocate(statisticsType(qkv.type), {batch, part.heads, length})};
  const AttentionArgs args{qkv, result.out, result.logSumExp, part.heads, part.kvHeads};
  if (context.sequences.cuts() && !exchanges(context))
    ringAttention(context, args, stash.length);
  else
    context.kernels.attention(args, context.scratch);
  return result;
}

/// What attention gives, as rows of this rank's positions.
Tensor Attention::ownRows(ParallelContext& context, const Tensor& out, const ActivationStash& stash,
                          Arena& memory) const {
  return exchanges(context) ? exchange(context, stash).results(out, memory).matrix() : out.matrix();
}

/// Queries, keys and values, turned, and the heads of them that attention is computed of.
Tensor Attention::inputs(ParallelContext& context, const Tensor& x, ActivationStash& stash) {
  const Arena::Mark before = stash.untilWeights.mark();
  const Tensor rows = qkv_.forward(context, x, stash);
  const Tensor qkv = rows.view({stash.tokens[0], stash.tokens[1], rows.shape[1]});
  const Part part = layerPart(context);
  turn(context, qkv, positionsOf(context, stash), part.heads + part.kvHeads, false);
  if (!exchanges(context)) return qkv;
  const ArenaScope scope(context.scratch);
  const Tensor heads = exchange(context, stash).inputs(qkv, context.scratch);
  return stash.untilWeights.retain(before, heads);  // in the place of the rows
}

Tensor Attention::forward(ParallelContext& context, const Tensor& x, const Tensor& residual,
                          ActivationStash& stash) {
  const Tensor qkv = inputs(context, x, stash);
  if (stash.before != nullptr) return goOn(context, qkv, residual, stash);
  stash.push(qkv);
  if (recompute_) {
    const ArenaScope scope(context.scratch);
    const Result result = attend(context, qkv, stash, context.scratch, context.scratch);
    const Tensor y = project_.forward(context, ownRows(context, result.out, stash, context.scratch),
                                      residual, stash);
    stash.pop();  // its input
    return y;
  }
  const Result result = attend(context, qkv, stash, stash.untilWeights, stash.untilBackward);
  stash.push(result.out);
  stash.push(result.logSumExp);
  return project_.forward(context, ownRows(context, result.out, stash, stash.untilWeights),
                          residual, stash);
}

/// Of tokens behind others, whose keys and values are kept, and these with them.
Tensor Attention::goOn(ParallelContext& context, const Tensor& qkv, const Tensor& residual,
                       ActivationStash& stash) {
  const Part part = layerPart(context);
  const int64_t headWidth = qkv.shape[2] / (part.heads + 2 * part.kvHeads);
  const int64_t width = part.heads * headWidth, kvWidth = part.kvHeads * headWidth;
  const int64_t first = stash.before->seen(), count = qkv.shape[1];
  const Tensor all = stash.before->extend(context.kernels, unit_, qkv.part(2, width, 2 * kvWidth));
  const Tensor out = stash.untilWeights.allocate(qkv.type, {1, count, width});
  const ArenaScope scope(context.scratch);
  context.kernels.attentionBlock(
      {.query = qkv.part(2, 0, width),
       .key = all.part(2, 0, kvWidth),
       .value = all.part(2, kvWidth, kvWidth),
       .out = out,
       .logSumExp = context.scratch.allocate(statisticsType(qkv.type), {1, part.heads, count}),
       .heads = part.heads,
       .kvHeads = part.kvHeads,
       .firstQuery = first},
      context.scratch);
  return project_.forward(context, out.matrix(), residual, stash);
}

Tensor Attention::backward(ParallelContext& context, const Tensor& dy, ActivationStash& stash) {
  if (recompute_) {
    const Tensor kept = stash.pop();
    const Result again = attend(context, kept, stash, stash.untilWeights, stash.untilBackward);
    for (const Tensor& tensor :
         {kept, again.out, again.logSumExp, ownRows(context, again.out, stash, stash.untilWeights)})
      stash.push(tensor);
  }
  const Tensor dOut = project_.backward(context, dy, stash);
  const Tensor dQkv = inputGradients(context, dOut, stash);
  const Part part = layerPart(context);
  turn(context, dQkv, positionsOf(context, stash), part.heads + part.kvHeads, true);
  return qkv_.backward(context, dQkv.matrix(), stash);
}

/// Of queries, keys and values of this rank's positions.
Tensor Attention::inputGradients(ParallelContext& context, const Tensor& dOut,
                                 ActivationStash& stash) {
  const Tensor logSumExp = stash.pop(), out = stash.pop(), qkv = stash.pop();
  const Part part = ownPart(context, stash);
  AttentionBackwardArgs args{{}, qkv, out, logSumExp, {}, part.heads, part.kvHeads};
  if (exchanges(context)) {
    const ArenaScope scope(context.scratch);
    HeadExchange heads = exchange(context, stash);
    args.dOut = heads.resultGradients(dOut.view({stash.tokens[0], stash.tokens[1], dOut.shape[1]}),
                                      context.scratch);
    args.dQkv = context.scratch.allocate(qkv.type, qkv.shape);
    context.kernels.attentionBackward(args, context.scratch);
    return heads.inputGradients(args.dQkv, stash.untilWeights);
  }
  args.dOut = dOut.view(out.shape);
  args.dQkv = stash.untilWeights.allocate(qkv.type, qkv.shape);
  if (context.sequences.cuts())
    ringAttentionBackward(context, args, stash.length);
  else
    context.kernels.attentionBackward(args, context.scratch);
  return args.dQkv;
}

namespace {

std::unique_ptr<Norm> layerNorm(const BlockOptions& o, const char* name, int owner) {
  return std::make_unique<LayerNorm>(NormOptions{.name = o.name + name,
                                                 .unit = o.unit,
                                                 .width = o.width,
                                                 .sequenceParallel = o.sequenceParallel,
                                                 .owner = owner});
}

std::unique_ptr<Branch> mlpOf(const BlockOptions& o) {
  if (o.experts.count == 0) return std::make_unique<Mlp>(o);
  return std::make_unique<Experts>(expertsOf(o));
}

}  // namespace

TransformerBlock::Parts gptParts(const BlockOptions& o) {
  return {.beforeAttention = layerNorm(o, ".beforeAttention", o.attentionOwner),
          .attention =
              std::make_unique<Attention>(AttentionOptions{.name = o.name,
                                                           .unit = o.unit,
                                                           .width = o.width,
                                                           .heads = o.heads,
                                                           .kvHeads = o.heads,
                                                           .deviation = o.deviation,
                                                           .residualDeviation = o.residualDeviation,
                                                           .sequenceParallel = o.sequenceParallel,
                                                           .recompute = o.recomputeAttention,
                                                           .context = o.contextAttention,
                                                           .owner = o.attentionOwner}),
          .beforeMlp = layerNorm(o, ".beforeMlp", o.mlpOwner),
          .mlp = mlpOf(o)};
}

GptBlock::GptBlock(const BlockOptions& o) : TransformerBlock(gptParts(o)) {}

void TransformerBlock::declare(ParameterStore& store) {
  parts_.beforeAttention->declare(store);
  parts_.attention->declare(store);
  parts_.beforeMlp->declare(store);
  parts_.mlp->declare(store);
}

/// What goes around attention is added by its last product; where ranks add up what that gives, by
/// the norm that reads the sum.
Tensor TransformerBlock::forward(ParallelContext& context, const Tensor& x,
                                 ActivationStash& stash) {
  const bool isWhole = context.tensor.ranks() == 1;
  const Tensor middle = parts_.attention->forward(
      context, parts_.beforeAttention->forward(context, x, stash), isWhole ? x : Tensor{}, stash);
  const Tensor normal = parts_.beforeMlp->forward(context, middle, isWhole ? Tensor{} : x, stash);
  return parts_.mlp->forward(context, normal, middle, stash);
}

Tensor TransformerBlock::backward(ParallelContext& context, const Tensor& dy,
                                  ActivationStash& stash) {
  const Tensor dMiddle =
      parts_.beforeMlp->backward(context, parts_.mlp->backward(context, dy, stash), dy, stash);
  return parts_.beforeAttention->backward(
      context, parts_.attention->backward(context, dMiddle, stash), dMiddle, stash);
}

}  // namespace tutti::parallel
