// Tensor and sequence parallelism against one rank: gradients, norms and losses of both models, by
// themselves and with data parallelism and sharding; what they exchange is counted.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/engine/generate.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/nn/loss.h"
#include "tests/parallel/runs.h"

namespace tutti::parallel {
namespace {

// Nothing divides: an odd vocabulary, 2 * 7 tokens in a micro-batch, an inner width of 13.
constexpr GptOptions kGpt{.vocabulary = 37, .context = 7, .layers = 2, .width = 48, .heads = 12};
constexpr GptOptions kEightHeads{
    .vocabulary = 37, .context = 7, .layers = 2, .width = 40, .heads = 8};
constexpr LlamaOptions kLlama{.vocabulary = 41,
                              .context = 7,
                              .layers = 2,
                              .width = 48,
                              .heads = 12,
                              .kvHeads = 12,
                              .inner = 13,
                              .ropeBase = 50};

LlamaOptions llama(int64_t heads, int64_t kvHeads, bool tied = false) {
  LlamaOptions options = kLlama;
  options.width = 4 * heads;
  options.heads = heads;
  options.kvHeads = kvHeads;
  options.tied = tied;
  return options;
}

ModelOptions sequenceParallel(ModelOptions model) {
  std::visit([](auto& options) { options.sequenceParallel = true; }, model);
  return model;
}

struct Arrangement {
  std::string mesh;
  int stage = 0;       ///< of ZeRO
  bool defer = false;  ///< weight gradients come after backward
};

/// Batches of a few tokens, each of which counts other ones.
constexpr int kGroups = 4, kBatch = 2, kContext = 7;
struct Tokens {
  std::vector<int32_t> ids, labels;
  int64_t counted = 0;

