#include "parallel/nn/experts.h"

#include <algorithm>
#include <cmath>

namespace tutti::parallel {

void check(const ExpertOptions& o, int64_t layers) {
  require(o.count >= 0, "a block cannot have ", o.count, " experts");
  if (o.count == 0) return;
  require(o.perToken > 0 && o.perToken <= o.count, "a token cannot go to ", o.perToken, " of ",
          o.count, " experts");
  require(o.capacityFactor >= 0 && std::isfinite(o.capacityFactor),
          "a capacity is a finite factor above 0, or 0 where there is none, not ",
          o.capacityFactor);
  for (const double loss : {o.auxLoss, o.zLoss})
    require(loss >= 0 && std::isfinite(loss),
            "a router's loss counts by a finite number from 0 on, not by ", loss);
  require(o.every > 0 && o.every <= layers, "of ", layers, " blocks each ", o.every,
          "th cannot have experts");
}

double expertParameters(const ExpertsOptions& o) {
  const int64_t biases = o.bias ? o.inner + o.width : 0;
  return static_cast<double>(o.experts.count) * static_cast<double>(biases) +
         static_cast<double>(o.experts.count) * static_cast<double>(o.width) *
             static_cast<double>((o.gated ? 3 : 2) * o.inner);
}

double routerParameters(const ExpertsOptions& o) {
  return static_cast<double>(o.experts.count) * static_cast<double>(o.width);
}

int64_t expertCost(const ExpertsOptions& o) {
  const int64_t inner = (o.gated ? 3 : 2) * o.inner;
  const int64_t active = o.experts.perToken;
  const int64_t router = o.experts.count;
  return o.width * (router + active * inner);
}

Experts::Experts(const ExpertsOptions& o)
    : o_(o),
      points_(o.points),
      router_{.name = o.name + ".router.weight",
              .global = {o.experts.count, o.width},
              .init = {Init::Normal, o.deviation},
              .gradientPartial = partialOverRows(o.sequenceParallel),
              .unit = o.unit},
      down_(mapOf("down", o.width, o.inner, 2, o.residualDeviation)) {
  if (o.gated) ups_.push_back(mapOf("gate", o.inner, o.width, 1, o.deviation));
  ups_.push_back(mapOf("up", o.inner, o.width, 1, o.deviation));
}

/// Cut over the ranks of tensor parallelism by its outputs (1) or inputs (2).
Experts::Map Experts::mapOf(const char* name, int64_t outputs, int64_t inputs, int cut,
                            double deviation) const {
  Layout layout = cutOverTensor(cut);
  layout.dims[0] = {Axis::Expert};
  Layout ofBias;
  ofBias.dims[0] = {Axis::Expert};
  if (cut == 1) ofBias.dims[1] = layout.dims[1];
  const std::string prefix = o_.name + ".experts." + name;
  return {.weight = {.name = prefix + ".weight",
                     .global = {o_.experts.count, outputs, inputs},
                     .init = {Init::Normal, deviation},
                     .layout = layout,
                     .unit = o_.unit,
                     .perExpert = true},
          .bias = {.name = prefix + ".bias",
                   .global = {o_.experts.count, outputs},
                   .layout = ofBias,
                   .unit = o_.unit,
                   .perExpert = true}};
}

void Experts::declare(ParameterStore& store) {
  requireExpertsFit(store.mesh(), o_.experts.count);
  require(store.mesh()[Axis::Context] == 1,
          "experts do not go with --cp yet: a router needs all of a sequence on one rank");
  store.add(router_);
  for (Map& map : ups_) store.add(map.weight);
  store.add(down_.weight);
  if (!o_.bias) return;
  for (Map& map : ups_) store.add(map.bias);
  store.add(down_.bias);
}

/// Of an expert, in a sequence; 0: there is no limit.
int64_t Experts::capacity(int64_t length) const {
  const ExpertOptions& e = o_.experts;
  if (e.capacityFactor == 0) return 0;
  const double evenShare = static_cast<double>(e.perToken * length) / static_cast<double>(e.count);
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(e.capacityFactor * evenShare)), 1,
                             length);
}

