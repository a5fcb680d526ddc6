// Backward of Experts. Of what an expert made of a row r with weight w, the gradient is w dy; of w
// it is the product of dy and that, which forward has kept, so that w may be as small as it likes.

#include <algorithm>

#include "parallel/nn/expert_maps.h"
#include "parallel/nn/experts.h"

namespace tutti::parallel {

Experts::Kept Experts::takeKept(ActivationStash& stash) {
  Kept k;
  for (Tensor* tensor : {&k.results, &k.active, &k.inner, &k.rows, &k.counts, &k.places, &k.choices,
                         &k.weights, &k.chosen, &k.logSumExp, &k.probabilities, &k.x})
    *tensor = stash.pop();
  return k;
}

/// Of all tokens, whose y has the gradient `dy`. Each rank of tensor parallelism has a summand of
/// what experts made of them.
Tensor Experts::dLogits(ParallelContext& context, const Tensor& dy, const Kept& kept,
                        ActivationStash& stash) {
  ExpertParallel& experts = context.experts;
  const Tensor result =
      stash.untilWeights.allocate(kept.probabilities.type, kept.probabilities.shape);
  const ArenaScope scope(context.scratch);
  const Tensor dots = context.scratch.allocate(kept.weights.type, kept.weights.shape);
  context.kernels.rowDots({.x = dy, .y = kept.results, .places = kept.places, .dots = dots});
  const RouterLosses losses = context.kernels.routerGradient(
      {.dWeights =
           context.tensor.addUp(Purpose::ExpertWeightGradientSum, dots, false, context.scratch),
       .probabilities = kept.probabilities,
       .logSumExp = kept.logSumExp,
       .chosen = kept.chosen,
       .weights = kept.weights,
       .choices = kept.choices,
       .dLogits = result,
       .length = stash.length,
       .normalized = o_.experts.normalized,
       .balance = o_.experts.auxLoss * experts.perSequence,
       .z = o_.experts.zLoss * experts.perSequence});
  experts.tally.balance += losses.balance;
  experts.tally.z += losses.z;
  experts.tally.choices += static_cast<double>(kept.chosen.count());
  return result;
}

/// Gradient of what the activation was given.
Tensor Experts::dInner(ParallelContext& context, const ExpertTraffic& traffic,
                       const Tensor& dResults, const Kept& kept, ActivationStash& stash) {
  const Tensor result = allocateRows(stash.untilWeights, dResults.type, traffic.receivedRoom,
                                     traffic.receivedRows, kept.inner.shape[1]);
  multiply(
      context.kernels, traffic,
      {.a = dResults,
       .weight = context.store.weight(down_.weight),
       .c = result,
       .back = true,
       .epilogue = {.activation = o_.gated ? Activation::SwiGluBackward : Activation::GeluBackward,
                    .inner = kept.inner}});
  return result;
}

Tensor Experts::backward(ParallelContext& context, const Tensor& dy, ActivationStash& stash) {
  Arena& scratch = context.scratch;
  Kernels& kernels = context.kernels;
  const Kept kept = takeKept(stash);
  const int64_t tokens = stash.tokens.count();
  const ArenaScope scope(scratch);
  const Tensor all =
      context.tensor.allRows(purposes_.gradientRows, dy, tokens, o_.sequenceParallel, scratch);
  ExpertTraffic traffic =
      context.experts.trafficOf(kept.counts, kept.results.shape[0], kept.rows.shape[0]);
  takeRoom(traffic, stash, context.experts.ranks());
  const Tensor dLogitRows = dLogits(context, all, kept, stash);
  count(context, kept.counts);
  const Tensor sent = allocateRows(context.experts.arenaOfSent(stash.untilWeights, scratch),
                                   dy.type, traffic.sentRoom, traffic.sentRows, o_.width);
  kernels.spreadRows({.x = all, .places = kept.places, .weights = kept.weights, .y = sent});
  const Tensor dResults = context.experts.toExperts(Purpose::ExpertResultGradients, kernels,
                                                    traffic, sent, stash.untilWeights, scratch);
  const Tensor dInnerRows = dInner(context, traffic, dResults, kept, stash);
  appendWork(kept, dResults, dInnerRows, dLogitRows, traffic.sentRows, stash);
  return dInput(context, traffic, dInnerRows, dLogitRows, kept, stash);
}

/// By way of the experts, in which each rank of tensor parallelism has a summand, and of the
/// router.
Tensor Experts::dInput(ParallelContext& context, const ExpertTraffic& traffic,
                       const Tensor& dInnerRows, const Tensor& dLogitRows, const Kept& kept,
                       ActivationStash& stash) {
  Arena& scratch = context.scratch;
  const auto maps = static_cast<int64_t>(ups_.size());
  const int64_t inner = dInnerRows.shape[1] / maps, tokens = stash.tokens.count();
  const Tensor dRows =
      allocateRows(scratch, dInnerRows.type, traffic.receivedRoom, traffic.receivedRows, o_.width);
  for (int64_t m = 0; m < maps; ++m)
    multiply(context.kernels, traffic,
             {.a = dInnerRows.part(1, m * inner, inner),
              .weight = context.store.weight(ups_[static_cast<size_t>(m)].weight),
              .c = dRows,
              .back = true,
              .beta = factor(Purpose::ExpertMapAccumulation, m == 0 ? 0 : 1, 0)});
  const Tensor back = context.experts.fromExperts(Purpose::ExpertTokenGradients, context.kernels,
                                                  traffic, dRows, scratch, scratch);
  Arena& arena = context.tensor.arenaOfSummands(o_.sequenceParallel, stash.untilWeights, scratch);
  const Tensor summands = arena.allocate(back.type, {tokens, o_.width});
  context.kernels.combineRows({.x = back, .places = kept.places, .weights = {}, .y = summands});
  const Tensor dx = context.tensor.addUp(purposes_.gradientSum, summands, o_.sequenceParallel,
                                         stash.untilWeights);
  context.kernels.gemm({.a = ownRows(context, dLogitRows),
                        .b = context.store.weight(router_),
                        .c = dx,
                        .beta = factor(Purpose::RouterAccumulation, 1, 0)});
  return dx;
}

/// Those between branches.
Tensor Experts::ownRows(const ParallelContext& context, const Tensor& all) const {
  if (!context.tensor.cutsRows(o_.sequenceParallel)) return all;
  const Range own = context.tensor.rowsOf(all.shape[0]);
  return all.rows(own.begin, own.count());
}

/// Adds what each expert got of this rank's tokens.
void Experts::count(ParallelContext& context, const Tensor& counts) const {
  RouterTally& tally = context.experts.tally;
  const auto experts = static_cast<size_t>(o_.experts.count);
  const auto block = static_cast<size_t>(o_.number);
  const size_t first = experts * block;
  tally.loads.resize(std::max(tally.loads.size(), first + experts));
  if (context.mesh.dry()) return;
  const std::vector<int32_t> sent = context.experts.countsIn(counts);
  for (size_t e = 0; e < experts; ++e) tally.loads[first + e] += sent[e];
}

void Experts::appendWork(const Kept& kept, const Tensor& dResults, const Tensor& dInnerRows,
                         const Tensor& dLogitRows, int64_t sentRows, ActivationStash& stash) {
  stash.work.push_back({[this, x = kept.active, dResults, counts = kept.counts, sentRows](
                            ParallelContext& c, int microBatch) {
    mapGradients(c, down_, c.experts.trafficOf(counts, sentRows, x.shape[0]), x, dResults,
                 microBatch);
  }});
  stash.work.push_back({[this, x = kept.rows, dInnerRows, counts = kept.counts, sentRows](
                            ParallelContext& c, int microBatch) {
    const ExpertTraffic traffic = c.experts.trafficOf(counts, sentRows, x.shape[0]);
    const auto maps = static_cast<int64_t>(ups_.size());
    const int64_t inner = dInnerRows.shape[1] / maps;
    for (int64_t m = 0; m < maps; ++m)
      mapGradients(c, ups_[static_cast<size_t>(m)], traffic, x,
                   dInnerRows.part(1, m * inner, inner), microBatch);
  }});
  stash.work.push_back({[this, x = kept.x, dLogitRows](ParallelContext& c, int microBatch) {
    const GradientSlot router = c.store.gradient(router_, microBatch);
    c.kernels.gemm({.a = ownRows(c, dLogitRows),
                    .b = x,
                    .c = router.buffer,
                    .transposeA = true,
                    .beta = router.beta});
  }});
}

void Experts::mapGradients(ParallelContext& context, const Map& map, const ExpertTraffic& traffic,
                           const Tensor& x, const Tensor& dy, int microBatch) const {
  const GradientSlot weight = context.store.gradient(map.weight, microBatch);
  forEachExpert(traffic, [&](int64_t e, const Range& rows) {
    context.kernels.gemm({.a = dy.rows(rows.begin, rows.count()),
                          .b = x.rows(rows.begin, rows.count()),
                          .c = ofExpert(weight.buffer, e),
                          .transposeA = true,
                          .beta = weight.beta});
  });
  if (!o_.bias) return;
  const GradientSlot bias = context.store.gradient(map.bias, microBatch);
  forEachExpert(traffic, [&](int64_t e, const Range& rows) {
    context.kernels.biasGradient(dy.rows(rows.begin, rows.count()), ofExpert(bias.buffer, e),
                                 bias.beta);
  });
}

}  // namespace tutti::parallel