  Tokens(int microBatch, int64_t vocabulary) {
    for (int i = 0; i < kBatch * kContext; ++i) {
      const int at = i + 100 * microBatch;
      ids.push_back(static_cast<int32_t>((at * at + 3 * at) % vocabulary));
      const bool counts = at % (microBatch + 2) != 0;
      labels.push_back(counts ? static_cast<int32_t>((at * 7 + 5) % vocabulary) : -1);
      counted += counts;
    }
  }
};

struct OneStep {
  double loss = 0, norm = 0;
  std::vector<StoredPart> parts;
};

/// Weights that are far from their first values, by the place of each element in the whole.
void spreadWeights(ParameterStore& store) {
  for (size_t p = 0; p < store.parameterCount(); ++p) {
    const Parameter& parameter = store.parameter(p);
    auto* const values = store.master(parameter).as<double>();
    forEachRun(wholeOf(parameter.global), store.box(parameter), [&](const BoxRun& run) {
      for (int64_t i = 0; i < run.count; ++i)
        values[run.to + i] +=
            0.05 * std::sin(static_cast<double>(31 * p) + 0.7 * static_cast<double>(run.from + i));
    });
  }
  store.restored(0);
}

/// The gradient of kGroups micro-batches, in float64.
OneStep oneStep(DeviceMesh& mesh, const ModelOptions& options, const Arrangement& layout) {
  HostKernels kernels;
  const auto model = makeModel(options);
  const int64_t vocabulary = model->vocabulary();
  const ShardPolicy policy = RunOptions::smallBuckets(ShardPolicy::zero(layout.stage));
  ParameterStore store(mesh, kernels, policy, DType::Float64);
  Arena scratch("scratch");
  ParallelContext context{mesh, kernels, store, scratch};
  Saved saved;
  saved.deferWeights = layout.defer;
  model->declare(store);
  store.initialize(kRunSeed);
  spreadWeights(store);
  double counted = 0;
  for (int m = 0; m < kGroups; ++m) counted += static_cast<double>(Tokens(m, vocabulary).counted);
  const int local = kGroups / mesh.extent(policy.data());
  store.beginStep(local);
  for (int m = 0; m < local; ++m) {
    Tokens tokens(mesh.index(policy.data()) * local + m, vocabulary);
    saved.microBatch = m;
    const Tensor ids(tokens.ids.data(), DType::Int32, {kBatch, kContext});
    const Tensor logits = model->forward(context, ids, saved);
    const Tensor labels(tokens.labels.data(), DType::Int32, {kBatch * kContext});
    const double loss = crossEntropy(
        context,
        {.logits = logits, .labels = labels, .vocabulary = vocabulary, .scale = 1 / counted});
    store.addLoss(loss, m);
    model->backward(context, logits, saved);
    if (layout.defer) {
      saved.drain(context);
      saved.reset();
    }
    EXPECT_TRUE(saved.empty());
    EXPECT_EQ(scratch.usedBytes(), 0u);
  }
  OneStep step{.loss = store.finishLoss() / counted, .norm = store.clip(0), .parts = {}};
  store.checkReplicas();
  step.parts = storedParts(store, true);
  return step;
}

struct Whole {
  double loss = 0, norm = 0;
  Values gradients, weights;
  std::vector<std::string> names;
};

Whole wholeStep(const ModelOptions& model, const Arrangement& layout) {
  const auto ranks = onRanks(MeshShape::parse(layout.mesh), false,
                             [&](DeviceMesh& m) { return oneStep(m, model, layout); });
  Whole whole{
      .loss = ranks[0].loss, .norm = ranks[0].norm, .gradients = {}, .weights = {}, .names = {}};
  std::vector<std::vector<StoredPart>> parts;
  for (const OneStep& step : ranks) {
    EXPECT_EQ(step.loss, whole.loss);
    EXPECT_EQ(step.norm, whole.norm);
    parts.push_back(step.parts);
  }
  for (const StoredPart& part : parts[0]) whole.names.push_back(part.name);
  whole.gradients = wholeValues(parts, &StoredPart::gradient);
  whole.weights = wholeValues(parts, &StoredPart::weight);
  return whole;
}

void expectLikeOneRank(const std::string& name, const ModelOptions& model,
                       const std::vector<Arrangement>& layouts) {
  const Whole one = wholeStep(model, {""});
  for (const bool sequence : {false, true})
    for (const Arrangement& layout : layouts) {
      const Whole many = wholeStep(sequence ? sequenceParallel(model) : model, layout);
      const std::string what = message(name, ", ", layout.mesh, sequence ? ", sequences cut" : "",
                                       ", zero ", layout.stage, layout.defer ? ", deferred" : "");
      size_t where = 0;
      const double worst = worstDifference(one.gradients, many.gradients, &where);
      std::printf("%s: worst relative difference %.2g, %s\n", what.c_str(), worst,
                  one.names[where].c_str());
      EXPECT_EQ(many.names, one.names) << what;
      EXPECT_TRUE(many.weights == one.weights) << what;
      EXPECT_LE(worst, 1e-12) << what << ", " << one.names[where];
      EXPECT_NEAR(many.loss / one.loss, 1, 1e-13) << what;
      EXPECT_NEAR(many.norm / one.norm, 1, 1e-12) << what;
    }
}

// Rung 1.
TEST(TensorParallel, GradientsOfGptAgreeWithOneRank) {
  expectLikeOneRank("gpt", kGpt,
                    {{"tp=2", 0},
                     {"tp=3", 0, true},
                     {"tp=4", 0},
                     {"dp=2,tp=2", 0},
                     {"fsdp=2,tp=2", 1},
                     {"fsdp=2,tp=2", 2},
                     {"fsdp=2,tp=3", 3},
                     {"dp=2,fsdp=2,tp=2", 3}});
  expectLikeOneRank("gpt", kEightHeads, {{"tp=8", 0}});
}

TEST(TensorParallel, GradientsOfLlamaAgreeWithOneRank) {
  expectLikeOneRank("llama", kLlama, {{"tp=2", 0, true}, {"tp=3", 0}, {"fsdp=2,tp=4", 3}});
  expectLikeOneRank("tied llama", llama(8, 8, true), {{"tp=8", 0}, {"dp=2,tp=2", 1}});
}

// Keys and values of which each rank has its own head or shares one.
TEST(TensorParallel, GradientsWithFewerHeadsOfKeysAgreeWithOneRank) {
  expectLikeOneRank("llama, 2 heads of keys", llama(8, 2),
                    {{"tp=2", 0},
                     {"tp=2,rep=2", 0},
                     {"tp=2,rep=4", 0},
                     {"dp=2,tp=2,rep=2", 0},
                     {"fsdp=2,tp=2,rep=2", 1},
                     {"fsdp=2,tp=2,rep=2", 3}});
  expectLikeOneRank("llama, 1 head of keys", llama(12, 1, true),
                    {{"rep=2", 0}, {"rep=3", 0}, {"rep=4", 0}, {"fsdp=2,rep=4", 2}});
  expectLikeOneRank("llama, 4 heads of keys", llama(8, 4), {{"tp=2", 0}, {"tp=4,rep=2", 0}});
}

// Fewer columns of the MLP than ranks, and fewer tokens of the vocabulary: some ranks have none.
TEST(TensorParallel, RanksMayHaveNothing) {
  LlamaOptions model = llama(4, 4);
  model.inner = 3;
  model.vocabulary = 3;
  expectLikeOneRank("a narrow llama", model, {{"tp=4", 0}, {"fsdp=2,tp=4", 3}});
}

constexpr GptOptions kRunGpt{.context = 23, .layers = 2, .width = 32, .heads = 4};
constexpr LlamaOptions kRunLlama{.context = 23,
                                 .layers = 2,
                                 .width = 32,
                                 .heads = 4,
                                 .kvHeads = 2,
                                 .inner = 45,
                                 .ropeBase = 100};

const std::vector<Arrangement> kRunLayouts{{"dp=2,tp=2", 0}, {"fsdp=2,tp=2", 3}};

template <class T>
T elementOf(const std::vector<char>& bytes, size_t i) {
  T value{};
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

/// The length of the difference of all elements, which are of these types.
template <class A, class B = A>
double distance(const Values& from, const Values& to) {
  double squares = 0;
  for (size_t p = 0; p < from.size(); ++p)
    for (size_t i = 0; i < from[p].size() / sizeof(A); ++i) {
      const double d = double{elementOf<B>(to[p], i)} - double{elementOf<A>(from[p], i)};
      squares += d * d;
    }
  return std::sqrt(squares);
}

// Rung 2: float32. The gradient is no further from float64's than twice one rank's is. The norm
// before clipping is reported; what is left of it after is the length of an SGD step of rate 0.5.
TEST(TensorParallel, Float32AgreesWithOneRank) {
  for (const ModelOptions& model : {ModelOptions(kRunGpt), ModelOptions(kRunLlama)}) {
    const Values first = run({.model = model, .steps = 0})[0].weights;
    const RunResult one = run({.model = model, .clip = 0.1})[0];
    const Values right = run({.types = DType::Float64, .model = model})[0].gradients;
    const double error = distance<double, float>(right, one.gradients);
    ASSERT_GT(one.norms[0], 0.1);
    EXPECT_NEAR(distance<float>(first, one.weights), 0.05, 1e-6);
    for (const bool sequence : {false, true})
      for (const Arrangement& layout : kRunLayouts) {
        const RunResult many =
            run({.mesh = MeshShape::parse(layout.mesh),
                 .policy = RunOptions::smallBuckets(ShardPolicy::zero(layout.stage)),
                 .model = sequence ? sequenceParallel(model) : model,
                 .clip = 0.1})[0];
        EXPECT_LE((distance<double, float>(right, many.gradients)), 2 * error) << layout.mesh;
        EXPECT_NEAR(many.norms[0] / one.norms[0], 1, 1e-6) << layout.mesh;
        EXPECT_NEAR(distance<float>(first, many.weights), 0.05, 1e-6) << layout.mesh;
      }
  }
}

// Rung 4, and rung 6 in each step.
TEST(TensorParallel, TwentyStepsOfSgdAgreeWithOneRank) {
  for (const ModelOptions& model : {ModelOptions(kRunGpt), ModelOptions(kRunLlama)}) {
    const RunResult one = run({.model = model, .groups = 2, .steps = 20})[0];
    EXPECT_LT(one.losses.back(), one.losses.front() - 0.5);
    for (const bool sequence : {false, true})
      for (const Arrangement& layout : kRunLayouts) {
        const RunResult many =
            run({.mesh = MeshShape::parse(layout.mesh),
                 .policy = RunOptions::smallBuckets(ShardPolicy::zero(layout.stage)),
                 .model = sequence ? sequenceParallel(model) : model,
                 .groups = 2,
                 .steps = 20})[0];
        for (size_t i = 0; i < one.losses.size(); ++i)
          EXPECT_NEAR(many.losses[i], one.losses[i], 1e-5) << layout.mesh << ", step " << i;
        EXPECT_NEAR(many.validation, one.validation, 1e-5) << layout.mesh;
      }
  }
}

// With the same ranks of tensor parallelism, other axes change no bit.
TEST(TensorParallel, DataParallelRanksGiveTheSameBits) {
  RunOptions options{.mesh = MeshShape::parse("tp=2"),
                     .model = sequenceParallel(kRunLlama),
                     .steps = 4,
                     .adam = true};
  options.policy.deterministic = true;
  const RunResult one = run(options)[0];
  for (const Arrangement& layout : {Arrangement{"dp=2,tp=2", 0},
                                    {"dp=4,tp=2", 0},
                                    {"fsdp=2,tp=2", 1},
                                    {"dp=2,fsdp=2,tp=2", 3}}) {
    options.mesh = MeshShape::parse(layout.mesh);
    options.policy = RunOptions::smallBuckets(ShardPolicy::zero(layout.stage));
    options.policy.deterministic = true;
    const RunResult many = run(options)[0];
    EXPECT_EQ(many.losses, one.losses) << layout.mesh;
    EXPECT_EQ(many.norms, one.norms) << layout.mesh;
    EXPECT_TRUE(many.weights == one.weights) << layout.mesh;
  }
}

// Sums of bfloat16 are rounded on the way between ranks too: 2^-8 of values that are about one.
TEST(TensorParallel, BFloat16StaysNearOneRank) {
  const RunResult one = run({.types = DType::BFloat16, .model = kRunLlama, .steps = 6})[0];
  for (const bool sequence : {false, true}) {
    const RunResult many = run({.mesh = MeshShape::parse("tp=2,rep=2"),
                                .types = DType::BFloat16,
                                .model = sequence ? sequenceParallel(kRunLlama) : kRunLlama,
                                .steps = 6})[0];
    for (size_t i = 0; i < one.losses.size(); ++i)
      EXPECT_NEAR(many.losses[i], one.losses[i], 0.02) << i;
  }
}

// With L layers, of each micro-batch: embedding, L attentions and L MLPs are added up in forward;
// the inputs of the maps of as many branches and of the head in backward. With sequences cut each
// of these is a ReduceScatter, an AllGather comes before each branch and the head in forward and
// before each of the additions in backward, and another of the same rows for the weights' gradient.
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
  // sequences cut also the weights of 2 L + 1 norms, over other axes.
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
      Saved saved;
      model.declare(store);
      store.initialize(1);
      std::vector<int32_t> ids(64, 3);
      model.forward(context, Tensor(ids.data(), DType::Int32, {2, 32}), saved);
      const size_t bytes = saved.untilBackward.usedBytes() + saved.untilWeights.usedBytes();
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
      return generate(engine, {.prompt = "a", .bytes = 30, .context = 23, .temperature = 0});
    });
  };
  for (const ModelOptions& model : {ModelOptions(kRunGpt), ModelOptions(kRunLlama)}) {
    const std::string one = text("", model)[0];
    for (const std::string mesh : {"tp=2", "tp=2,rep=2", "dp=2,tp=2"}) {
      if (mesh == "tp=2,rep=2" && std::holds_alternative<GptOptions>(model)) continue;
      for (const bool sequence : {false, true})
        for (const std::string& many : text(mesh, sequence ? sequenceParallel(model) : model))
          EXPECT_EQ(many, one) << mesh;
    }
  }
}