/// Memory for the most rows that a capacity lets through.
void Experts::takeRoom(ExpertTraffic& traffic, const Saved& saved, int ranks) const {
  traffic.sentRoom = traffic.sentRows;
  traffic.receivedRoom = traffic.receivedRows;
  const int64_t each = saved.tokens[0] * capacity(saved.tokens[1]);
  if (each == 0) return;
  const int64_t experts = o_.experts.count;
  const int64_t active = o_.experts.perToken;
  const int64_t wanted = saved.tokens.count() * active;
  const int64_t ofOneRank = std::min(wanted, experts / ranks * each);
  traffic.sentRoom = std::max(traffic.sentRows, std::min(wanted, experts * each));
  traffic.receivedRoom = std::max(traffic.receivedRows, ranks * ofOneRank);
}

ExpertTraffic Experts::route(ParallelContext& context, const Tensor& all, Saved& saved,
                             Kept& kept) const {
  const int64_t tokens = all.shape[0], experts = o_.experts.count, k = o_.experts.perToken;
  const DType type = statisticsType(all.type);
  Arena& arena = saved.untilBackward;
  kept.probabilities = arena.allocate(type, {tokens, experts});
  kept.logSumExp = arena.allocate(type, {tokens});
  kept.chosen = arena.allocate(DType::Int32, {tokens, k});
  kept.weights = arena.allocate(type, {tokens, k});
  kept.choices = arena.allocate(DType::Int32, {saved.tokens[0], experts});
  kept.places = arena.allocate(DType::Int32, {tokens, k});
  kept.counts = saved.untilWeights.allocate(DType::Int32, {2, experts});
  const ArenaScope scope(context.scratch);
  const Tensor logits = context.scratch.allocate(type, {tokens, experts});
  context.kernels.gemm(
      {.a = all, .b = context.store.weight(router_), .c = logits, .transposeB = true});
  context.kernels.route({.logits = logits,
                         .probabilities = kept.probabilities,
                         .logSumExp = kept.logSumExp,
                         .chosen = kept.chosen,
                         .weights = kept.weights,
                         .normalized = o_.experts.normalized});
  std::vector<int64_t> loads(static_cast<size_t>(experts));
  context.kernels.placeTokens({.chosen = kept.chosen,
                               .places = kept.places,
                               .choices = kept.choices,
                               .capacity = capacity(saved.tokens[1]),
                               .loads = loads});
  ExpertTraffic traffic = context.experts.announce(loads, kept.counts);
  takeRoom(traffic, saved, context.experts.ranks());
  return traffic;
}

namespace {

/// Calls visit(this rank's expert, its rows) for each.
template <class Visit>
void forEachExpert(const ExpertTraffic& traffic, const Visit& visit) {
  for (size_t e = 0; e < traffic.experts.size(); ++e)
    visit(static_cast<int64_t>(e), traffic.experts[e]);
}

Tensor ofExpert(const Tensor& stacked, int64_t expert) {
  const Shape& s = stacked.shape;
  return stacked.rows(expert, 1).view(s.rank() == 2 ? Shape{s[1]} : Shape{s[1], s[2]});
}

/// c = a * weight^T, or with `back` a * weight, expert by expert, + beta * c.
void multiply(Kernels& kernels, const ExpertTraffic& traffic, const Tensor& a, const Tensor& weight,
              const Tensor& c, bool back, double beta) {
  forEachExpert(traffic, [&](int64_t e, const Range& rows) {
    kernels.gemm({.a = a.rows(rows.begin, rows.count()),
                  .b = ofExpert(weight, e),
                  .c = c.rows(rows.begin, rows.count()),
                  .transposeB = !back,
                  .beta = beta});
  });
}

void addBiases(Kernels& kernels, const ExpertTraffic& traffic, const Tensor& bias,
               const Tensor& y) {
  forEachExpert(traffic, [&](int64_t e, const Range& rows) {
    kernels.addBias(ofExpert(bias, e), y.rows(rows.begin, rows.count()));
  });
}

}  // namespace

