#include "parallel/nn/gpt.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tutti::parallel {

namespace {
// GPT-2's 0.02 (kDeviation) would let the first blocks drown a token's identity in a narrow
// residual stream: at width 128, The Jargon File is learned to 2.27 nats a byte with it and to 2.17
// with this.
constexpr double kEmbeddingDeviation = 0.05;
}  // namespace

void check(const GptOptions& o) {
  require(o.vocabulary > 0, "the vocabulary needs at least one token, not ", o.vocabulary);
  require(o.context > 0, "the context needs at least one token, not ", o.context);
  require(o.layers > 0, "a model needs at least one layer, not ", o.layers);
  require(o.layers < std::numeric_limits<UnitId>::max(), o.layers, " layers are too many");
  require(o.width > 0, "the width must be positive, not ", o.width);
  require(o.branches != Branches::Placed || !o.sequenceParallel,
          "branches that are placed on ranks whole have no rows of sequence parallelism");
  require(o.branches != Branches::Placed || o.experts.count == 0,
          "branches that are placed on ranks whole have no experts, which are shared out");
  require(o.heads > 0 && o.width % o.heads == 0, "a width of ", o.width, " does not split into ",
          o.heads, " heads");
  check(o.experts, o.layers);
}

namespace {

BlockOptions blockOf(const GptOptions& o, int64_t i) {
  const bool experts = o.experts.inBlock(i);
  const bool placed = o.branches == Branches::Placed;
  return {.name = "blocks." + std::to_string(i),
          .unit = static_cast<UnitId>(i) + 1,
          .width = o.width,
          .heads = o.heads,
          .deviation = kDeviation,
          .residualDeviation = kDeviation / std::sqrt(2.0 * static_cast<double>(o.layers)),
          .sequenceParallel = o.sequenceParallel,
          .recomputeAttention = o.recompute == Recompute::Attention,
          .contextAttention = o.contextAttention,
          .attentionOwner = placed ? 0 : -1,
          .mlpOwner = placed ? 1 : -1,
          .experts = experts ? o.experts : ExpertOptions{},
          .expertNumber = experts ? i / o.experts.every : 0};
}

/// Of any block that has experts.
ExpertsOptions expertsOf(const GptOptions& o) {
  ExpertsOptions experts = expertsOf(blockOf(o, 0));
  experts.experts = o.experts;
  return experts;
}

}  // namespace

double parameterCount(const GptOptions& o) {
  const auto width = static_cast<double>(o.width);
  // Of a block: four maps, of width to 3, 1, 4 and from 4 times the width, and two norms.
  const double block = 12 * width * width + 13 * width, mlp = 8 * width * width + 5 * width;
  const double router = routerParameters(expertsOf(o));
  return (static_cast<double>(o.vocabulary) + static_cast<double>(o.context) + 2) * width +
         static_cast<double>(o.layers) * block +
         static_cast<double>(o.experts.blocksOf(o.layers)) * (router - mlp) +
         expertParameterCount(o);
}

double expertParameterCount(const GptOptions& o) {
  return static_cast<double>(o.experts.blocksOf(o.layers)) * expertParameters(expertsOf(o));
}

double savedPerToken(const GptOptions& o, int tensorRanks) {
  const auto width = static_cast<double>(o.width), layers = static_cast<double>(o.layers);
  const bool block = o.recompute == Recompute::Block;
  // Within the branches of a block: queries, keys, values, attention with its logarithm for each
  // head, and the two inner vectors of the MLP. Between them: two norms with mean and deviation,
  // and what the two branches give. Of blocks that are recomputed, the last of these alone, and
  // all of one block.
  const double attention = width + static_cast<double>(o.heads);
  const double inner = 11 * width + (o.recompute == Recompute::Attention ? 0 : attention);
  const double outer = 4 * width + 4;
  // And logits; embeddings, and the last norm.
  const double within = (block ? 1 : layers) * inner + static_cast<double>(o.vocabulary);
  // Of experts as many as a token goes to: both inner vectors, and what each is given and gives,
  // of which no rank of tensor parallelism has a part. What the router decided.
  const double share = o.experts.capacityFactor > 0 ? std::min(1.0, o.experts.capacityFactor) : 1;
  const auto perToken = static_cast<double>(o.experts.perToken);
  const double mlps = block ? 0 : static_cast<double>(o.experts.blocksOf(o.layers));
  const double inExperts = mlps * 8 * width * (share * perToken - 1);
  const double routed = mlps * (2 * width * share * perToken +
                                static_cast<double>(o.experts.count) + 3 * perToken + 1);
  const double between = (block ? layers * width + outer : layers * outer) + 2 * width + 2;
  return routed + (within + inExperts) / tensorRanks +
         between / (o.sequenceParallel ? tensorRanks : 1);
}

namespace {

std::unique_ptr<Module> makeBlock(const GptOptions& o, const BlockOptions& block) {
  if (o.branches == Branches::InTurn) return std::make_unique<GptBlock>(block);
  return std::make_unique<ParallelBlock>(gptParts(block), o.branches == Branches::Placed);
}

LanguageModel::Parts partsOf(const GptOptions& o) {
  check(o);
  LanguageModel::Parts parts{.vocabulary = o.vocabulary,
                             .context = o.context,
                             .width = o.width,
                             .embeddingDeviation = kEmbeddingDeviation,
                             .learnedPositions = true,
                             .tied = true,
                             .sequenceParallel = o.sequenceParallel,
                             .recompute = o.recompute,
                             .blockCosts = {},
                             .experts = o.experts.blocksOf(o.layers) * o.experts.count,
                             .dropsTokens = o.experts.count > 0 && o.experts.capacityFactor > 0,
                             .blocks = {},
                             .finalNorm = std::make_unique<LayerNorm>(
                                 NormOptions{.name = "finalNorm",
                                             .unit = static_cast<UnitId>(o.layers) + 1,
                                             .width = o.width,
                                             .sequenceParallel = o.sequenceParallel})};
  for (int64_t i = 0; i < o.layers; ++i) {
    const BlockOptions block = blockOf(o, i);
    parts.blocks.push_back(makeBlock(o, block));
    parts.blockCosts.push_back(o.experts.inBlock(i)
                                   ? 4 * o.width * o.width + expertCost(expertsOf(block))
                                   : 12 * o.width * o.width);
  }
  return parts;
}

}  // namespace

Gpt::Gpt(const GptOptions& o) : LanguageModel(partsOf(o)), options_(o) {}

}  // namespace tutti::parallel
