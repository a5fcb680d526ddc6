// A model's logits have rows that begin at multiples of 16 bytes. What lies between them is NaN
// before a step, nobody reads it, and nobody writes it; losses and gradients are to the bit those
// of logits without gaps. Whole logits have none, on any layout.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "parallel/engine/generate.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/nn/gpt.h"
#include "parallel/nn/loss.h"
#include "tests/parallel/support/on_ranks.h"

namespace tutti::parallel {
namespace {

constexpr int64_t kVocabulary = 37, kBatch = 2, kContext = 6, kTokens = kBatch * kContext;

GptOptions gpt(int64_t vocabulary, int64_t layers = 1) {
  return {.vocabulary = vocabulary, .context = kContext, .layers = layers, .width = 16, .heads = 2};
}

/// Bytes that are NaN in all types: what an arena gives next.
void poison(Arena& arena) {
  const Tensor all = arena.allocate(DType::UInt8, {1 << 20});
  std::memset(all.data, 0xff, all.bytes());
  arena.rewind({});
}

struct Training {
  DeviceMesh mesh;
  HostKernels kernels;
  Gpt model;
  ParameterStore store;
  Arena scratch{"scratch"};
  ParallelContext context{mesh, kernels, store, scratch};
  ActivationStash stash;
  std::vector<int32_t> ids, labels;

  Training(int64_t vocabulary, DType type)
      : model(gpt(vocabulary)), store(mesh, kernels, {}, type) {
    model.declare(store);
    store.initialize(3);
    for (int32_t i = 0; i < kTokens; ++i) {
      ids.push_back((7 * i + i * i) % static_cast<int32_t>(vocabulary));
      labels.push_back(i == 4 ? -1 : (5 * i + 2) % static_cast<int32_t>(vocabulary));
    }
    for (Arena* arena : {&scratch, &stash.untilBackward, &stash.untilWeights}) poison(*arena);
    stash.deferWeights = true;  // nothing of the step gives its memory back before the end
    store.beginStep(1);
  }
  Tensor forward() {
    return model.forward(context, Tensor(ids.data(), DType::Int32, {kBatch, kContext}), stash);
  }
  double lossOf(const Tensor& logits) {
    return crossEntropy(context, {.logits = logits,
                                  .labels = Tensor(labels.data(), DType::Int32, {kTokens}),
                                  .vocabulary = model.vocabulary(),
                                  .scale = 1.0 / (kTokens - 1)});
  }
  using Gradients = std::map<std::string, std::vector<char>>;
  Gradients backward(const Tensor& dLogits) {
    model.backward(context, dLogits, stash);
    stash.drain(context);
    store.addLoss(0, 0);
    Gradients all;
    for (size_t p = 0; p < store.parameterCount(); ++p) {
      const Tensor gradient = store.finishedGradient(store.parameter(p));
      const auto* const bytes = static_cast<const char*>(gradient.data);
      all[store.parameter(p).name] = {bytes, bytes + gradient.bytes()};
      const Tensor wide = scratch.allocate(DType::Float64, gradient.shape);
      kernels.copy(gradient, wide);
      for (int64_t i = 0; i < wide.count(); ++i)
        EXPECT_TRUE(std::isfinite(wide.as<double>()[i])) << store.parameter(p).name << " " << i;
    }
    return all;
  }
};

void expectNaNBetweenRows(const Tensor& logits, const char* when) {
  const Tensor rows = logits.matrix();
  const auto elementBytes = static_cast<int64_t>(sizeOf(rows.type));
  const int64_t gap = (rows.strides[0] - rows.shape[1]) * elementBytes;
  ASSERT_GT(gap, 0);
  for (int64_t r = 0; r < rows.shape[0]; ++r) {
    const auto* const end = static_cast<const unsigned char*>(rows.part(1, rows.shape[1], 0).data) +
                            r * rows.strides[0] * elementBytes;
    for (int64_t i = 0; i < gap; ++i) ASSERT_EQ(end[i], 0xff) << when << ", row " << r;
  }
}

TEST(LogitRows, HaveGapsThatNobodyReadsOrWrites) {
  for (const DType type : {DType::Float32, DType::BFloat16, DType::Float16}) {
    SCOPED_TRACE(toString(type));
    Training padded(kVocabulary, type), dense(kVocabulary, type);
    const Tensor logits = padded.forward(), withGaps = dense.forward();
    EXPECT_EQ(logits.shape, Shape({kBatch, kContext, kVocabulary}));
    EXPECT_EQ(logits.rowStride(), 40);
    expectNaNBetweenRows(logits, "behind forward");
    Tensor without = dense.stash.untilWeights.allocate(type, logits.shape);
    without.layout = withGaps.layout;
    dense.kernels.copy(withGaps, without);
    const double loss = padded.lossOf(logits);
    EXPECT_TRUE(std::isfinite(loss));
    EXPECT_EQ(loss, dense.lossOf(without));
    expectNaNBetweenRows(logits, "behind the loss");
    const Training::Gradients gradients = padded.backward(logits);
    expectNaNBetweenRows(logits, "behind backward");
    EXPECT_TRUE(gradients == dense.backward(without));
    for (Training* training : {&padded, &dense}) training->stash.reset();
  }
}

TEST(LogitRows, HaveNoGapsWhereTheyAlreadyBeginAt16Bytes) {
  EXPECT_TRUE(Training(40, DType::BFloat16).forward().contiguous());
  EXPECT_TRUE(Training(36, DType::Float32).forward().contiguous());
  EXPECT_FALSE(Training(36, DType::BFloat16).forward().contiguous());
  EXPECT_TRUE(Training(kVocabulary, DType::Float64).forward().contiguous());
}

/// Logits of all positions, and those of the last one.
std::vector<float> logitsOf(DeviceMesh& mesh, const GptOptions& options) {
  HostKernels kernels;
  Gpt model(options);
  Engine engine(mesh, kernels, model, {.types = DType::Float32});
  std::vector<int32_t> ids{3, 1, 30, 7, 5, 12};
  const Tensor text(ids.data(), DType::Int32, {1, kContext});
  const Tensor all = engine.logits(text);
  EXPECT_TRUE(all.contiguous());
  EXPECT_EQ(all.shape, Shape({1, kContext, kVocabulary}));
  std::vector<float> values{all.as<float>(), all.as<float>() + all.count()};
  KeyValues before(kContext);
  const Tensor next = engine.nextLogits(text, before);
  EXPECT_TRUE(next.contiguous());
  for (int64_t i = 0; i < next.count(); ++i)
    values.push_back(static_cast<float>(next.as<double>()[i]));
  engine.forget();
  return values;
}

// Ranks have other orders of sums in float32.
TEST(LogitRows, OfWholeLogitsHaveNone) {
  const GptOptions options = gpt(kVocabulary, 2);
  DeviceMesh alone;
  const std::vector<float> one = logitsOf(alone, options);
  ASSERT_EQ(std::ssize(one), (kContext + 1) * kVocabulary);
  for (const char* const shape : {"tp=2", "cp=2", "pp=2", "pp=2,tp=2"})
    for (const auto& values : onRanks(MeshShape::parse(shape), false,
                                      [&](DeviceMesh& mesh) { return logitsOf(mesh, options); }))
      for (size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(values[i], one[i], 1e-5) << shape;
}

}  // namespace
}  // namespace tutti::parallel