/// The maps that begin an expert's MLP, and what comes behind them.
void Experts::begin(ParallelContext& context, const ExpertTraffic& traffic, Saved& saved,
                    Kept& kept) {
  const auto maps = static_cast<int64_t>(ups_.size());
  const int64_t inner = context.store.weight(down_.weight).shape[2];
  const auto allocate = [&](int64_t width) {
    return allocateRows(saved.untilWeights, kept.rows.type, traffic.receivedRoom,
                        traffic.receivedRows, width);
  };
  kept.inner = allocate(maps * inner);
  kept.active = allocate(inner);
  for (int64_t m = 0; m < maps; ++m) {
    const Map& map = ups_[static_cast<size_t>(m)];
    const Tensor part = kept.inner.part(1, m * inner, inner);
    multiply(context.kernels, traffic, kept.rows, context.store.weight(map.weight), part, false, 0);
    if (o_.bias) addBiases(context.kernels, traffic, context.store.weight(map.bias), part);
  }
  if (o_.gated)
    context.kernels.swiGlu(kept.inner, kept.active);
  else
    context.kernels.gelu(kept.inner, kept.active);
}

/// The map that ends it, and the way back. Of several ranks of tensor parallelism one adds biases.
Tensor Experts::end(ParallelContext& context, const ExpertTraffic& traffic, Saved& saved,
                    const Tensor& active) {
  Arena& arena = context.experts.arenaOfSent(saved.untilBackward, context.scratch);
  const Tensor results =
      allocateRows(arena, active.type, traffic.receivedRoom, traffic.receivedRows, o_.width);
  multiply(context.kernels, traffic, active, context.store.weight(down_.weight), results, false, 0);
  if (o_.bias && context.tensor.rank() == 0)
    addBiases(context.kernels, traffic, context.store.weight(down_.bias), results);
  return context.experts.fromExperts(MutationPoint::ExpertResults, context.kernels, traffic,
                                     results, saved.untilBackward, context.scratch);
}

void Experts::keep(const Kept& k, Saved& saved) {
  for (const Tensor& tensor : {k.x, k.probabilities, k.logSumExp, k.chosen, k.weights, k.choices,
                               k.places, k.counts, k.rows, k.inner, k.active, k.results})
    saved.push(tensor);
}

Experts::Kept Experts::takeKept(Saved& saved) {
  Kept k;
  for (Tensor* tensor : {&k.results, &k.active, &k.inner, &k.rows, &k.counts, &k.places, &k.choices,
                         &k.weights, &k.chosen, &k.logSumExp, &k.probabilities, &k.x})
    *tensor = saved.pop();
  return k;
}

Tensor Experts::forward(ParallelContext& context, const Tensor& x, Saved& saved) {
  Arena& scratch = context.scratch;
  const int64_t tokens = saved.tokens.count();
  Kept kept{.x = x};
  const ArenaScope scope(scratch);
  const Tensor all = context.tensor.allRows(points_.rows, x, tokens, o_.sequenceParallel, scratch);
  const ExpertTraffic traffic = route(context, all, saved, kept);
  const Tensor sent = allocateRows(context.experts.arenaOfSent(saved.untilWeights, scratch), x.type,
                                   traffic.sentRoom, traffic.sentRows, o_.width);
  context.kernels.spreadRows({.x = all, .places = kept.places, .weights = {}, .y = sent});
  kept.rows = context.experts.toExperts(MutationPoint::ExpertTokens, context.kernels, traffic, sent,
                                        saved.untilWeights, scratch);
  begin(context, traffic, saved, kept);
  kept.results = end(context, traffic, saved, kept.active);
  keep(kept, saved);
  Arena& arena = context.tensor.arenaOfSummands(o_.sequenceParallel, saved.untilWeights, scratch);
  const Tensor summands = arena.allocate(x.type, {tokens, o_.width});
  context.kernels.combineRows(
      {.x = kept.results, .places = kept.places, .weights = kept.weights, .y = summands});
  return context.tensor.addUp(points_.sum, summands, o_.sequenceParallel, saved.untilWeights);
}

