#include "parallel/nn/language_model.h"

#include <algorithm>

namespace tutti::parallel {

LanguageModel::LanguageModel(Parts parts)
    : learnedPositions_(parts.learnedPositions),
      tied_(parts.tied),
      sequence_(parts.sequenceParallel),
      again_(parts.recompute == Recompute::Block),
      blockCosts_(std::move(parts.blockCosts)),
      experts_(parts.experts),
      dropsTokens_(parts.dropsTokens),
      tokens_{.name = "tokens",
              .global = {parts.vocabulary, parts.width},
              .init = {Init::Normal, parts.embeddingDeviation},
              .layout = cutOverTensor(0),
              .unit = 0},
      positions_{.name = "positions",
                 .global = {parts.context, parts.width},
                 .init = {Init::Normal, parts.embeddingDeviation},
                 .unit = 0},
      output_{.name = "output",
              .global = {parts.vocabulary, parts.width},
              .init = {Init::Normal, parts.outputDeviation},
              .layout = cutOverTensor(0),
              .unit = static_cast<UnitId>(parts.blocks.size()) + 1},
      blocks_(std::move(parts.blocks)),
      finalNorm_(std::move(parts.finalNorm)) {}

void LanguageModel::declare(ParameterStore& store) {
  const bool copy =
      tied_ && (store.policy().deterministic || store.placeOf(0) != store.placeOf(headUnit()));
  if (tied_) {
    output_.name = tokens_.name;  // and so its first values
    output_.init = tokens_.init;
    output_.tiedTo = copy ? &tokens_ : nullptr;
  }
  store.add(tokens_);
  if (learnedPositions_) store.add(positions_);
  for (const auto& block : blocks_) block->declare(store);
  finalNorm_->declare(store);
  if (!shares()) store.add(output_);
}

std::vector<int64_t> LanguageModel::unitCosts() const {
  std::vector<int64_t> costs{0};  // rows are looked up
  costs.insert(costs.end(), blockCosts_.begin(), blockCosts_.end());
  costs.push_back(output_.global.count());
  return costs;
}

Shape LanguageModel::shapeBetween(const ParallelContext& context, const Shape& tokens) const {
  const int64_t rows = context.sequences.own(tokens).count();
  return {context.tensor.cutsRows(sequence_) ? context.tensor.rowsOf(rows).count() : rows,
          tokens_.global[1]};
}

Tensor LanguageModel::forward(ParallelContext& context, UnitRange part, const Tensor& input,
                              ActivationStash& stash) {
  ParameterStore& store = context.store;
  Tensor x = input;
  if (part.begin == 0) {
    stash.openUnit(0);
    store.acquire(0, Phase::Forward);
    x = embed(context, input, stash);
    if (!shares()) store.release(0, Phase::Forward);
  }
  for (UnitId unit = std::max(part.begin, 1); unit < std::min(part.end, headUnit()); ++unit) {
    stash.openUnit(unit);
    store.acquire(unit, Phase::Forward);
    x = blockForward(context, unit, x, stash);
    store.release(unit, Phase::Forward);
  }
  return part.end > headUnit() ? head(context, x, stash) : x;
}

/// Of a block: experts tell the host how many rows they have, and what was seen before has kept its
/// keys and values elsewhere.
bool LanguageModel::isSequence(const ParallelContext& context, const ActivationStash& stash) const {
  return experts_ == 0 && stash.before == nullptr && callsKernelsAlone(context);
}

/// Where it is recomputed, nothing is kept but what it was given and gives.
Tensor LanguageModel::blockForward(ParallelContext& context, UnitId unit, const Tensor& x,
                                   ActivationStash& stash) {
  const ActivationStash::Place before = stash.place();
  Tensor y;
  inSequence(context.kernels, isSequence(context, stash),
             [&] { y = blocks_[static_cast<size_t>(unit) - 1]->forward(context, x, stash); });
  if (!again_) return y;
  const Tensor kept = stash.forgetSince(before, y);
  stash.push(x);
  return kept;
}

Tensor LanguageModel::blockBackward(ParallelContext& context, UnitId unit, const Tensor& dy,
                                    ActivationStash& stash) {
  Module& block = *blocks_[static_cast<size_t>(unit) - 1];
  Tensor dx;
  inSequence(context.kernels, isSequence(context, stash), [&] {
    if (again_) block.forward(context, stash.pop(), stash);
    dx = block.backward(context, dy, stash);
  });
  return dx;
}

/// Of those whose rows this rank has.
int64_t LanguageModel::firstToken(ParallelContext& context) const {
  return boxOf(tokens_.global, tokens_.layout, context.mesh.shape(), context.mesh.place())[0].begin;
}

/// Each rank looks up the ids whose rows it has; the sum has all of them. Positions are added by
/// the first rank alone: once.
Tensor LanguageModel::embed(ParallelContext& context, const Tensor& allIds,
                            ActivationStash& stash) {
  require(!learnedPositions_ || stash.length <= positions_.global[0], "sequences of ", stash.length,
          " tokens: the model has learned ", positions_.global[0], " positions");
  const Tensor tokenIds = context.sequences.cut(context.kernels, allIds, stash.untilWeights);
  const Tensor tokens = context.store.weight(tokens_);
  const bool addPositions = learnedPositions_ && context.tensor.rank() == 0;
  const int64_t width = tokens_.global[1];
  const ArenaScope scope(context.scratch);
  Arena& arena = context.tensor.arenaOfSummands(sequence_, stash.untilWeights, context.scratch);
  const Tensor summands = arena.allocate(tokens.type, {tokenIds.count(), width});
  context.kernels.embedding(
      {.tokenIds = tokenIds,
       .tokens = tokens,
       .positions = addPositions ? context.store.weight(positions_) : Tensor{},
       .x = summands.view({tokenIds.shape[0], tokenIds.shape[1], width}),
       .at = positionsOf(context, stash),
       .firstId = firstToken(context),
       .vocabulary = vocabulary()});
  stash.push(tokenIds);
  return context.tensor.addUp(Purpose::EmbeddingSum, summands, sequence_, stash.untilWeights);
}

Tensor LanguageModel::head(ParallelContext& context, const Tensor& x, ActivationStash& stash) {
  stash.openUnit(headUnit());
  context.store.acquire(headUnit(), Phase::Forward);
  const Tensor normal = finalNorm_->forward(context, x, stash);
  const Tensor weight = context.store.weight(outputMap());
  const bool lastAlone = stash.before != nullptr;
  Tensor logits = stash.untilWeights.allocateRows(
      x.type, {stash.tokens[0], lastAlone ? 1 : stash.tokens[1], weight.shape[0]});
  logits.layout = cutOverTensor(2);
  const ArenaScope scope(context.scratch);
  const Tensor all = context.tensor.allRows(Purpose::HeadRows, normal, stash.tokens.count(),
                                            sequence_, context.scratch);
  context.kernels.gemm({.a = lastAlone ? all.rows(all.shape[0] - 1, 1) : all,
                        .b = weight,
                        .c = logits.matrix(),
                        .transposeB = true});
  stash.push(normal);
  context.store.release(headUnit(), Phase::Forward);
  if (shares()) context.store.release(0, Phase::Forward);
  return logits;
}

Tensor LanguageModel::headBackward(ParallelContext& context, const Tensor& dLogits,
                                   ActivationStash& stash) {
  const Tensor normal = stash.pop(), dy = dLogits.matrix();
  const ArenaScope scope(context.scratch);
  Arena& arena = context.tensor.arenaOfSummands(sequence_, stash.untilWeights, context.scratch);
  const Tensor summands = arena.allocate(normal.type, {dy.shape[0], normal.shape[1]});
  context.kernels.gemm({.a = dy, .b = context.store.weight(outputMap()), .c = summands});
  stash.work.push_back({[this, normal, dy](ParallelContext& c, int microBatch) {
    const GradientSlot output = c.store.gradient(outputMap(), microBatch);
    const ArenaScope gathered(c.scratch);
    c.kernels.gemm(
        {.a = dy,
         .b = c.tensor.allRows(Purpose::HeadRowsAgain, normal, dy.shape[0], sequence_, c.scratch),
         .c = output.buffer,
         .transposeA = true,
         .beta = output.beta});
  }});
  return finalNorm_->backward(
      context,
      context.tensor.addUp(Purpose::HeadGradientSum, summands, sequence_, stash.untilWeights),
      stash);
}

Tensor LanguageModel::backward(ParallelContext& context, UnitRange part, const Tensor& dy,
                               ActivationStash& stash) {
  ParameterStore& store = context.store;
  Tensor dx = dy;
  if (part.end > headUnit()) {
    if (shares()) store.acquire(0, Phase::Backward);
    store.acquire(headUnit(), Phase::Backward);
    dx = stash.closeUnit(context, headBackward(context, dy, stash));
    store.release(headUnit(), Phase::Backward);
  }
  for (UnitId unit = std::min(part.end, headUnit()) - 1; unit >= std::max(part.begin, 1); --unit) {
    store.acquire(unit, Phase::Backward);
    dx = blockBackward(context, unit, dx, stash);
    dx = stash.closeUnit(context, dx);
    store.release(unit, Phase::Backward);
  }
  if (part.begin > 0) return dx;
  if (!shares()) store.acquire(0, Phase::Backward);
  embedBackward(dx, stash);
  stash.closeUnit(context, {});
  store.release(0, Phase::Backward);
  return {};
}

/// All ranks see all of dx, so each has the positions' whole gradient, and its tokens' whole one.
void LanguageModel::embedBackward(const Tensor& dx, ActivationStash& stash) {
  const Tensor tokenIds = stash.pop();
  const int64_t length = stash.length;
  stash.work.push_back({[this, tokenIds, dx, length](ParallelContext& c, int microBatch) {
    // Where the output map is tied, it has written this micro-batch's first part already: the store
    // answers beta 1.
    const GradientSlot tokens = c.store.gradient(tokens_, microBatch);
    const GradientSlot positions =
        learnedPositions_ ? c.store.gradient(positions_, microBatch) : GradientSlot{};
    const ArenaScope gathered(c.scratch);
    const Tensor all = c.tensor.allRows(Purpose::EmbeddingGradientRows, dx, tokenIds.count(),
                                        sequence_, c.scratch);
    c.kernels.embeddingWeights(
        {.tokenIds = tokenIds,
         .dx = all.view({tokenIds.shape[0], tokenIds.shape[1], all.shape[1]}),
         .dTokens = tokens.buffer,
         .dPositions = positions.buffer,
         .at = c.sequences.positions(length),
         .betaTokens = tokens.beta,
         .betaPositions = positions.beta,
         .firstId = firstToken(c),
         .vocabulary = vocabulary()});
  }});
}

}  // namespace tutti::parallel