// One bit of one weight of one rank, of those that other ranks of tensor parallelism hold too: all
// ranks are told.
TEST(TensorParallel, CheckReplicasSeesOneBit) {
  for (const std::string name :
       {"finalNorm.weight", "blocks.1.attention.key.weight", "blocks.0.mlp.down.weight"})
    for (const std::string mesh : {"tp=2,rep=2", "fsdp=2,tp=2,rep=2"}) {
      const bool held = name != "blocks.0.mlp.down.weight";  // by others too
      const auto said = onRanks(MeshShape::parse(mesh), false, [&](DeviceMesh& m) -> std::string {
        HostKernels kernels;
        const auto model = makeModel(kRunLlama);
        Engine engine(m, kernels, *model, {.policy = ShardPolicy::zero(1)});
        ParameterStore& store = engine.store();
        store.checkReplicas();
        for (size_t p = 0; p < store.parameterCount() && m.rank() == 1; ++p)
          if (const Tensor master = store.master(store.parameter(p));
              store.parameter(p).name == name)
            static_cast<uint8_t*>(master.data)[3] ^= 1;
        try {
          store.checkReplicas();
          return "nothing";
        } catch (const Error& error) {
          const std::string what = error.what();
          return what.find(name) != std::string::npos ? "named" : what;
        }
      });
      for (const std::string& rank : said) EXPECT_EQ(rank, held ? "named" : "nothing") << name;
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
