// Which kernels calls take that look rows up or merge them: those by words of 16 bytes where
// operands allow, and the reference ones where these are asked for, or operands are of float64.

#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include "parallel/kernels/cuda/cuda_kernels.h"
#include "tests/device/cuda_test.h"
#include "tests/emulation/runtime/launched_kernels.h"

namespace tutti::parallel {
namespace {

using tests::gpu;

class TakenKernels : public tests::CudaTest {
 protected:
  /// Of zeros, which are ids and places, too.
  Tensor make(DType type, const Shape& shape) {
    memory_.push_back(allocatePinned(byteCount(type, shape)));
    std::memset(memory_.back().data(), 0, memory_.back().bytes());
    return {memory_.back().data(), type, shape};
  }
  using Call = std::function<void(Kernels&, DType)>;
  /// How often a call with operands of a type begins a kernel of that name.
  int64_t begun(const Call& call, DType type, const std::string& name, const char* family) {
    ::setenv("TUTTI_MEMORY_BOUND", family, 1);
    CudaKernels kernels(stream_);
    ::unsetenv("TUTTI_MEMORY_BOUND");
    const emulation::LaunchedKernels counted;
    call(kernels, type);
    stream_.synchronize();
    return counted.of("::" + name).begun;
  }
  void expectTaken(const Call& call, const std::string& vectorized, const std::string& reference) {
    for (const DType type : {DType::BFloat16, DType::Float32}) {
      EXPECT_GT(begun(call, type, vectorized, "vectorized"), 0)
          << vectorized << ", " << toString(type);
      EXPECT_EQ(begun(call, type, reference, "vectorized"), 0)
          << reference << ", " << toString(type);
      EXPECT_EQ(begun(call, type, vectorized, "reference"), 0)
          << vectorized << ", " << toString(type);
      EXPECT_GT(begun(call, type, reference, "reference"), 0)
          << reference << ", " << toString(type);
    }
    EXPECT_GT(begun(call, DType::Float64, reference, "vectorized"), 0)
        << reference << " of float64";
    EXPECT_EQ(begun(call, DType::Float64, vectorized, "vectorized"), 0)
        << vectorized << " of float64";
  }