/// Of all tokens, whose y has the gradient `dy`. Each rank of tensor parallelism has a summand of
/// what experts made of them.
Tensor Experts::dLogits(ParallelContext& context, const Tensor& dy, const Kept& kept,
                        Saved& saved) {
  ExpertParallel& experts = context.experts;
  const Tensor result =
      saved.untilWeights.allocate(kept.probabilities.type, kept.probabilities.shape);
  const ArenaScope scope(context.scratch);
  const Tensor dots = context.scratch.allocate(kept.weights.type, kept.weights.shape);
  context.kernels.rowDots({.x = dy, .y = kept.results, .places = kept.places, .dots = dots});
  const RouterLosses losses = context.kernels.routerGradient(
      {.dWeights = context.tensor.addUp(MutationPoint::ExpertWeightGradientSum, dots, false,
                                        context.scratch),
       .probabilities = kept.probabilities,
       .logSumExp = kept.logSumExp,
       .chosen = kept.chosen,
       .weights = kept.weights,
       .choices = kept.choices,
       .dLogits = result,
       .normalized = o_.experts.normalized,
       .balance = o_.experts.auxLoss * experts.perSequence,
       .z = o_.experts.zLoss * experts.perSequence});
  experts.tally.balance += losses.balance;
  experts.tally.z += losses.z;
  experts.tally.choices += static_cast<double>(kept.chosen.count());
  return result;
}

/// Gradient of what gelu or swiGlu was given.
Tensor Experts::dInner(ParallelContext& context, const ExpertTraffic& traffic,
                       const Tensor& dResults, const Kept& kept, Saved& saved) {
  const auto allocate = [&](int64_t width) {
    return allocateRows(saved.untilWeights, dResults.type, traffic.receivedRoom,
                        traffic.receivedRows, width);
  };
  const Tensor dActive = allocate(kept.active.shape[1]);
  multiply(context.kernels, traffic, dResults, context.store.weight(down_.weight), dActive, true,
           0);
  if (!o_.gated) {
    context.kernels.geluBackward(dActive, kept.inner, dActive);
    return dActive;
  }
  const Tensor result = allocate(kept.inner.shape[1]);
  context.kernels.swiGluBackward(dActive, kept.inner, result);
  return result;
}

Tensor Experts::backward(ParallelContext& context, const Tensor& dy, Saved& saved) {
  Arena& scratch = context.scratch;
  Kernels& kernels = context.kernels;
  const Kept kept = takeKept(saved);
  const int64_t tokens = saved.tokens.count();
  const ArenaScope scope(scratch);
  const Tensor all =
      context.tensor.allRows(points_.gradientRows, dy, tokens, o_.sequenceParallel, scratch);
  ExpertTraffic traffic =
      context.experts.recall(kept.counts, kept.results.shape[0], kept.rows.shape[0]);
  takeRoom(traffic, saved, context.experts.ranks());
  const Tensor dLogitRows = dLogits(context, all, kept, saved);
  count(context.experts.tally, kept.counts, context.mesh.dry());
  const Tensor sent = allocateRows(context.experts.arenaOfSent(saved.untilWeights, scratch),
                                   dy.type, traffic.sentRoom, traffic.sentRows, o_.width);
  kernels.spreadRows({.x = all, .places = kept.places, .weights = kept.weights, .y = sent});
  const Tensor dResults = context.experts.toExperts(MutationPoint::ExpertResultGradients, kernels,
                                                    traffic, sent, saved.untilWeights, scratch);
  const Tensor dInnerRows = dInner(context, traffic, dResults, kept, saved);
  appendWork(kept, dResults, dInnerRows, dLogitRows, traffic.sentRows, saved);
  return dInput(context, traffic, dInnerRows, dLogitRows, kept, saved);
}

