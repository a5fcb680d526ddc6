// Every kernel of the interface on no rows, in every type and on every device: what a rank computes
// that has no positions, no tokens or no sequences. Nothing is read or written then, but a sum over
// rows that overwrites its result makes that zero.

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <limits>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "parallel/kernels/host/host_kernels.h"
#include "tests/parallel/kernels/tested_kernels.h"

namespace tutti::parallel {
namespace {

constexpr int64_t kWidth = 8, kHeads = 2, kVocabulary = 5, kExperts = 4, kChoices = 2;

/// The type of what is computed on, and of what is kept of it for backward and summed over rows.
struct Types {
  DType elements, kept;
};

/// Makes a call's operands, and looks at its results.
class Operands {
 public:
  Operands(Types types, TestedKernels& tested) : types_(types), tested_(tested) {}
  Arena& scratch() { return arena_; }
  /// Of the elements' type, filled with ones.
  Tensor ones(const Shape& shape) { return filled(types_.elements, shape, 1); }
  /// Of the type of what is kept.
  Tensor kept(const Shape& shape) { return filled(types_.kept, shape, 1); }
  Tensor ids(const Shape& shape) { return filled(DType::Int32, shape, 0); }
  /// An operand that is left out, whose type nobody has looked at.
  Tensor leftOut() const { return {nullptr, types_.elements, {}}; }
  /// Every element of it is `value`.
  void expectAll(const Tensor& x, double value) {
    tested_.finish();
    const Tensor doubles = arena_.allocate(DType::Float64, x.shape);
    host_.copy(x, doubles);
    for (int64_t i = 0; i < x.count(); ++i)
      EXPECT_EQ(doubles.as<double>()[i], value) << x << ", element " << i;
  }
  void finish() { tested_.finish(); }

