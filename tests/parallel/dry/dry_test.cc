// A run without data says what a run with data then uses: memory by kind and collectives, equal to
// the byte, on every rank of every preset.

#include "parallel/dry/dry_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>

#include "parallel/engine/describe.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/mesh/redistribute.h"
#include "parallel/nn/gpt.h"
#include "parallel/nn/llama.h"
#include "parallel/nn/model_options.h"
#include "tests/parallel/support/layouts.h"
#include "tests/parallel/support/runs.h"

namespace tutti::parallel {
namespace {

using MakeModel = std::function<std::unique_ptr<Model>()>;
using MakeOptimizer = std::function<std::unique_ptr<Optimizer>()>;

std::unique_ptr<Optimizer> adamW() { return makeAdamW({}); }
std::unique_ptr<Optimizer> sgd() { return makeSgd({}); }
std::unique_ptr<Optimizer> momentum() { return makeSgd({.momentum = 0.9}); }

std::unique_ptr<Model> smallGpt() { return std::make_unique<Gpt>(kSmallGpt); }
/// Nothing divides: neither rows by ranks, nor sequences by micro-batches.
std::unique_ptr<Model> oddLlama() {
  return std::make_unique<Llama>(LlamaOptions{.vocabulary = 257,
                                              .context = 24,
                                              .layers = 3,
                                              .width = 36,
                                              .heads = 6,
                                              .kvHeads = 2,
                                              .inner = 57});
}

struct Training {
  MakeModel model = smallGpt;
  MakeOptimizer optimizer = adamW;
  EngineOptions engine = {};
  int64_t batch = kSmallBatch;
};

/// What a rank used in its second step, with data.
struct Used {
  TrainingMemory memory;
  StoreCounters counters;
  CollectiveCounters tensor;
  Collectives collectives;
};

Used train(DeviceMesh& mesh, const Training& training) {
  HostKernels kernels;
  const auto model = training.model();
  const auto optimizer = training.optimizer();
  Engine engine(mesh, kernels, *model, training.engine);
  const auto text = makeText();
  Loader loader(text, kSmallGpt.context, training.batch, kRunSeed);
  engine.step(loader, 0, *optimizer, 0.01);
  const auto before = mesh.counters();
  Used used;
  const StepReport report = engine.step(loader, 1, *optimizer, 0.01);
  used.counters = report.counters;
  used.tensor = report.tensor;
  used.memory = engine.memory();
  used.collectives = since(before, mesh.counters());
  return used;
}

DryRun dry(const MeshShape& shape, int rank, const Training& training) {
  const auto model = training.model();
  const auto optimizer = training.optimizer();
  return dryRun({.mesh = shape,
                 .rank = rank,
                 .engine = training.engine,
                 .batch = training.batch,
                 .context = kSmallGpt.context},
                *model, *optimizer);
}

void expectSame(const ArenaUse& said, const ArenaUse& used, const std::string& where) {
  EXPECT_EQ(said.peak, used.peak) << where;
  EXPECT_EQ(said.held, used.held) << where;
}

void expectSame(const DryRun& said, const Used& used, const std::string& where) {
  const StoreMemory &a = said.memory.store, &b = used.memory.store;
  EXPECT_EQ(a.weights, b.weights) << where;
  EXPECT_EQ(a.masters, b.masters) << where;
  EXPECT_EQ(a.gradients, b.gradients) << where;
  EXPECT_EQ(a.gradientShards, b.gradientShards) << where;
  EXPECT_EQ(a.optimizer, b.optimizer) << where;
  EXPECT_EQ(a.staging, b.staging) << where;
  EXPECT_EQ(a, b) << where;
  expectSame(said.memory.untilBackward, used.memory.untilBackward, where + ", until backward");
  expectSame(said.memory.untilWeights, used.memory.untilWeights, where + ", until weights");
  expectSame(said.memory.scratch, used.memory.scratch, where + ", scratch");
  EXPECT_GT(said.memory.scratch.peak, 0u) << where;
  EXPECT_EQ(said.memory.between, used.memory.between) << where;
  EXPECT_EQ(said.counters.allReduce, used.counters.allReduce) << where;
  EXPECT_EQ(said.counters.reduceScatter, used.counters.reduceScatter) << where;
  EXPECT_EQ(said.counters.allGather, used.counters.allGather) << where;
  EXPECT_EQ(said.counters.partialAllReduce, used.counters.partialAllReduce) << where;
  EXPECT_EQ(said.tensor, used.tensor) << where;
  EXPECT_EQ(said.counters.startedEarly, used.counters.startedEarly) << where;
  EXPECT_EQ(said.counters.prefetched, used.counters.prefetched) << where;
  EXPECT_EQ(said.collectives, used.collectives) << where;
}

/// On every rank.
void expectSame(const Arrangement& layout, const Training& training, const std::string& what) {
  host::setBlasThreads(1);
  std::vector<Used> used;
  if (DeviceMesh alone; layout.mesh.ranks() == 1)
    used.push_back(train(alone, training));
  else
    used = onRanks(layout.mesh, training.engine.policy.deterministic,
                   [&](DeviceMesh& mesh) { return train(mesh, training); });
  for (size_t rank = 0; rank < used.size(); ++rank)
    expectSame(dry(layout.mesh, static_cast<int>(rank), training), used[rank],
               message(layout.name, ", ", what, ", rank ", rank));
}

/// Every preset on 1, 2, 3 and 4 ranks.
std::vector<Arrangement> presets() {
  std::vector<Arrangement> all;
  for (const int ranks : {1, 2, 3, 4})
    for (const Arrangement& layout : layouts(ranks)) all.push_back(layout);
  return all;
}

TEST(Dry, SaysWhatEveryPresetUses) {
  for (const Arrangement& layout : presets())
    for (const DType type : {DType::Float32, DType::BFloat16})
      for (const int rounds : {1, 2}) {
        const int ranks = layout.mesh.ranks();
        const Training training{.engine = {.policy = layout.policy,
                                           .types = type,
                                           .reductionGroups = ranks == 3 ? 3 : 4,
                                           .rounds = rounds}};
        expectSame(layout, training, message(toString(type), ", ", rounds, " rounds"));
      }
}

// Blocks of a Llama, sequences that micro-batches do not share evenly, the balanced tree, float64,
// and optimizers with one tensor of state and with none.
TEST(Dry, SaysWhatOtherTrainingsUse) {
  for (Arrangement layout : presets()) {
    if (layout.mesh.ranks() == 3) continue;
    layout.policy.deterministic = true;
    const Training training{
        .model = oddLlama,
        .optimizer = layout.policy.gradients ? momentum : sgd,
        .engine = {.policy = layout.policy,
                   .types = layout.policy.optimizer ? DType::Float64 : DType::Float32,
                   .reductionGroups = 8},
        .batch = 11};
    expectSame(layout, training, "deterministic");
  }
}

// Every schedule, stages of several sizes, a tied embedding at both ends, and sequences that
// micro-batches do not share evenly.
TEST(Dry, SaysWhatPipelinesUse) {
  const auto gpt = []() -> std::unique_ptr<Model> {
    GptOptions options = kSmallGpt;
    options.layers = 5;
    return std::make_unique<Gpt>(options);
  };
  for (const ScheduleKind kind :
       {ScheduleKind::Naive, ScheduleKind::GPipe, ScheduleKind::OneFOneB, ScheduleKind::Interleaved,
        ScheduleKind::ZeroBubbleH1, ScheduleKind::ZeroBubbleV})
    for (const Arrangement& layout :
         {arrangement("pp=2"), arrangement("pp=2,fsdp=2", zero(3)),
          arrangement("pp=2,fsdp=2", zero(1)), arrangement("pp=2,tp=2")})
      for (const bool deterministic : {false, true}) {
        Training training{.model = gpt,
                          .engine = {.policy = layout.policy,
                                     .reductionGroups = 4,
                                     .pipeline = {.schedule = kind}},
                          .batch = deterministic ? kSmallBatch : 7};
        training.engine.policy.deterministic = deterministic;
        expectSame(layout, training, message(toString(kind), deterministic));
      }
}

// Tensor parallelism with uneven parts, and keys and values that ranks share; sequence parallelism
// with rows that they do not share evenly; both with state that is shared out over other ranks.
TEST(Dry, SaysWhatTensorParallelTrainingsUse) {
  const auto gpt = [](bool sequence) {
    return [sequence]() -> std::unique_ptr<Model> {
      GptOptions options = kSmallGpt;
      options.vocabulary = 257;
      options.sequenceParallel = sequence;
      return std::make_unique<Gpt>(options);
    };
  };
  const auto llama = [](bool sequence) {
    return [sequence]() -> std::unique_ptr<Model> {
      return std::make_unique<Llama>(LlamaOptions{.vocabulary = 257,
                                                  .context = 24,
                                                  .layers = 2,
                                                  .width = 24,
                                                  .heads = 4,
                                                  .kvHeads = 2,
                                                  .inner = 37,
                                                  .sequenceParallel = sequence});
    };
  };
  for (const bool sequence : {false, true})
    for (const char* text : {"tp=2", "dp=2,tp=2", "fsdp=2,tp=2"})
      for (const int stage : {0, 1, 3})
        for (const MakeModel& model : {MakeModel(gpt(sequence)), MakeModel(llama(sequence))}) {
          const Training training{
              .model = model, .engine = {.policy = zero(stage), .reductionGroups = 4}, .batch = 11};
          expectSame({message(text, ", zero ", stage), MeshShape::parse(text), zero(stage)},
                     training, sequence ? "by rows" : "plain");
        }
  const Training shared{.model = llama(true), .engine = {.reductionGroups = 2}};
  expectSame({"tp=2,rep=2", MeshShape::parse("tp=2,rep=2"), zero(0)}, shared, "by rows");
}

// Where ranks add up what attention gives, its residual is no pass of its own.
TEST(Dry, NormsAddWhatGoesAroundAttention) {
  const Training training{.model = oddLlama, .engine = {}, .batch = 4};
  const DryRun whole = dry({}, 0, training), cut = dry(MeshShape::parse("tp=2"), 0, training);
  EXPECT_EQ(whole.kernels.count("add"), 0u);
  const KernelCount &add = cut.kernels.at("add"), &norms = cut.kernels.at("rmsNorm"),
                    &alone = whole.kernels.at("rmsNorm");
  EXPECT_EQ(norms.calls, alone.calls);
  EXPECT_EQ(7 * add.calls, 3 * norms.calls);  // behind the MLP of each of the three blocks
  EXPECT_EQ(norms.bytesRead - alone.bytesRead, add.bytesWritten);
  EXPECT_EQ(norms.bytesWritten - alone.bytesWritten, add.bytesWritten);
}

// On a GPU a norm's backward leaves sums of slices of 16 rows, which are what its weights'
// gradients read.
TEST(Dry, NormsOfAGpuLeaveSums) {
  constexpr int64_t kWidth = 64, kRows = 72;
  LlamaOptions options;
  options.vocabulary = 256, options.context = kRows, options.layers = 2;
  options.width = kWidth, options.heads = options.kvHeads = 2, options.inner = 64;
  const auto runOn = [&](DeviceKind device) {
    Llama model(options);
    const auto optimizer = adamW();
    return dryRun({.mesh = {},
                   .engine = {.reductionGroups = 1},
                   .batch = 1,
                   .context = kRows,
                   .device = device},
                  model, *optimizer);
  };
  const DryRun host = runOn(DeviceKind::Host), gpu = runOn(DeviceKind::Cuda);
  const KernelCount &before = host.kernels.at("rmsNormBackward"),
                    &backward = gpu.kernels.at("rmsNormBackward"),
                    &weights = gpu.kernels.at("rmsNormWeights");
  constexpr size_t kNorms = 5, kSums = 5 * kWidth * sizeof(float);  // of 72 rows 5 slices
  EXPECT_EQ(weights.calls, static_cast<int64_t>(kNorms));
  EXPECT_EQ(weights.bytesRead, kNorms * kSums);
  EXPECT_EQ(backward.bytesWritten - before.bytesWritten, kNorms * kSums);
  EXPECT_EQ(backward.bytesRead, before.bytesRead);
}

// Context parallelism with pieces of a sequence that differ, keys and values that ranks share, sums
// of bfloat16 in float32, and what is recomputed; beside every other axis.
TEST(Dry, SaysWhatContextParallelTrainingsUse) {
  const auto gpt = [](const Arrangement& layout, Recompute recompute) {
    return [layout, recompute]() -> std::unique_ptr<Model> {
      GptOptions options = kSmallGpt;
      options.heads = 4;
      options.recompute = recompute;
      return makeModel(cut(layout, options));
    };
  };
  const auto llama = [](const Arrangement& layout) {
    return [layout]() -> std::unique_ptr<Model> {
      return makeModel(cut(layout, LlamaOptions{.vocabulary = 257,
                                                .context = 24,
                                                .layers = 2,
                                                .width = 24,
                                                .heads = 4,
                                                .kvHeads = 2,
                                                .inner = 37}));
    };
  };
  for (const Arrangement& ring :
       {arrangement("cp=2"), arrangement("cp=4"), arrangement("dp=2,cp=2"),
        arrangement("fsdp=2,cp=2", zero(1)), arrangement("fsdp=2,cp=2", zero(3)),
        arrangement("cp=2,tp=2"), arrangement("cp=2,tp=2", zero(0), true),
        piped(arrangement("pp=2,cp=2"), {})})
    for (const Arrangement& layout : {ring, exchanging(ring)}) {
      Training training{
          .engine = {.policy = layout.policy, .reductionGroups = 4, .pipeline = layout.pipeline},
          .batch = 11};
      training.model = llama(layout);
      expectSame(layout, training, "llama");
      for (const Recompute recompute : {Recompute::Attention, Recompute::Block}) {
        if (!layout.sequence) continue;
        training.model = gpt(layout, recompute);
        expectSame(layout, training,
                   recompute == Recompute::Block ? "recompute block" : "recompute attention");
      }
      training.model = gpt(layout, Recompute::None);
      training.engine.types = DType::BFloat16;
      expectSame(layout, training, "gpt, bfloat16");
    }
}

MakeModel withExperts(bool gated, const ExpertOptions& experts, const Arrangement& layout) {
  return [=]() -> std::unique_ptr<Model> {
    GptOptions gpt = kSmallGpt;
    gpt.experts = experts;
    const LlamaOptions llama{.context = 24,
                             .layers = 3,
                             .width = 24,
                             .heads = 4,
                             .kvHeads = 2,
                             .inner = 37,
                             .experts = experts};
    return makeModel(cut(layout, gated ? ModelOptions(llama) : ModelOptions(gpt)));
  };
}

/// As expectSame(), but for the bytes of AllToAllV, which depend on data: not less than is said.
void expectSameRoom(const Arrangement& layout, const Training& training, const std::string& what) {
  host::setBlasThreads(1);
  const auto all = onRanks(layout.mesh, training.engine.policy.deterministic,
                           [&](DeviceMesh& mesh) { return train(mesh, training); });
  for (size_t rank = 0; rank < all.size(); ++rank) {
    DryRun said = dry(layout.mesh, static_cast<int>(rank), training);
    for (auto& [axes, counters] : said.collectives)
      if (axes == AxisSet{Axis::Expert}) {
        const CollectiveCount used = all[rank].collectives.at(axes).allToAll;
        EXPECT_EQ(counters.allToAll.calls, used.calls);
        EXPECT_GT(used.calls, 0);
        counters.allToAll.bytes = used.bytes;
      }
    expectSame(said, all[rank], message(layout.name, ", ", what, ", rank ", rank));
  }
}

std::vector<Arrangement> layoutsOfExperts() {
  std::vector<Arrangement> all;
  for (const bool sequence : {false, true})
    all.push_back(arrangement("ep=2,tp=2", zero(0), sequence));
  all.push_back(arrangement("ep=2"));
  all.push_back(arrangement("fsdp=2,ep=2", zero(3)));
  all.push_back(arrangement("pp=2,ep=2"));
  all.push_back(arrangement("cp=2,ep=2"));
  all.push_back(arrangement("cp=5"));  // of 24 positions some have 4, others 5
  all.push_back(exchanging(arrangement("cp=2,ep=2", zero(0))));
  return all;
}

// Memory for what a capacity lets through at most is taken, whatever comes.
TEST(Dry, SaysWhatExpertsWithACapacityUse) {
  for (const Arrangement& layout : layoutsOfExperts())
    for (const bool gated : {false, true})
      for (const double factor : {0.5, 1.5, 100.0}) {
        const ExpertOptions experts{.count = 4, .capacityFactor = factor};
        const Training training{.model = withExperts(gated, experts, layout),
                                .engine = {.policy = layout.policy,
                                           .types = gated ? DType::Float32 : DType::BFloat16,
                                           .reductionGroups = 4}};
        expectSameRoom(layout, training, message(gated ? "gated, " : "", "capacity ", factor));
      }
}

// Where each token goes to all experts these are used alike, which is what a dry run takes for
// granted without a capacity.
TEST(Dry, SaysWhatExpertsThatAreUsedAlikeUse) {
  for (const Arrangement& layout : layoutsOfExperts())
    for (const bool gated : {false, true}) {
      const Training training{.model = withExperts(gated, {.count = 2, .perToken = 2}, layout),
                              .engine = {.policy = layout.policy, .reductionGroups = 4}};
      expectSame(layout, training, gated ? "gated" : "gelu");
    }
}

// Of a sequence that ranks share out, each lets through as large a part of a capacity.
TEST(Dry, TakesExpertsToBeUsedAlikeEverywhere) {
  DryKernels kernels;
  Arena arena("test", {.dry = true});
  const auto make = [&](const Shape& shape) { return arena.allocate(DType::Int32, shape); };
  std::vector<int64_t> loads(3);
  // Of 2 sequences of 12 tokens 6 each are here, of which each goes to 2 of 3 experts.
  for (const auto& [capacity, each] : {std::pair{0, 8}, {100, 8}, {8, 8}, {4, 4}, {3, 3}}) {
    kernels.placeTokens({.chosen = make({12, 2}),
                         .places = make({12, 2}),
                         .pieces = make({2, 4, 3}),
                         .choices = make({2, 3}),
                         .own = {1, 2},
                         .early = 3,
                         .length = 12,
                         .capacity = capacity,
                         .loads = loads});
    EXPECT_EQ(loads, (std::vector<int64_t>{each, each, each})) << capacity;
  }
}

// Offloaded state is held elsewhere, and the dry run makes no file for it.
TEST(Dry, SaysWhatOffloadedStateUses) {
  for (const MeshShape& shape : {mesh(1, 2), mesh(2, 2)})
    for (const int stage : {1, 2, 3})
      for (const Place place : {Place::Host, Place::File})
        for (const int rounds : {1, 2}) {
          ShardPolicy policy = zero(stage);
          policy.offload = {.optimizer = place,
                            .gradients = stage >= 2 ? place : Place::Device,
                            .parameters = stage == 3 ? place : Place::Device,
                            .folder = place == Place::File ? "/tmp" : ""};
          const Training training{.engine = {.policy = policy,
                                             .types = DType::BFloat16,
                                             .reductionGroups = 4,
                                             .rounds = rounds}};
          expectSame({message("zero ", stage), shape, policy}, training,
                     place == Place::File ? "in files" : "in host memory");
          policy.offload.folder = "/no/such/folder";
          Training nowhere = training;
          nowhere.engine.policy = policy;
          EXPECT_NO_THROW(dry(shape, 0, nowhere));
        }
}

// Activations on a mesh with tensor parallelism are moved by the same steps.
TEST(Dry, RedistributesWithoutData) {
  const std::vector<std::pair<Layout, Layout>> moves = {
      {{.dims = {AxisList{Axis::Tensor}}}, {}},
      {{.dims = {AxisList{}, AxisList{Axis::Tensor}}}, {}},
      {{.partial = {Axis::Tensor}}, {}},
      {{.partial = {Axis::Tensor}}, {.dims = {AxisList{}, AxisList{Axis::Tensor}}}},
      {{.dims = {AxisList{Axis::Tensor}}}, {.dims = {AxisList{}, AxisList{Axis::Tensor}}}},
      {{}, {.dims = {AxisList{}, AxisList{Axis::Tensor}}}}};
  const MeshShape shape = MeshShape::parse("dp=2,tp=2");
  const Shape global{6, 10};
  struct Moved {
    Collectives collectives;
    ArenaUse use;
    bool operator==(const Moved&) const = default;
  };
  const auto moveAll = [&](DeviceMesh& mesh) {
    Arena memory("test", mesh.backing(), 1 << 10);
    for (const auto& [from, to] : moves) {
      Tensor x =
          memory.allocate(DType::Float32, localShape(global, from, mesh.shape(), mesh.place()));
      if (!mesh.dry()) std::fill_n(x.as<float>(), x.count(), 1.0f);
      x.layout = from;
      EXPECT_EQ(redistribute(Purpose::LogitGather, mesh, x, global, to, memory).shape,
                localShape(global, to, mesh.shape(), mesh.place()));
    }
    return Moved{mesh.counters(), memory.use()};
  };
  onRanks(shape, false, [&](DeviceMesh& mesh) {
    DeviceMesh without = DeviceMesh::dry(shape, mesh.rank());
    const Moved said = moveAll(without), done = moveAll(mesh);
    EXPECT_EQ(said, done);
    EXPECT_EQ(done.collectives.at({Axis::Tensor}).allGather.calls, 2);
    EXPECT_EQ(done.collectives.at({Axis::Tensor}).allToAll.calls, 1);
  });
}

TEST(Dry, MeshKnowsItsPlaceAmongRanksThatAreNotThere) {
  const MeshShape shape = MeshShape::parse("dp=3,fsdp=8");
  DeviceMesh mesh = DeviceMesh::dry(shape, 13);
  EXPECT_EQ(mesh.rank(), 13);
  EXPECT_EQ(mesh.index(Axis::Data), 1);
  EXPECT_EQ(mesh.index(Axis::Fsdp), 5);
  MeshCommunicator* shards = mesh.communicator({Axis::Fsdp});
  ASSERT_NE(shards, nullptr);
  EXPECT_EQ(shards->rank(), 5);
  EXPECT_EQ(shards->size(), 8);
  EXPECT_TRUE(shards->deterministic());
  EXPECT_EQ(mesh.communicator({Axis::Tensor}), nullptr);
  constexpr Purpose kPurpose = Purpose::GradientSum;  // any
  // Of each the larger side counts; blocks of several sizes as they are.
  shards->allReduce(kPurpose, {.count = 10, .type = DType::Float64});
  shards->allGather(kPurpose, {.count = 3, .type = DType::BFloat16});
  shards->reduceScatter(kPurpose, {.count = 5, .type = DType::Float32});
  shards->allToAll(kPurpose, {.count = 2, .type = DType::Float32});
  const std::vector<size_t> counts = {1, 0, 2, 0, 0, 0, 0, 4}, fewer(8, 0);
  shards->allGatherV(kPurpose, {.counts = counts, .offsets = {}, .type = DType::Float32});
  shards->reduceScatterV(kPurpose, {.counts = counts, .offsets = {}, .type = DType::Float64});
  shards->allToAllV(kPurpose, {.sendCounts = fewer,
                               .sendOffsets = {},
                               .recvCounts = counts,
                               .recvOffsets = {},
                               .type = DType::UInt8});
  shards->barrier();
  EXPECT_EQ(mesh.counters().at({Axis::Fsdp}), (CollectiveCounters{.allReduce = {1, 80},
                                                                  .reduceScatter = {2, 160 + 56},
                                                                  .allGather = {2, 48 + 28},
                                                                  .allToAll = {2, 64 + 7}}));
  EXPECT_EQ(mesh.allocate({Axis::Data}, 1000).bytes(), 1000u);
  EXPECT_THROW(DeviceMesh::dry(shape, 24), Error);
  EXPECT_THROW(DeviceMesh::dry(shape, -1), Error);
}

TEST(DryDeath, WhoTouchesAnElementIsStopped) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  DeviceMesh mesh = DeviceMesh::dry(MeshShape::along(Axis::Fsdp, 2), 0);
  const Memory memory = mesh.allocate({Axis::Fsdp}, 64);
  Arena arena("test", mesh.backing());
  const Tensor x = arena.allocate(DType::Float32, {16});
  EXPECT_DEATH(std::printf("%g", static_cast<double>(*static_cast<volatile float*>(x.data))), "");
  EXPECT_DEATH(*memory.as<volatile char>() = 1, "");
}

TEST(Dry, IsNotMixedWithARealRun) {
  const auto said = [](DeviceMesh mesh, Kernels& kernels) -> std::string {
    try {
      Gpt model(kSmallGpt);
      Engine(mesh, kernels, model, {});
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      return error.what();
    }
  };
  HostKernels host;
  DryKernels dry;
  EXPECT_NE(said(DeviceMesh(), dry).find("the kernels alone would run dry"), std::string::npos);
  EXPECT_NE(said(DeviceMesh::dry({}, 0), host).find("the mesh alone"), std::string::npos);
  EXPECT_EQ(said(DeviceMesh::dry({}, 0), dry), "");

  DeviceMesh mesh = DeviceMesh::dry({}, 0);
  Gpt model(kSmallGpt);
  Engine engine(mesh, dry, model, {});
  EXPECT_THROW(engine.save("/no/such/folder", 1, *adamW()), Error);
  EXPECT_THROW(engine.load("/no/such/folder", *adamW()), Error);
}

// The update writes what modules compute with, where that is kept: nobody copies the weights once
// more. Ranks that gather have their own copies to make.
TEST(Dry, CopiesOfWeightsAreTheUpdates) {
  const Training training{.engine = {.types = DType::BFloat16}};
  const DryRun one = dry(MeshShape{}, 0, training);
  const auto parameters = static_cast<size_t>(one.parameters);
  EXPECT_EQ(one.kernels.at("adamW").bytesWritten, (12 + 2) * parameters);
  EXPECT_EQ(one.kernels.count("copy"), 0u);
  Training sharded = training;
  sharded.engine.policy = ShardPolicy::zero(1);
  const DryRun half = dry(MeshShape::parse("fsdp=2"), 0, sharded);
  const KernelCount& update = half.kernels.at("adamW");
  EXPECT_EQ(3 * update.bytesRead, 4 * update.bytesWritten);
  EXPECT_GE(half.kernels.at("copy").bytesWritten, parameters);
}

}  // namespace
}  // namespace tutti::parallel