/// By way of the experts, in which each rank of tensor parallelism has a summand, and of the
/// router.
Tensor Experts::dInput(ParallelContext& context, const ExpertTraffic& traffic,
                       const Tensor& dInnerRows, const Tensor& dLogitRows, const Kept& kept,
                       Saved& saved) {
  Arena& scratch = context.scratch;
  const auto maps = static_cast<int64_t>(ups_.size());
  const int64_t inner = dInnerRows.shape[1] / maps, tokens = saved.tokens.count();
  const Tensor dRows =
      allocateRows(scratch, dInnerRows.type, traffic.receivedRoom, traffic.receivedRows, o_.width);
  for (int64_t m = 0; m < maps; ++m)
    multiply(context.kernels, traffic, dInnerRows.part(1, m * inner, inner),
             context.store.weight(ups_[static_cast<size_t>(m)].weight), dRows, true,
             factor(MutationPoint::ExpertMapAccumulation, m == 0 ? 0 : 1, 0));
  const Tensor back = context.experts.fromExperts(
      MutationPoint::ExpertTokenGradients, context.kernels, traffic, dRows, scratch, scratch);
  Arena& arena = context.tensor.arenaOfSummands(o_.sequenceParallel, saved.untilWeights, scratch);
  const Tensor summands = arena.allocate(back.type, {tokens, o_.width});
  context.kernels.combineRows({.x = back, .places = kept.places, .weights = {}, .y = summands});
  const Tensor dx =
      context.tensor.addUp(points_.gradientSum, summands, o_.sequenceParallel, saved.untilWeights);
  context.kernels.gemm({.a = ownRows(context, dLogitRows),
                        .b = context.store.weight(router_),
                        .c = dx,
                        .beta = factor(MutationPoint::RouterAccumulation, 1, 0)});
  return dx;
}

/// Those between branches.
Tensor Experts::ownRows(const ParallelContext& context, const Tensor& all) const {
  if (!context.tensor.cutsRows(o_.sequenceParallel)) return all;
  const Range own = context.tensor.rowsOf(all.shape[0]);
  return all.rows(own.begin, own.count());
}

/// Adds what each expert got of this rank's tokens.
void Experts::count(RouterTally& tally, const Tensor& counts, bool dry) const {
  const auto experts = static_cast<size_t>(o_.experts.count);
  const auto block = static_cast<size_t>(o_.number);
  const size_t first = experts * block;
  tally.loads.resize(std::max(tally.loads.size(), first + experts));
  if (dry) return;
  for (size_t e = 0; e < experts; ++e) tally.loads[first + e] += counts.as<int32_t>()[e];
}

void Experts::appendWork(const Kept& kept, const Tensor& dResults, const Tensor& dInnerRows,
                         const Tensor& dLogitRows, int64_t sentRows, Saved& saved) {
  saved.work.push_back({[this, x = kept.active, dResults, counts = kept.counts, sentRows](
                            ParallelContext& c, int microBatch) {
    mapGradients(c, down_, c.experts.recall(counts, sentRows, x.shape[0]), x, dResults, microBatch);
  }});
  saved.work.push_back({[this, x = kept.rows, dInnerRows, counts = kept.counts, sentRows](
                            ParallelContext& c, int microBatch) {
    const ExpertTraffic traffic = c.experts.recall(counts, sentRows, x.shape[0]);
    const auto maps = static_cast<int64_t>(ups_.size());
    const int64_t inner = dInnerRows.shape[1] / maps;
    for (int64_t m = 0; m < maps; ++m)
      mapGradients(c, ups_[static_cast<size_t>(m)], traffic, x,
                   dInnerRows.part(1, m * inner, inner), microBatch);
  }});
  saved.work.push_back({[this, x = kept.x, dLogitRows](ParallelContext& c, int microBatch) {
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