  std::vector<Memory> memory_;
  Stream stream_{gpu(0)};
  Arena arena_{"scratch"};
};

TEST_F(TakenKernels, OfEmbeddings) {
  const Tensor ids = make(DType::Int32, {2, 6});
  expectTaken(
      [&](Kernels& k, DType type) {
        k.embedding({.tokenIds = ids, .tokens = make(type, {5, 16}), .x = make(type, {2, 6, 16})});
      },
      "embeddingRuns<", "embedding<");
  const Call gradients = [&](Kernels& k, DType type) {
    k.embeddingWeights(
        {.tokenIds = ids, .dx = make(type, {2, 6, 16}), .dTokens = make(type, {5, 16})});
  };
  expectTaken(gradients, "sumRuns<", "sumByRow<");
  // Nobody looks for tokens one by one, whatever they are of, but where that is asked for.
  for (const DType type : {DType::BFloat16, DType::Float64}) {
    EXPECT_GT(begun(gradients, type, "moveByDigit(", "vectorized"), 0);
    EXPECT_EQ(begun(gradients, type, "linkRows(", "vectorized"), 0);
    EXPECT_EQ(begun(gradients, type, "moveByDigit(", "reference"), 0);
    EXPECT_GT(begun(gradients, type, "linkRows(", "reference"), 0);
  }
}

TEST_F(TakenKernels, OfRowsForExperts) {
  const Tensor places = make(DType::Int32, {3, 2});
  for (int32_t choice = 0; choice < 6; ++choice) places.as<int32_t>()[choice] = choice;
  expectTaken(
      [&](Kernels& k, DType type) {
        k.spreadRows({.x = make(type, {3, 16}), .places = places, .y = make(type, {6, 16})});
      },
      "spreadRuns<", "spreadRows<");
  expectTaken(
      [&](Kernels& k, DType type) {
        k.combineRows({.x = make(type, {6, 16}), .places = places, .y = make(type, {3, 16})});
      },
      "combineRuns<", "combineRows<");
  expectTaken(
      [&](Kernels& k, DType type) {
        k.rowDots({.x = make(type, {3, 16}),
                   .y = make(type, {6, 16}),
                   .places = places,
                   .dots = make(statisticsType(type), {3, 2})});
      },
      "dotRuns<", "rowDots<");
}

// Of several slices, which no second kernel adds up.
TEST_F(TakenKernels, OfSumsOverRows) {
  const auto sums = [&](Kernels& k, DType type) {
    const Tensor dy = make(type, {300, 16}), x = make(type, {300, 16}), sum = make(type, {16});
    const Tensor mean = make(statisticsType(type), {300}), rstd = make(statisticsType(type), {300});
    k.biasGradient(dy, sum, 0);
    k.rmsNormWeights({.dy = dy, .x = x, .rstd = rstd, .dWeight = sum});
    k.layerNormWeights(
        {.dy = dy, .x = x, .mean = mean, .rstd = rstd, .dWeight = sum, .dBias = make(type, {16})});
  };
  expectTaken(sums, "sumsOfSlices<", "columnSums<");
  EXPECT_EQ(begun(sums, DType::BFloat16, "sumsOfColumns<", "vectorized"), 0);
}

TEST_F(TakenKernels, OfAttention) {
  expectTaken(
      [&](Kernels& k, DType type) {
        const Tensor part = make(type, {1, 3, 32}), out = make(type, {1, 3, 32});
        const Tensor sums = make(statisticsType(type), {1, 2, 3}),
                     more = make(statisticsType(type), {1, 2, 3});
        k.attentionMerge(
            {.part = part, .partLogSumExp = more, .out = out, .logSumExp = sums, .heads = 2});
      },
      "mergeRuns<", "attentionMerge<");
  expectTaken(
      [&](Kernels& k, DType type) {
        k.attentionBackward({.dOut = make(type, {1, 3, 32}),
                             .qkv = make(type, {1, 3, 96}),
                             .out = make(type, {1, 3, 32}),
                             .logSumExp = make(statisticsType(type), {1, 2, 3}),
                             .dQkv = make(type, {1, 3, 96}),
                             .heads = 2,
                             .kvHeads = 2},
                            arena_);
      },
      "headDots<", "attentionDots<");
}

// Statistics and gradient of a vocabulary that is not cut are one launch, and so are an update and
// its copy in 16 bits.
TEST_F(TakenKernels, OfLossesAndUpdatesWithCopies) {
  const Tensor labels = make(DType::Int32, {3});
  const Call loss = [&](Kernels& k, DType type) {
    k.crossEntropy({.logits = make(type, {3, 64}), .labels = labels});
  };
  EXPECT_EQ(begun(loss, DType::BFloat16, "lossesOfWholeRows<", "vectorized"), 1);
  for (const char* const other : {"statisticsOfRows<", "slopesOfRows<"})
    EXPECT_EQ(begun(loss, DType::BFloat16, other, "vectorized"), 0) << other;
  const Call update = [&](Kernels& k, DType copy) {
    const auto some = [&] { return make(DType::Float32, {40}); };
    const AdamWTensors one{.weight = some(),
                           .gradient = some(),
                           .first = some(),
                           .second = some(),
                           .copy = make(copy, {40})};
    k.adamW({.tensors = {&one, 1}, .learningRate = 0.5, .epsilon = 1});
  };
  for (const DType copy : {DType::BFloat16, DType::Float16})
    EXPECT_EQ(begun(update, copy, "updated<", "vectorized"), 1) << toString(copy);
}

}  // namespace
}  // namespace tutti::parallel