 private:
  Tensor filled(DType type, const Shape& shape, double value) {
    const Tensor x = tested_.allocate(type, shape);
    if (type == DType::Int32) {
      std::fill_n(x.as<int32_t>(), x.count(), static_cast<int32_t>(value));
      return x;
    }
    const Tensor doubles = arena_.allocate(DType::Float64, shape);
    std::fill_n(doubles.as<double>(), shape.count(), value);
    host_.copy(doubles, x);
    return x;
  }
  const Types types_;
  TestedKernels& tested_;
  HostKernels host_;  ///< fills operands and looks at results
  Arena arena_{"scratch"};
};

void gemm(Kernels& kernels, Operands& o) {
  kernels.gemm({.a = o.ones({0, kWidth}), .b = o.ones({kWidth, 3}), .c = o.ones({0, 3})});
  const Tensor gradient = o.kept({kWidth, 3}), input = o.ones({0, kWidth}), dOut = o.ones({0, 3});
  kernels.gemm({.a = input, .b = dOut, .c = gradient, .transposeA = true, .beta = 1});
  o.expectAll(gradient, 1);
  kernels.gemm({.a = input, .b = dOut, .c = gradient, .transposeA = true});
  o.expectAll(gradient, 0);
  const Tensor bias = o.ones({3}), none = o.ones({0, 3}), wide = o.ones({0, 6});
  for (const Activation activation :
       {Activation::Gelu, Activation::GeluBackward, Activation::SwiGlu, Activation::SwiGluBackward})
    kernels.gemm({.a = o.ones({0, kWidth}),
                  .b = o.ones({kWidth, 3}),
                  .c = activation == Activation::SwiGluBackward ? o.ones({0, 6}) : o.ones({0, 3}),
                  .epilogue = {.activation = activation,
                               .inner = activation >= Activation::SwiGlu ? wide : none,
                               .bias = bias}});
  // A bias and a residual are there where the product is a sum over nothing.
  kernels.gemm({.a = input,
                .b = dOut,
                .c = gradient,
                .transposeA = true,
                .epilogue = {.bias = bias, .residual = o.ones({kWidth, 3}), .scale = 3}});
  o.expectAll(gradient, 2);
}

void fillZero(Kernels& kernels, Operands& o) { kernels.fillZero(o.ones({0, kWidth})); }

void copy(Kernels& kernels, Operands& o) {
  kernels.copy(o.ones({0, kWidth}), o.kept({0, kWidth}));
  kernels.copy(o.kept({0, kWidth}), o.ones({0, kWidth}));
}

void copyAll(Kernels& kernels, Operands& o) {
  const TensorCopy all[] = {{o.ones({0, kWidth}), o.kept({0, kWidth})}, {o.kept({0}), o.ones({0})}};
  kernels.copyAll(all);
  kernels.copyAll({});
}

void addBias(Kernels& kernels, Operands& o) {
  kernels.addBias(o.ones({kWidth}), o.ones({0, kWidth}));
}

void biasGradient(Kernels& kernels, Operands& o) {
  const Tensor gradient = o.kept({kWidth});
  kernels.biasGradient(o.ones({0, kWidth}), gradient, 1);
  o.expectAll(gradient, 1);
  kernels.biasGradient(o.ones({0, kWidth}), gradient, 0);
  o.expectAll(gradient, 0);
}

void add(Kernels& kernels, Operands& o) { kernels.add(o.ones({0, kWidth}), o.ones({0, kWidth})); }

void layerNorm(Kernels& kernels, Operands& o) {
  kernels.layerNorm({.x = o.ones({0, kWidth}),
                     .weight = o.ones({kWidth}),
                     .bias = o.ones({kWidth}),
                     .y = o.ones({0, kWidth}),
                     .mean = o.kept({0}),
                     .rstd = o.kept({0})});
}

void layerNormBackward(Kernels& kernels, Operands& o) {
  for (const Tensor& residual : {o.leftOut(), o.ones({0, kWidth})})
    kernels.layerNormBackward({.dy = o.ones({0, kWidth}),
                               .x = o.ones({0, kWidth}),
                               .weight = o.ones({kWidth}),
                               .mean = o.kept({0}),
                               .rstd = o.kept({0}),
                               .residual = residual,
                               .dx = o.ones({0, kWidth})});
}

void layerNormWeights(Kernels& kernels, Operands& o) {
  const Tensor weight = o.kept({kWidth}), bias = o.kept({kWidth});
  kernels.layerNormWeights({.dy = o.ones({0, kWidth}),
                            .x = o.ones({0, kWidth}),
                            .mean = o.kept({0}),
                            .rstd = o.kept({0}),
                            .dWeight = weight,
                            .dBias = bias,
                            .betaBias = 1});
  o.expectAll(weight, 0);
  o.expectAll(bias, 1);
}

void gelu(Kernels& kernels, Operands& o) { kernels.gelu(o.ones({0, kWidth}), o.ones({0, kWidth})); }

void geluBackward(Kernels& kernels, Operands& o) {
  kernels.geluBackward(o.ones({0, kWidth}), o.ones({0, kWidth}), o.ones({0, kWidth}));
}

void rmsNorm(Kernels& kernels, Operands& o) {
  kernels.rmsNorm({.x = o.ones({0, kWidth}),
                   .weight = o.ones({kWidth}),
                   .y = o.ones({0, kWidth}),
                   .rstd = o.kept({0})});
}

void rmsNormBackward(Kernels& kernels, Operands& o) {
  for (const Tensor& residual : {o.leftOut(), o.ones({0, kWidth})})
    kernels.rmsNormBackward({.dy = o.ones({0, kWidth}),
                             .x = o.ones({0, kWidth}),
                             .weight = o.ones({kWidth}),
                             .rstd = o.kept({0}),
                             .residual = residual,
                             .dx = o.ones({0, kWidth})});
}

void rmsNormWeights(Kernels& kernels, Operands& o) {
  const Tensor weight = o.kept({kWidth});
  kernels.rmsNormWeights({.dy = o.ones({0, kWidth}),
                          .x = o.ones({0, kWidth}),
                          .rstd = o.kept({0}),
                          .dWeight = weight});
  o.expectAll(weight, 0);
}

void rotary(Kernels& kernels, Operands& o) {
  const int64_t half = kWidth / kHeads / 2;
  for (const int64_t positions : {0, 3})
    kernels.rotary({.x = o.ones({2, 0, kWidth}),
                    .cosine = o.ones({positions, half}),
                    .sine = o.ones({positions, half}),
                    .at = o.ids({0}),
                    .heads = kHeads,
                    .headWidth = 2 * half});
}

void swiGlu(Kernels& kernels, Operands& o) {
  kernels.swiGlu(o.ones({0, 2 * kWidth}), o.ones({0, kWidth}));
}

void swiGluBackward(Kernels& kernels, Operands& o) {
  kernels.swiGluBackward(o.ones({0, kWidth}), o.ones({0, 2 * kWidth}), o.ones({0, 2 * kWidth}));
}

/// Of no sequences, and of sequences of no positions.
constexpr std::array<std::array<int64_t, 2>, 2> kNoPositions{{{0, 3}, {2, 0}}};

void attention(Kernels& kernels, Operands& o) {
  for (const auto& [batch, context] : kNoPositions)
    kernels.attention({.qkv = o.ones({batch, context, 3 * kWidth}),
                       .out = o.ones({batch, context, kWidth}),
                       .logSumExp = o.kept({batch, kHeads, context}),
                       .heads = kHeads,
                       .kvHeads = kHeads},
                      o.scratch());
}

void attentionBackward(Kernels& kernels, Operands& o) {
  for (const auto& [batch, context] : kNoPositions)
    kernels.attentionBackward({.dOut = o.ones({batch, context, kWidth}),
                               .qkv = o.ones({batch, context, 3 * kWidth}),
                               .out = o.ones({batch, context, kWidth}),
                               .logSumExp = o.kept({batch, kHeads, context}),
                               .dQkv = o.ones({batch, context, 3 * kWidth}),
                               .heads = kHeads,
                               .kvHeads = kHeads},
                              o.scratch());
}

void attentionBlock(Kernels& kernels, Operands& o) {
  for (const auto& [queries, keys] : {std::array<int64_t, 2>{0, 0}, {0, 3}, {3, 0}}) {
    const Tensor out = o.ones({2, queries, kWidth}), logSumExp = o.kept({2, kHeads, queries});
    kernels.attentionBlock({.query = o.ones({2, queries, kWidth}),
                            .key = o.ones({2, keys, kWidth}),
                            .value = o.ones({2, keys, kWidth}),
                            .out = out,
                            .logSumExp = logSumExp,
                            .heads = kHeads,
                            .kvHeads = kHeads,
                            .firstQuery = 3},
                           o.scratch());
    o.expectAll(out, 0);
    o.expectAll(logSumExp, -std::numeric_limits<double>::infinity());
  }
}

void attentionBlockBackward(Kernels& kernels, Operands& o) {
  for (const auto& [queries, keys] : {std::array<int64_t, 2>{0, 0}, {0, 3}, {3, 0}}) {
    const Tensor dQuery = o.ones({2, queries, kWidth}), dKey = o.ones({2, keys, kWidth});
    kernels.attentionBlockBackward({.dOut = o.ones({2, queries, kWidth}),
                                    .query = o.ones({2, queries, kWidth}),
                                    .key = o.ones({2, keys, kWidth}),
                                    .value = o.ones({2, keys, kWidth}),
                                    .out = o.ones({2, queries, kWidth}),
                                    .logSumExp = o.kept({2, kHeads, queries}),
                                    .dQuery = dQuery,
                                    .dKey = dKey,
                                    .dValue = o.kept({2, keys, kWidth}),
                                    .heads = kHeads,
                                    .kvHeads = kHeads,
                                    .firstQuery = 3},
                                   o.scratch());
    o.expectAll(dQuery, 1);
    o.expectAll(dKey, 1);
  }
}

void attentionMerge(Kernels& kernels, Operands& o) {
  kernels.attentionMerge({.part = o.ones({2, 0, kWidth}),
                          .partLogSumExp = o.kept({2, kHeads, 0}),
                          .out = o.ones({2, 0, kWidth}),
                          .logSumExp = o.kept({2, kHeads, 0}),
                          .heads = kHeads});
}

void embedding(Kernels& kernels, Operands& o) {
  for (const Tensor& positions : {o.leftOut(), o.ones({3, kWidth})})
    kernels.embedding({.tokenIds = o.ids({2, 0}),
                       .tokens = o.ones({kVocabulary, kWidth}),
                       .positions = positions,
                       .x = o.ones({2, 0, kWidth}),
                       .at = o.ids({0})});
}

void embeddingWeights(Kernels& kernels, Operands& o) {
  const Tensor tokens = o.kept({kVocabulary, kWidth}), learned = o.kept({3, kWidth});
  for (const Tensor& positions : {o.leftOut(), learned})
    kernels.embeddingWeights({.tokenIds = o.ids({2, 0}),
                              .dx = o.ones({2, 0, kWidth}),
                              .dTokens = tokens,
                              .dPositions = positions,
                              .at = o.ids({0}),
                              .betaPositions = 1});
  o.expectAll(tokens, 0);
  o.expectAll(learned, 1);
  // A rank without rows of the vocabulary adds nothing to what others find.
  const Tensor x = o.ones({1, 2, kWidth});
  kernels.embedding({.tokenIds = o.ids({1, 2}),
                     .tokens = o.ones({0, kWidth}),
                     .positions = o.leftOut(),
                     .x = x,
                     .at = {},
                     .vocabulary = kVocabulary});
  o.expectAll(x, 0);
}

void logitStatistics(Kernels& kernels, Operands& o) {
  kernels.logitStatistics(
      {.logits = o.ones({0, kVocabulary}), .labels = o.ids({0}), .statistics = o.kept({0, 3})});
}

void crossEntropy(Kernels& kernels, Operands& o) {
  EXPECT_EQ(kernels.crossEntropy({.logits = o.ones({0, kVocabulary}),
                                  .labels = o.ids({0}),
                                  .statistics = o.kept({2, 0, 3})}),
            0);
  // Of a part of the vocabulary, where statistics of no rows have no data either.
  EXPECT_EQ(kernels.crossEntropy({.logits = o.ones({0, kVocabulary}),
                                  .labels = o.ids({0}),
                                  .statistics = {},
                                  .firstId = kVocabulary,
                                  .vocabulary = 2 * kVocabulary}),
            0);
  EXPECT_EQ(kernels.crossEntropy(
                {.logits = o.ones({0, kVocabulary}), .labels = o.ids({0}), .statistics = {}}),
            0);
}

void route(Kernels& kernels, Operands& o) {
  kernels.route({.logits = o.ones({0, kExperts}),
                 .probabilities = o.kept({0, kExperts}),
                 .logSumExp = o.kept({0}),
                 .chosen = o.ids({0, kChoices}),
                 .weights = o.ones({0, kChoices})});
}

void countChoices(Kernels& kernels, Operands& o) {
  const Tensor choices = o.ids({2, 2, kExperts});
  std::fill_n(choices.as<int32_t>(), choices.count(), 1);
  kernels.countChoices({.chosen = o.ids({0, kChoices}), .choices = choices});
  o.finish();
  for (int64_t i = 0; i < choices.count(); ++i) EXPECT_EQ(choices.as<int32_t>()[i], 0);
}

void placeTokens(Kernels& kernels, Operands& o) {
  std::array<int64_t, kExperts> loads;
  loads.fill(1);
  kernels.placeTokens({.chosen = o.ids({0, kChoices}),
                       .places = o.ids({0, kChoices}),
                       .pieces = o.ids({2, 2, kExperts}),
                       .choices = o.ids({2, kExperts}),
                       .length = 3,
                       .loads = loads});
  for (const int64_t load : loads) EXPECT_EQ(load, 0);
}

void routerGradient(Kernels& kernels, Operands& o) {
  const RouterLosses losses = kernels.routerGradient({.dWeights = o.ones({0, kChoices}),
                                                      .probabilities = o.kept({0, kExperts}),
                                                      .logSumExp = o.kept({0}),
                                                      .chosen = o.ids({0, kChoices}),
                                                      .weights = o.ones({0, kChoices}),
                                                      .choices = o.ids({2, kExperts}),
                                                      .dLogits = o.ones({0, kExperts}),
                                                      .length = 3});
  EXPECT_EQ(losses.balance, 0);
  EXPECT_EQ(losses.z, 0);
}

void spreadRows(Kernels& kernels, Operands& o) {
  for (const int64_t places : {0, 3}) {
    const Tensor y = o.ones({places, kWidth});
    for (const Tensor& weights : {o.leftOut(), o.kept({0, kChoices})})
      kernels.spreadRows(
          {.x = o.ones({0, kWidth}), .places = o.ids({0, kChoices}), .weights = weights, .y = y});
    o.expectAll(y, 1);
  }
}

/// Also rows of which all choices are dropped: no expert of this rank has any.
void combineRows(Kernels& kernels, Operands& o) {
  for (const int64_t rows : {0, 3}) {
    const Tensor y = o.ones({rows, kWidth}), dropped = o.ids({rows, kChoices});
    std::fill_n(dropped.as<int32_t>(), dropped.count(), -1);
    for (const Tensor& weights : {o.leftOut(), o.kept({rows, kChoices})})
      kernels.combineRows(
          {.x = o.ones({0, kWidth}), .places = dropped, .weights = weights, .y = y});
    o.expectAll(y, 0);
  }
}

void rowDots(Kernels& kernels, Operands& o) {
  for (const int64_t rows : {0, 3}) {
    const Tensor dots = o.kept({rows, kChoices}), dropped = o.ids({rows, kChoices});
    std::fill_n(dropped.as<int32_t>(), dropped.count(), -1);
    kernels.rowDots(
        {.x = o.ones({rows, kWidth}), .y = o.ones({0, kWidth}), .places = dropped, .dots = dots});
    o.expectAll(dots, 0);
  }
}

void adamW(Kernels& kernels, Operands& o) {
  const AdamWTensors none{
      .weight = o.kept({0}), .gradient = o.ones({0}), .first = o.kept({0}), .second = o.kept({0})};
  kernels.adamW({.tensors = {&none, 1}});
  kernels.adamW({.tensors = {}});
}

void sgd(Kernels& kernels, Operands& o) {
  for (const Tensor& velocity : {o.leftOut(), o.kept({0})}) {
    const SgdTensors none{.weight = o.kept({0}), .gradient = o.ones({0}), .velocity = velocity};
    kernels.sgd({.tensors = {&none, 1}});
  }
  kernels.sgd({.tensors = {}});
}

void addSquares(Kernels& kernels, Operands& o) {
  ExactSum sum;
  const Tensor none = o.ones({0});
  kernels.addSquares({&none, 1}, sum);
  kernels.addSquares({}, sum);
  EXPECT_EQ(sum.value(), 0);
}

struct Kernel {
  const char* name;
  void (*call)(Kernels&, Operands&);
};
#define TUTTI_KERNEL(name) \
  Kernel { #name, name }
const std::vector<Kernel> kKernels{
    TUTTI_KERNEL(gemm),
    TUTTI_KERNEL(fillZero),
    TUTTI_KERNEL(copy),
    TUTTI_KERNEL(copyAll),
    TUTTI_KERNEL(addBias),
    TUTTI_KERNEL(biasGradient),
    TUTTI_KERNEL(add),
    TUTTI_KERNEL(layerNorm),
    TUTTI_KERNEL(layerNormBackward),
    TUTTI_KERNEL(layerNormWeights),
    TUTTI_KERNEL(gelu),
    TUTTI_KERNEL(geluBackward),
    TUTTI_KERNEL(rmsNorm),
    TUTTI_KERNEL(rmsNormBackward),
    TUTTI_KERNEL(rmsNormWeights),
    TUTTI_KERNEL(rotary),
    TUTTI_KERNEL(swiGlu),
    TUTTI_KERNEL(swiGluBackward),
    TUTTI_KERNEL(attention),
    TUTTI_KERNEL(attentionBackward),
    TUTTI_KERNEL(attentionBlock),
    TUTTI_KERNEL(attentionBlockBackward),
    TUTTI_KERNEL(attentionMerge),
    TUTTI_KERNEL(embedding),
    TUTTI_KERNEL(embeddingWeights),
    TUTTI_KERNEL(logitStatistics),
    TUTTI_KERNEL(crossEntropy),
    TUTTI_KERNEL(route),
    TUTTI_KERNEL(countChoices),
    TUTTI_KERNEL(placeTokens),
    TUTTI_KERNEL(routerGradient),
    TUTTI_KERNEL(spreadRows),
    TUTTI_KERNEL(combineRows),
    TUTTI_KERNEL(rowDots),
    TUTTI_KERNEL(adamW),
    TUTTI_KERNEL(sgd),
    TUTTI_KERNEL(addSquares),
};
#undef TUTTI_KERNEL

class KernelsWithoutRows : public testing::TestWithParam<std::tuple<TestedDevice, Types>> {};

TEST_P(KernelsWithoutRows, Compute) {
  const auto& [device, types] = GetParam();
  const std::unique_ptr<TestedKernels> tested = device.make();
  for (const Kernel& kernel : kKernels) {
    SCOPED_TRACE(kernel.name);
    Operands operands(types, *tested);
    EXPECT_NO_THROW(kernel.call(tested->kernels(), operands));
  }
  tested->finish();
}

INSTANTIATE_TEST_SUITE_P(Types, KernelsWithoutRows,
                         testing::Combine(testing::ValuesIn(computingDevices()),
                                          testing::Values(Types{DType::Float32, DType::Float32},
                                                          Types{DType::Float64, DType::Float64},
                                                          Types{DType::BFloat16, DType::BFloat16},
                                                          Types{DType::BFloat16, DType::Float32},
                                                          Types{DType::Float16, DType::Float16},
                                                          Types{DType::Float16, DType::Float32})),
                         [](const auto& made) {
                           const Types types = std::get<Types>(made.param);
                           return std::get<TestedDevice>(made.param).name + "_" +
                                  toString(types.elements) + "_" + toString(types.kept);
                         });

// The list above has all computations that the interface declares.
TEST(KernelsWithoutRowsList, IsTheWholeInterface) {
  std::ifstream file(TUTTI_KERNELS_HEADER);
  if (!file) GTEST_SKIP() << "there are no sources here";
  const std::regex declaration("^  virtual \\w+ (\\w+)\\(");
  const std::set<std::string> computeNothing{"dry",         "device",          "beginSequence",
                                             "endSequence", "abandonSequence", "normSlices"};
  std::set<std::string> declared, listed;
  std::smatch match;
  for (std::string line; std::getline(file, line);)
    if (std::regex_search(line, match, declaration) && !computeNothing.contains(match[1]))
      declared.insert(match[1]);
  for (const Kernel& kernel : kKernels) listed.insert(kernel.name);
  EXPECT_EQ(listed, declared);
}

}  // namespace
}  // namespace tutti::parallel
