#include "parallel/nn/language_model.h"

namespace tutti::parallel {

LanguageModel::LanguageModel(Parts parts)
    : learnedPositions_(parts.learnedPositions),
      tied_(parts.tied),
      tokens_{.name = "tokens",
              .global = {parts.vocabulary, parts.width},
              .init = {Init::Normal, parts.embeddingDeviation},
              .unit = 0},
      positions_{.name = "positions",
                 .global = {parts.context, parts.width},
                 .init = {Init::Normal, parts.embeddingDeviation},
                 .unit = 0},
      output_{.name = "output",
              .global = {parts.vocabulary, parts.width},
              .init = {Init::Normal, parts.outputDeviation},
              .unit = static_cast<UnitId>(parts.blocks.size()) + 1},
      blocks_(std::move(parts.blocks)),
      finalNorm_(std::move(parts.finalNorm)) {}

void LanguageModel::declare(ParameterStore& store) {
  store.add(tokens_);
  if (learnedPositions_) store.add(positions_);
  for (const auto& block : blocks_) block->declare(store);
  finalNorm_->declare(store);
  if (!tied_) store.add(output_);
}

Tensor LanguageModel::forward(ParallelContext& context, const Tensor& tokenIds, Saved& saved) {
  ParameterStore& store = context.store;
  saved.openUnit(0);
  store.acquire(0, Phase::Forward);
  const Tensor tokens = store.weight(tokens_);
  Tensor x = saved.untilWeights.allocate(tokens.type,
                                         {tokenIds.shape[0], tokenIds.shape[1], tokens_.global[1]});
  const Tensor positions = learnedPositions_ ? store.weight(positions_) : Tensor{};
  context.kernels.embedding({tokenIds, tokens, positions, x});
  saved.push(tokenIds);
  if (!tied_) store.release(0, Phase::Forward);
  for (UnitId unit = 1; const auto& block : blocks_) {
    saved.openUnit(unit);
    store.acquire(unit, Phase::Forward);
    x = block->forward(context, x, saved);
    store.release(unit++, Phase::Forward);
  }
  return head(context, x, saved);
}

Tensor LanguageModel::head(ParallelContext& context, const Tensor& x, Saved& saved) {
  saved.openUnit(headUnit());
  context.store.acquire(headUnit(), Phase::Forward);
  const Tensor normal = finalNorm_->forward(context, x, saved);
  const Tensor logits =
      saved.untilWeights.allocate(x.type, {x.shape[0], x.shape[1], tokens_.global[0]});
  context.kernels.gemm({.a = normal.matrix(),
                        .b = context.store.weight(outputMap()),
                        .c = logits.matrix(),
                        .transposeB = true});
  saved.push(normal);
  context.store.release(headUnit(), Phase::Forward);
  if (tied_) context.store.release(0, Phase::Forward);
  return logits;
}

Tensor LanguageModel::headBackward(ParallelContext& context, const Tensor& dLogits, Saved& saved) {
  const Tensor normal = saved.pop();
  const Tensor dNormal = saved.untilWeights.allocate(normal.type, normal.shape);
  context.kernels.gemm(
      {.a = dLogits.matrix(), .b = context.store.weight(outputMap()), .c = dNormal.matrix()});
  saved.work.push_back({[this, normal, dLogits](ParallelContext& c, int microBatch) {
    const GradientSlot output = c.store.gradient(outputMap(), microBatch);
    c.kernels.gemm({.a = dLogits.matrix(),
                    .b = normal.matrix(),
                    .c = output.buffer,
                    .transposeA = true,
                    .beta = output.beta});
  }});
  return finalNorm_->backward(context, dNormal, saved);
}

Tensor LanguageModel::backward(ParallelContext& context, const Tensor& dLogits, Saved& saved) {
  ParameterStore& store = context.store;
  if (tied_) store.acquire(0, Phase::Backward);
  store.acquire(headUnit(), Phase::Backward);
  Tensor dx = saved.closeUnit(context, headBackward(context, dLogits, saved));
  store.release(headUnit(), Phase::Backward);
  for (UnitId unit = headUnit() - 1; unit >= 1; --unit) {
    store.acquire(unit, Phase::Backward);
    dx = blocks_[static_cast<size_t>(unit) - 1]->backward(context, dx, saved);
    dx = saved.closeUnit(context, dx);
    store.release(unit, Phase::Backward);
  }
  if (!tied_) store.acquire(0, Phase::Backward);
  embeddingBackward(dx, saved);
  saved.closeUnit(context, {});
  store.release(0, Phase::Backward);
  return {};
}

void LanguageModel::embeddingBackward(const Tensor& dx, Saved& saved) {
  const Tensor tokenIds = saved.pop();
  saved.work.push_back({[this, tokenIds, dx](ParallelContext& c, int microBatch) {
    // Where the output map is tied, it has written this micro-batch's first part already: the store
    // answers beta 1.
    const GradientSlot tokens = c.store.gradient(tokens_, microBatch);
    const GradientSlot positions =
        learnedPositions_ ? c.store.gradient(positions_, microBatch) : GradientSlot{};
    c.kernels.embeddingWeights({.tokenIds = tokenIds,
                                .dx = dx,
                                .dTokens = tokens.buffer,
                                .dPositions = positions.buffer,
                                .betaTokens = tokens.beta,
                                .betaPositions = positions.beta});
  }});
}

}  // namespace tutti::parallel
