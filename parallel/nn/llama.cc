#include "parallel/nn/llama.h"

#include <cmath>
#include <limits>

namespace tutti::parallel {

void check(const LlamaOptions& o) {
  require(o.vocabulary > 0, "the vocabulary needs at least one token, not ", o.vocabulary);
  require(o.context > 0, "the context needs at least one token, not ", o.context);
  require(o.layers > 0, "a model needs at least one layer, not ", o.layers);
  require(o.layers < std::numeric_limits<UnitId>::max() - 1, o.layers, " layers are too many");
  require(o.width > 0, "the width must be positive, not ", o.width);
  require(o.heads > 0 && o.width % o.heads == 0 && o.width / o.heads % 2 == 0, "a width of ",
          o.width, " does not split into ", o.heads, " heads of an even width");
  require(o.kvHeads > 0 && o.heads % o.kvHeads == 0, o.heads, " heads do not share ", o.kvHeads,
          " heads of keys and values evenly");
  require(o.inner > 0, "the inner width must be positive, not ", o.inner);
  require(o.ropeBase > 0, "the base of the rotary positions must be positive, not ", o.ropeBase);
  require(o.epsilon > 0, "the norms' epsilon must be positive, not ", o.epsilon);
  check(o.experts, o.layers);
}

namespace {

LlamaBlockOptions blockOf(const LlamaOptions& o, int64_t i) {
  const bool experts = o.experts.inBlock(i);
  return {.name = "blocks." + std::to_string(i),
          .unit = static_cast<UnitId>(i) + 1,
          .context = o.context,
          .width = o.width,
          .heads = o.heads,
          .kvHeads = o.kvHeads,
          .inner = o.inner,
          .ropeBase = o.ropeBase,
          .epsilon = o.epsilon,
          .deviation = kDeviation,
          .residualDeviation = kDeviation / std::sqrt(2.0 * static_cast<double>(o.layers)),
          .sequenceParallel = o.sequenceParallel,
          .recomputeAttention = o.recompute == Recompute::Attention,
          .contextAttention = o.contextAttention,
          .experts = experts ? o.experts : ExpertOptions{},
          .expertNumber = experts ? i / o.experts.every : 0};
}

ExpertsOptions expertsOf(const LlamaBlockOptions& o) {
  return {.name = o.name,
          .unit = o.unit,
          .width = o.width,
          .inner = o.inner,
          .gated = true,
          .bias = false,
          .deviation = o.deviation,
          .residualDeviation = o.residualDeviation,
          .sequenceParallel = o.sequenceParallel,
          .purposes = kMlpPurposes,
          .experts = o.experts,
          .number = o.expertNumber};
}

/// Of any block that has experts.
ExpertsOptions expertsOf(const LlamaOptions& o) {
  ExpertsOptions experts = expertsOf(blockOf(o, 0));
  experts.experts = o.experts;
  return experts;
}

}  // namespace

double parameterCount(const LlamaOptions& o) {
  const auto width = static_cast<double>(o.width), inner = static_cast<double>(o.inner);
  const double headWidth = width / static_cast<double>(o.heads);
  const double kvWidth = headWidth * static_cast<double>(o.kvHeads);
  // Queries, keys and values, and the map back; gate, up and down; two norms.
  const double block = width * (2 * width + 2 * kvWidth) + 3 * width * inner + 2 * width;
  const double maps = o.tied ? 1 : 2;
  const double router = routerParameters(expertsOf(o));
  return maps * static_cast<double>(o.vocabulary) * width + width +
         static_cast<double>(o.layers) * block +
         static_cast<double>(o.experts.blocksOf(o.layers)) * (router - 3 * width * inner) +
         expertParameterCount(o);
}

double expertParameterCount(const LlamaOptions& o) {
  return static_cast<double>(o.experts.blocksOf(o.layers)) * expertParameters(expertsOf(o));
}

RotaryTable::RotaryTable(int64_t context, int64_t headWidth, double base)
    : shape_{context, headWidth / 2}, base_(base) {}

void RotaryTable::fill() {
  const int64_t headWidth = 2 * shape_[1];
  for (int64_t t = 0; t < shape_[0]; ++t)
    for (int64_t i = 0; i < shape_[1]; ++i) {
      const double power = -2.0 * static_cast<double>(i) / static_cast<double>(headWidth);
      const double angle = static_cast<double>(t) * std::pow(base_, power);
      cosine_.doubles.push_back(std::cos(angle));
      sine_.doubles.push_back(std::sin(angle));
    }
  cosine_.floats.assign(cosine_.doubles.begin(), cosine_.doubles.end());
  sine_.floats.assign(sine_.doubles.begin(), sine_.doubles.end());
}

Tensor RotaryTable::cosine(DType type, const DeviceMesh& mesh) {
  return table(cosine_, type, mesh);
}
Tensor RotaryTable::sine(DType type, const DeviceMesh& mesh) { return table(sine_, type, mesh); }

Tensor RotaryTable::table(Table& table, DType type, const DeviceMesh& mesh) {
  if (type != DType::Float64 && type != DType::Float32 && !isNarrow(type))
    fail(ErrorCode::Unsupported, "no rotary positions in ", toString(type));
  const DType wide = statisticsType(type);
  if (mesh.dry()) return Tensor(dryAddress(), wide, shape_);
  if (table.doubles.empty()) fill();
  void* const numbers = wide == DType::Float64 ? static_cast<void*>(table.doubles.data())
                                               : static_cast<void*>(table.floats.data());
  const Tensor ofHost(numbers, wide, shape_);
  if (!mesh.stream()) return ofHost;
  const Backing backing = mesh.backing();
  if (!memory_ || memory_->backing().stream != backing.stream) {
    memory_.emplace("rotary positions", backing);
    cosine_.onDevice.clear();
    sine_.onDevice.clear();
  }
  const auto [place, isNew] = table.onDevice.try_emplace(wide);
  if (isNew) place->second = mesh.onDevice(ofHost, *memory_);
  return place->second;
}

SwiGluMlp::SwiGluMlp(const LlamaBlockOptions& o)
    : gateUp_({.maps = {{o.name + ".mlp.gate", o.inner}, {o.name + ".mlp.up", o.inner}},
               .purposes = kMlpPurposes,
               .unit = o.unit,
               .inputs = o.width,
               .deviation = o.deviation,
               .bias = false,
               .sequenceParallel = o.sequenceParallel}),
      down_({.name = o.name + ".mlp.down",
             .purposes = kMlpPurposes,
             .unit = o.unit,
             .inputs = o.inner,
             .outputs = o.width,
             .deviation = o.residualDeviation,
             .bias = false,
             .sequenceParallel = o.sequenceParallel}) {}

void SwiGluMlp::declare(ParameterStore& store) {
  gateUp_.declare(store);
  down_.declare(store);
}

Tensor SwiGluMlp::forward(ParallelContext& context, const Tensor& x, const Tensor& residual,
                          ActivationStash& stash) {
  const Tensor active = gateUp_.forward(context, x, stash, Activation::SwiGlu);
  return down_.forward(context, active, residual, stash);
}

Tensor SwiGluMlp::backward(ParallelContext& context, const Tensor& dy, ActivationStash& stash) {
  const Tensor dGateUp = down_.backward(context, dy, stash, Activation::SwiGluBackward);
  return gateUp_.backward(context, dGateUp, stash);
}

RotaryAttention::RotaryAttention(const LlamaBlockOptions& o)
    : Attention(AttentionOptions{.name = o.name,
                                 .unit = o.unit,
                                 .width = o.width,
                                 .heads = o.heads,
                                 .kvHeads = o.kvHeads,
                                 .deviation = o.deviation,
                                 .residualDeviation = o.residualDeviation,
                                 .bias = false,
                                 .sequenceParallel = o.sequenceParallel,
                                 .recompute = o.recomputeAttention,
                                 .context = o.contextAttention}),
      headWidth_(o.width / o.heads),
      table_(o.positions ? o.positions
                         : std::make_shared<RotaryTable>(o.context, headWidth_, o.ropeBase)) {}

void RotaryAttention::turn(ParallelContext& context, const Tensor& qkv, const Tensor& at,
                           int64_t heads, bool back) {
  context.kernels.rotary({.x = qkv,
                          .cosine = table_->cosine(qkv.type, context.mesh),
                          .sine = table_->sine(qkv.type, context.mesh),
                          .at = at,
                          .heads = heads,
                          .headWidth = headWidth_,
                          .back = back});
}

namespace {

NormOptions normOptions(const LlamaBlockOptions& o, const char* name) {
  return {.name = o.name + name,
          .unit = o.unit,
          .width = o.width,
          .epsilon = o.epsilon,
          .sequenceParallel = o.sequenceParallel};
}

std::unique_ptr<Branch> mlpOf(const LlamaBlockOptions& o) {
  if (o.experts.count == 0) return std::make_unique<SwiGluMlp>(o);
  return std::make_unique<Experts>(expertsOf(o));
}

}  // namespace

LlamaBlock::LlamaBlock(const LlamaBlockOptions& o)
    : TransformerBlock(
          {.beforeAttention = std::make_unique<RmsNorm>(normOptions(o, ".beforeAttention")),
           .attention = std::make_unique<RotaryAttention>(o),
           .beforeMlp = std::make_unique<RmsNorm>(normOptions(o, ".beforeMlp")),
           .mlp = mlpOf(o)}) {}

namespace {

LanguageModel::Parts partsOf(const LlamaOptions& o) {
  check(o);
  const int64_t kvWidth = o.width / o.heads * o.kvHeads;
  LanguageModel::Parts parts{
      .vocabulary = o.vocabulary,
      .context = o.context,
      .width = o.width,
      .embeddingDeviation = kDeviation,
      .outputDeviation = kDeviation,
      .tied = o.tied,
      .sequenceParallel = o.sequenceParallel,
      .recompute = o.recompute,
      .blockCosts = {},
      .experts = o.experts.blocksOf(o.layers) * o.experts.count,
      .dropsTokens = o.experts.count > 0 && o.experts.capacityFactor > 0,
      .blocks = {},
      .finalNorm = std::make_unique<RmsNorm>(NormOptions{.name = "finalNorm",
                                                         .unit = static_cast<UnitId>(o.layers) + 1,
                                                         .width = o.width,
                                                         .epsilon = o.epsilon,
                                                         .sequenceParallel = o.sequenceParallel})};
  const auto positions = std::make_shared<RotaryTable>(o.context, o.width / o.heads, o.ropeBase);
  for (int64_t i = 0; i < o.layers; ++i) {
    LlamaBlockOptions block = blockOf(o, i);
    block.positions = positions;
    const int64_t mlp = o.experts.inBlock(i) ? expertCost(expertsOf(block)) : 3 * o.width * o.inner;
    parts.blocks.push_back(std::make_unique<LlamaBlock>(block));
    parts.blockCosts.push_back(o.width * (2 * o.width + 2 * kvWidth) + mlp);
  }
  return parts;
}

}  // namespace

Llama::Llama(const LlamaOptions& o) : LanguageModel(partsOf(o)), options_(o) {}

}  // namespace tutti::parallel
