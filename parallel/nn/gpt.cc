#include "parallel/nn/gpt.h"

#include <cmath>
#include <limits>

namespace tutti::parallel {

namespace {
constexpr double kDeviation = 0.02;  // GPT-2's
// GPT-2's 0.02 again would let the first blocks drown a token's identity in a narrow residual
// stream: at width 128, The Jargon File is learned to 2.27 nats a byte with it and to 2.17 with
// this.
constexpr double kEmbeddingDeviation = 0.05;
}  // namespace

void check(const GptOptions& o) {
  require(o.vocabulary > 0, "the vocabulary needs at least one token, not ", o.vocabulary);
  require(o.context > 0, "the context needs at least one token, not ", o.context);
  require(o.layers > 0, "a model needs at least one layer, not ", o.layers);
  require(o.layers < std::numeric_limits<UnitId>::max(), o.layers, " layers are too many");
  require(o.width > 0, "the width must be positive, not ", o.width);
  require(o.heads > 0 && o.width % o.heads == 0, "a width of ", o.width, " does not split into ",
          o.heads, " heads");
}

double parameterCount(const GptOptions& o) {
  const auto width = static_cast<double>(o.width);
  // Of a block: four maps, of width to 3, 1, 4 and from 4 times the width, and two norms.
  const double block = 12 * width * width + 13 * width;
  return (static_cast<double>(o.vocabulary) + static_cast<double>(o.context) + 2) * width +
         static_cast<double>(o.layers) * block;
}

double savedPerToken(const GptOptions& o) {
  const auto width = static_cast<double>(o.width);
  // Two norms with mean and deviation, qkv, attention with its logarithm for each head, projected,
  // and the two inner vectors and the result of the MLP.
  const double block = 16 * width + static_cast<double>(o.heads) + 4;
  return static_cast<double>(o.layers) * block + 2 * width + 2 + static_cast<double>(o.vocabulary);
}

Gpt::Gpt(const GptOptions& o)
    : options_(o),
      tokens_{.name = "tokens",
              .global = {o.vocabulary, o.width},
              .init = {Init::Normal, kEmbeddingDeviation},
              .unit = 0},
      positions_{.name = "positions",
                 .global = {o.context, o.width},
                 .init = {Init::Normal, kEmbeddingDeviation},
                 .unit = 0},
      finalNorm_({"finalNorm", static_cast<UnitId>(o.layers) + 1, o.width}) {
  check(o);
  for (int64_t i = 0; i < o.layers; ++i)
    blocks_.push_back(std::make_unique<Block>(BlockOptions{
        .name = "blocks." + std::to_string(i),
        .unit = static_cast<UnitId>(i) + 1,
        .width = o.width,
        .heads = o.heads,
        .deviation = kDeviation,
        .residualDeviation = kDeviation / std::sqrt(2.0 * static_cast<double>(o.layers))}));
}

void Gpt::declare(ParameterStore& store) {
  store.add(tokens_);
  store.add(positions_);
  for (const auto& block : blocks_) block->declare(store);
  finalNorm_.declare(store);
}

Tensor Gpt::forward(ParallelContext& context, const Tensor& tokenIds, Saved& saved) {
  ParameterStore& store = context.store;
  saved.openUnit(0);
  store.acquire(0, Phase::Forward);
  const Tensor tokens = store.weight(tokens_);
  Tensor x = saved.untilWeights.allocate(tokens.type,
                                         {tokenIds.shape[0], tokenIds.shape[1], options_.width});
  context.kernels.embedding({tokenIds, tokens, store.weight(positions_), x});
  saved.push(tokenIds);
  for (UnitId unit = 1; const auto& block : blocks_) {
    saved.openUnit(unit);
    store.acquire(unit, Phase::Forward);
    x = block->forward(context, x, saved);
    store.release(unit++, Phase::Forward);
  }
  return head(context, x, saved);
}

Tensor Gpt::head(ParallelContext& context, const Tensor& x, Saved& saved) {
  saved.openUnit(headUnit());
  context.store.acquire(headUnit(), Phase::Forward);
  const Tensor normal = finalNorm_.forward(context, x, saved);
  const Tensor logits =
      saved.untilWeights.allocate(x.type, {x.shape[0], x.shape[1], options_.vocabulary});
  context.kernels.gemm({.a = normal.matrix(),
                        .b = context.store.weight(tokens_),
                        .c = logits.matrix(),
                        .transposeB = true});
  saved.push(normal);
  context.store.release(headUnit(), Phase::Forward);
  context.store.release(0, Phase::Forward);
  return logits;
}

Tensor Gpt::headBackward(ParallelContext& context, const Tensor& dLogits, Saved& saved) {
  const Tensor normal = saved.pop();
  const Tensor dNormal = saved.untilWeights.allocate(normal.type, normal.shape);
  context.kernels.gemm(
      {.a = dLogits.matrix(), .b = context.store.weight(tokens_), .c = dNormal.matrix()});
  saved.work.push_back({[this, normal, dLogits](ParallelContext& c, int microBatch) {
    const GradientSlot tokens = c.store.gradient(tokens_, microBatch);
    c.kernels.gemm({.a = dLogits.matrix(),
                    .b = normal.matrix(),
                    .c = tokens.buffer,
                    .transposeA = true,
                    .beta = tokens.beta});
  }});
  return finalNorm_.backward(context, dNormal, saved);
}

Tensor Gpt::backward(ParallelContext& context, const Tensor& dLogits, Saved& saved) {
  ParameterStore& store = context.store;
  store.acquire(0, Phase::Backward);
  store.acquire(headUnit(), Phase::Backward);
  Tensor dx = saved.closeUnit(context, headBackward(context, dLogits, saved));
  store.release(headUnit(), Phase::Backward);
  for (UnitId unit = headUnit() - 1; unit >= 1; --unit) {
    store.acquire(unit, Phase::Backward);
    dx = blocks_[static_cast<size_t>(unit) - 1]->backward(context, dx, saved);
    dx = saved.closeUnit(context, dx);
    store.release(unit, Phase::Backward);
  }
  embeddingBackward(dx, saved);
  saved.closeUnit(context, {});
  store.release(0, Phase::Backward);
  return {};
}

void Gpt::embeddingBackward(const Tensor& dx, Saved& saved) {
  const Tensor tokenIds = saved.pop();
  saved.work.push_back({[this, tokenIds, dx](ParallelContext& c, int microBatch) {
    // The output map has written this micro-batch's first part already: the store answers beta 1.
    const GradientSlot tokens = c.store.gradient(tokens_, microBatch);
    const GradientSlot positions = c.store.gradient(positions_, microBatch);
    c.kernels.embeddingWeights({.tokenIds = tokenIds,
                                .dx = dx,
                                .dTokens = tokens.buffer,
                                .dPositions = positions.buffer,
                                .betaTokens = tokens.beta,
                                .betaPositions = positions.beta});
  }});
}

}  // namespace tutti::parallel
