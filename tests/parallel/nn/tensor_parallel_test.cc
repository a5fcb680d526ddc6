// Tensor and sequence parallelism: what ranks exchange and hold is counted, they write one rank's
// text, and heads are dealt out. That gradients and steps are one rank's is the parity ladder's
// (parity/).

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/engine/generate.h"
#include "parallel/kernels/host/host_kernels.h"
#include "tests/parallel/support/layouts.h"

namespace tutti::parallel {
namespace {

// With L layers, of each micro-batch: embedding, L attentions and L MLPs are added up in forward;
// the inputs of the maps of as many branches and of the head in backward. With sequence parallelism
// each of these is a ReduceScatter, an AllGather comes before each branch and the head in forward
// and before each of the additions in backward, and another of the same rows for the weights'
// gradient.
TEST(TensorParallel, CollectivesOfAStepAreCounted) {
  constexpr int kLayers = 2, kRanks = 2, kMicroBatches = 4, kSums = 1 + 2 * kLayers;
  constexpr size_t kTokens = kSmallBatch / kMicroBatches * 23, kAll = kMicroBatches;
  constexpr size_t kRows = kTokens * 32 * sizeof(float);
  constexpr size_t kStatistics = kTokens * 3 * kRanks * sizeof(float);
  const auto counted = [](const ModelOptions& model, const std::string& mesh) {
    return run({.mesh = MeshShape::parse(mesh), .model = model, .steps = 2})[0];
  };
  for (const ModelOptions& model : {ModelOptions(kRunGpt), ModelOptions(kRunLlama)}) {
    const RunResult plain = counted(model, "tp=2");
    EXPECT_EQ(plain.tensor.allReduce,
              (CollectiveCount{kMicroBatches * 2 * kSums, kAll * 2 * kSums * kRows}));
    EXPECT_EQ(plain.tensor.reduceScatter, CollectiveCount{});
    EXPECT_EQ(plain.tensor.allGather, (CollectiveCount{kMicroBatches, kAll * kStatistics}));
    EXPECT_EQ(plain.counters.partialAllReduce, CollectiveCount{});

    const RunResult cut = counted(sequenceParallel(model), "tp=2");
    EXPECT_EQ(cut.tensor.allReduce, CollectiveCount{});
    EXPECT_EQ(cut.tensor.reduceScatter,
              (CollectiveCount{kMicroBatches * 2 * kSums, kAll * 2 * kSums * kRows}));
    EXPECT_EQ(cut.tensor.allGather, (CollectiveCount{kMicroBatches * (3 * kSums + 1),
                                                     kAll * (3 * kSums * kRows + kStatistics)}));
    for (const ModelOptions& alone : {model, sequenceParallel(model)}) {
      const RunResult nothing = counted(alone, "dp=2");
      EXPECT_EQ(nothing.tensor.allReduce, CollectiveCount{});
      EXPECT_EQ(nothing.tensor.reduceScatter, CollectiveCount{});
      EXPECT_EQ(nothing.tensor.allGather, CollectiveCount{});
      EXPECT_EQ(nothing.counters.partialAllReduce, CollectiveCount{});
    }
  }
  // Gradients of norms and of biases behind rows: weights and biases of 2 L + 1 norms, 2 L biases.
  EXPECT_EQ(counted(sequenceParallel(kRunGpt), "tp=2").counters.partialAllReduce,
            (CollectiveCount{1, (2 * (2 * kLayers + 1) + 2 * kLayers) * 32 * sizeof(float)}));
  // Keys and values of two heads, of which each pair of ranks has one, [8, 32] each; and with
  // sequence parallelism also the weights of 2 L + 1 norms, over other axes.
  constexpr size_t kKeys = kLayers * 2 * 8 * 32 * sizeof(float);
  EXPECT_EQ(counted(kRunLlama, "tp=2,rep=2").counters.partialAllReduce,
            (CollectiveCount{1, kKeys}));
  EXPECT_EQ(counted(sequenceParallel(kRunLlama), "tp=2,rep=2").counters.partialAllReduce,
            (CollectiveCount{2, kKeys + (2 * kLayers + 1) * 32 * sizeof(float)}));
}

// What a rank has of weights, and what it keeps of a micro-batch until backward.
TEST(TensorParallel, RanksShareOutMemory) {
  const auto kept = [](const std::string& mesh, bool sequence) {
    return onRanks(MeshShape::parse(mesh), false, [&](DeviceMesh& m) {
      HostKernels kernels;
      Gpt model(
          {.context = 32, .layers = 2, .width = 64, .heads = 4, .sequenceParallel = sequence});
      ParameterStore store(m, kernels, {}, DType::Float32);
      Arena scratch("scratch");
      ParallelContext context{m, kernels, store, scratch};
      ActivationStash stash;
      model.declare(store);
      store.initialize(1);
      std::vector<int32_t> ids(64, 3);
      model.forward(context, Tensor(ids.data(), DType::Int32, {2, 32}), stash);
      const size_t bytes = stash.untilBackward.usedBytes() + stash.untilWeights.usedBytes();
      const double said =
          savedPerToken(model.options(), context.tensor.ranks()) * 64 * sizeof(float);
      // The arenas round each tensor up to 64 bytes; there are fewer than 20 of a block.
      EXPECT_GE(static_cast<double>(bytes), said);
      EXPECT_LE(static_cast<double>(bytes), said + 3 * 20 * 64);
      return std::pair{store.memory().weights, bytes};
    })[0];
  };
  const auto one = kept("", false), plain = kept("tp=4", false), cut = kept("tp=4", true);
  EXPECT_LT(plain.first, one.first / 3);
  EXPECT_LT(plain.second, one.second / 2);
  EXPECT_LT(cut.second, one.second / 3);
}

TEST(TensorParallel, WritesTheTextOfOneRank) {
  const auto text = [](const std::string& mesh, const ModelOptions& options) {
    return onRanks(MeshShape::parse(mesh), false, [&](DeviceMesh& m) {
      HostKernels kernels;
      const auto model = makeModel(options);
      Engine engine(m, kernels, *model, {.policy = {}, .types = DType::Float64});
      return generate(engine, {.prompt = {'a'}, .tokens = 30, .context = 23, .temperature = 0});
    });
  };
  for (const ModelOptions& model : {ModelOptions(kRunGpt), ModelOptions(kRunLlama)}) {
    const std::vector<int32_t> one = text("", model)[0];
    for (const std::string mesh : {"tp=2", "tp=2,rep=2", "dp=2,tp=2"}) {
      if (mesh == "tp=2,rep=2" && std::holds_alternative<GptOptions>(model)) continue;
      for (const bool sequence : {false, true})
        for (const std::vector<int32_t>& many :
             text(mesh, sequence ? sequenceParallel(model) : model))
          EXPECT_EQ(many, one) << mesh;
    }
  }
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
    return "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    return error.what();
  }
}

TEST(TensorParallel, HeadsAreDealtOut) {
  const auto shape = [](int ranks, int64_t heads, int64_t kvHeads) {
    MeshShape made;
    setTensorRanks(made, ranks, heads, kvHeads);
    return made.describe();
  };
  EXPECT_EQ(shape(1, 12, 3), "one rank");
  EXPECT_EQ(shape(4, 8, 8), "tp=4");
  EXPECT_EQ(shape(4, 8, 2), "tp=2,rep=2");
  EXPECT_EQ(shape(4, 8, 1), "rep=4");
  EXPECT_EQ(shape(8, 8, 4), "tp=4,rep=2");
  EXPECT_EQ(refusal([&] { shape(5, 12, 12); }),
            "12 heads, 12 of keys and values, cannot be dealt out to 5 ranks of tensor "
            "parallelism: 4 or 6 would do");
  EXPECT_EQ(refusal([&] { shape(4, 12, 6); }),
            "12 heads, 6 of keys and values, cannot be dealt out to 4 ranks of tensor "
            "parallelism: 3 or 6 would do");
  EXPECT_NE(refusal([&] { shape(100, 12, 6); }).find("100 ranks of tensor parallelism: 12 would"),
            std::string::npos);
  EXPECT_NE(refusal([&] { shape(0, 12, 6); }).find("0 ranks of tensor parallelism: 1 would"),
            std::string::npos);
  EXPECT_EQ(refusal([&] { shape(2, 12, 5); }),
            "12 heads do not share 5 heads of keys and values evenly");
}

LlamaOptions llama(int64_t heads, int64_t kvHeads) {
  LlamaOptions options = kRunLlama;
  options.width = 4 * heads;
  options.heads = heads;
  options.kvHeads = kvHeads;
  return options;
}

TEST(TensorParallel, MeshesThatDoNotSuitTheHeadsAreRefused) {
  const auto said = [](const std::string& mesh, const ModelOptions& options) {
    return onRanks(MeshShape::parse(mesh), false, [&](DeviceMesh& m) {
      return refusal([&] {
        HostKernels kernels;
        const auto model = makeModel(options);
        Engine engine(m, kernels, *model, {});
      });
    })[0];
  };
  EXPECT_EQ(said("tp=2,rep=2", llama(8, 2)), "taken");
  EXPECT_EQ(said("tp=4", llama(8, 2)),
            "8 heads, 2 of keys and values, need a mesh of tp=2,rep=2, not tp=4");
  EXPECT_EQ(said("tp=2,rep=2", llama(8, 8)),
            "8 heads, 8 of keys and values, need a mesh of tp=4, not tp=2,rep=2");
  EXPECT_NE(said("tp=3", llama(8, 8)).find("2 or 4 would do"), std::string::npos);
}

}  // namespace
}  // namespace tutti::parallel
