#include "parallel/nn/experts.h"

#include <algorithm>
#include <cmath>

#include "parallel/nn/expert_maps.h"

namespace tutti::parallel {

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
      purposes_(o.purposes),
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

/// Memory for the most rows that a capacity lets through, of tokens that each choose an expert
/// once.
void Experts::takeRoom(ExpertTraffic& traffic, const ActivationStash& stash, int ranks) const {
  traffic.sentRoom = traffic.sentRows;
  traffic.receivedRoom = traffic.receivedRows;
  const int64_t ofSequence = capacity(stash.length);
  if (ofSequence == 0) return;
  const int64_t each = stash.tokens[0] * std::min(ofSequence, stash.tokens[1]);
  const int64_t experts = o_.experts.count;
  const int64_t active = o_.experts.perToken;
  const int64_t wanted = stash.tokens.count() * active;
  const int64_t ofOneRank = std::min(wanted, experts / ranks * each);
  traffic.sentRoom = std::max(traffic.sentRows, std::min(wanted, experts * each));
  traffic.receivedRoom = std::max(traffic.receivedRows, ranks * ofOneRank);
}

/// Each token's places among those that go to experts; returns how many go to each. Which are
/// dropped is a question of those before them, of all ranks that share a sequence. Each has two of
/// its pieces, as of a sequence that is as long as there are pieces.
std::vector<int64_t> Experts::place(ParallelContext& context, const ActivationStash& stash,
                                    const Kept& kept) const {
  const ContextParallel& ranks = context.sequences;
  const int64_t pieces = 2 * ranks.ranks(),
                early = ranks.cutOf(stash.length).pieces(ranks.rank())[0].count();
  std::vector<int64_t> loads(static_cast<size_t>(o_.experts.count));
  const Tensor own = context.scratch.allocate(DType::Int32, {stash.tokens[0], 2, o_.experts.count});
  context.kernels.countChoices({.chosen = kept.chosen, .choices = own, .early = early});
  const Tensor all = context.sequences.whole(Purpose::ChoicesOfPieces, context.kernels, own, pieces,
                                             context.scratch);
  if (ranks.cuts()) context.experts.counters.allGather.add(all.bytes());
  context.kernels.placeTokens({.chosen = kept.chosen,
                               .places = kept.places,
                               .pieces = all,
                               .choices = kept.choices,
                               .own = {ranks.rank(), pieces - 1 - ranks.rank()},
                               .early = early,
                               .length = stash.length,
                               .capacity = capacity(stash.length),
                               .loads = loads});
  return loads;
}

ExpertTraffic Experts::route(ParallelContext& context, const Tensor& all, ActivationStash& stash,
                             Kept& kept) const {
  const int64_t tokens = all.shape[0], experts = o_.experts.count, k = o_.experts.perToken;
  const DType type = statisticsType(all.type);
  Arena& arena = stash.untilBackward;
  kept.probabilities = arena.allocate(type, {tokens, experts});
  kept.logSumExp = arena.allocate(type, {tokens});
  kept.chosen = arena.allocate(DType::Int32, {tokens, k});
  kept.weights = arena.allocate(type, {tokens, k});
  kept.choices = arena.allocate(DType::Int32, {stash.tokens[0], experts});
  kept.places = arena.allocate(DType::Int32, {tokens, k});
  kept.counts = stash.untilWeights.allocate(DType::Int32, {2, experts});
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
  const std::vector<int64_t> loads = place(context, stash, kept);
  ExpertTraffic traffic = context.experts.announce(loads, kept.counts);
  takeRoom(traffic, stash, context.experts.ranks());
  return traffic;
}

/// The maps that begin an expert's MLP, and what comes behind them.
void Experts::begin(ParallelContext& context, const ExpertTraffic& traffic, ActivationStash& stash,
                    Kept& kept) {
  const auto maps = static_cast<int64_t>(ups_.size());
  const int64_t inner = context.store.weight(down_.weight).shape[2];
  const auto allocate = [&](int64_t width) {
    return allocateRows(stash.untilWeights, kept.rows.type, traffic.receivedRoom,
                        traffic.receivedRows, width);
  };
  kept.inner = allocate(maps * inner);
  kept.active = allocate(inner);
  for (int64_t m = 0; m < maps; ++m) {
    const Map& map = ups_[static_cast<size_t>(m)];
    ExpertProduct product{.a = kept.rows,
                          .weight = context.store.weight(map.weight),
                          .c = kept.inner.part(1, m * inner, inner)};
    if (o_.bias) product.epilogue.bias = context.store.weight(map.bias);
    if (m == maps - 1) {
      product.c = kept.active;
      product.epilogue.activation = o_.gated ? Activation::SwiGlu : Activation::Gelu;
      product.epilogue.inner = kept.inner;
    }
    multiply(context.kernels, traffic, product);
  }
}

/// The map that ends it, and the way back. Of several ranks of tensor parallelism one adds biases.
Tensor Experts::end(ParallelContext& context, const ExpertTraffic& traffic, ActivationStash& stash,
                    const Tensor& active) {
  Arena& arena = context.experts.arenaOfSent(stash.untilBackward, context.scratch);
  const Tensor results =
      allocateRows(arena, active.type, traffic.receivedRoom, traffic.receivedRows, o_.width);
  ExpertProduct product{.a = active, .weight = context.store.weight(down_.weight), .c = results};
  if (o_.bias && context.tensor.rank() == 0)
    product.epilogue.bias = context.store.weight(down_.bias);
  multiply(context.kernels, traffic, product);
  return context.experts.fromExperts(Purpose::ExpertResults, context.kernels, traffic, results,
                                     stash.untilBackward, context.scratch);
}

void Experts::keep(const Kept& k, ActivationStash& stash) {
  for (const Tensor& tensor : {k.x, k.probabilities, k.logSumExp, k.chosen, k.weights, k.choices,
                               k.places, k.counts, k.rows, k.inner, k.active, k.results})
    stash.push(tensor);
}

Tensor Experts::forward(ParallelContext& context, const Tensor& x, const Tensor& residual,
                        ActivationStash& stash) {
  Arena& scratch = context.scratch;
  const int64_t tokens = stash.tokens.count();
  Kept kept{.x = x};
  const ArenaScope scope(scratch);
  const Tensor all =
      context.tensor.allRows(purposes_.rows, x, tokens, o_.sequenceParallel, scratch);
  const ExpertTraffic traffic = route(context, all, stash, kept);
  const Tensor sent = allocateRows(context.experts.arenaOfSent(stash.untilWeights, scratch), x.type,
                                   traffic.sentRoom, traffic.sentRows, o_.width);
  context.kernels.spreadRows({.x = all, .places = kept.places, .weights = {}, .y = sent});
  kept.rows = context.experts.toExperts(Purpose::ExpertTokens, context.kernels, traffic, sent,
                                        stash.untilWeights, scratch);
  begin(context, traffic, stash, kept);
  kept.results = end(context, traffic, stash, kept.active);
  keep(kept, stash);
  Arena& arena = context.tensor.arenaOfSummands(o_.sequenceParallel, stash.untilWeights, scratch);
  const Tensor summands = arena.allocate(x.type, {tokens, o_.width});
  context.kernels.combineRows(
      {.x = kept.results, .places = kept.places, .weights = kept.weights, .y = summands});
  const Tensor y =
      context.tensor.addUp(purposes_.sum, summands, o_.sequenceParallel, stash.untilWeights);
  if (residual.data != nullptr) context.kernels.add(residual, y);
  return y;
}

}  // namespace tutti::parallel
