// The planner: bytes by kind are those that arenas then hold, on every rank and all layouts of
// four; of many micro-batches a few say what all do; times follow from rates by arithmetic; what
// fits is ranked and what does not is said to be too large for a reason.

#include "parallel/planner/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "parallel/engine/describe.h"
#include "parallel/huggingface/model_names.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/pipeline/timeline.h"
#include "tests/parallel/support/runs.h"

namespace tutti::parallel {
namespace {

constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

GptOptions fourLayers() {
  GptOptions model = kRunGpt;
  model.layers = 8;
  return model;
}

TrainingJob smallJob() {
  return {.model = fourLayers(), .types = DType::Float32, .batch = 16, .context = 16};
}

/// Each call takes a second for every thousand bytes, whatever it is.
class Slow final : public NetworkModel {
 public:
  using NetworkModel::seconds;
  double seconds(const MeshShape& mesh, AxisSet axes, CollectiveKind, double bytes) override {
    return mesh.ranks(axes) > 1 ? bytes / 1000 * perKilobyte : 0;
  }
  double perKilobyte = 1;
};

DeviceRates plainRates() { return {.any = {.flopsPerSecond = 1e9, .bytesPerSecond = 1e9}}; }

LayoutSpace fourRanks() { return {.devices = 4, .ranksPerHost = 4}; }

bool isTaken(const TrainingJob& job, const TrainingLayout& layout) {
  try {
    dryRunUnder(job, layout, 0);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument) << error.what();
    return false;
  }
}

/// All that the search could come to.
std::vector<TrainingLayout> layoutsOfFour(const TrainingJob& job) {
  std::vector<TrainingLayout> all;
  const auto add = [&](const TrainingLayout& layout) {
    if (std::ranges::find(all, layout) == all.end() && isTaken(job, layout)) all.push_back(layout);
  };
  for (const LayoutFamily& family : familiesOf(job, fourRanks())) {
    add(leanest(job, family));
    for (const TrainingLayout& member : membersOf(job, family)) {
      add(member);
      for (const TrainingLayout& variant : variantsOf(job, fourRanks(), member)) add(variant);
    }
  }
  return all;
}

/// What a rank's arenas hold after two steps.
TrainingMemory heldBy(DeviceMesh& mesh, const TrainingJob& job, const TrainingLayout& layout) {
  HostKernels kernels;
  const auto model = makeModel(modelUnder(job, layout));
  const auto optimizer = makeOptimizer(job.optimizer);
  Engine engine(mesh, kernels, *model, engineUnder(job, layout));
  const auto text = makeText();
  Loader loader(text, job.context, job.batch, kRunSeed);
  for (int step = 0; step < 2; ++step) engine.step(loader, step, *optimizer, 0.01);
  return engine.memory();
}

/// Returns the meshes.
std::set<std::string> expectPlannedIsHeld(const TrainingJob& job,
                                          const std::vector<TrainingLayout>& layouts) {
  Slow network;
  Predictor predictor(job, plainRates(), network, 4);
  std::set<std::string> meshes;
  for (const TrainingLayout& layout : layouts) {
    const auto held =
        onRanks(layout.mesh, false, [&](DeviceMesh& mesh) { return heldBy(mesh, job, layout); });
    const auto most = std::ranges::max_element(held, {}, &TrainingMemory::total);
    const TrainingMemory planned = predictor.predict(layout).memory;
    EXPECT_EQ(planned, *most) << layout.describe() << "\nplanned: it " << describe(planned)
                              << "and it " << describe(*most);
    meshes.insert(layout.mesh.describe());
  }
  std::printf("%zu layouts of 4 ranks, %zu meshes\n", layouts.size(), meshes.size());
  return meshes;
}

TEST(Planner, BytesByKindAreThoseOfTheArenasOnAllLayoutsOfFourRanks) {
  const std::vector<TrainingLayout> layouts = layoutsOfFour(smallJob());
  EXPECT_GE(layouts.size(), 100u);
  EXPECT_TRUE(std::ranges::any_of(
      layouts, [](const auto& l) { return l.contextAttention == ContextAttention::Heads; }));
  const std::set<std::string> meshes = expectPlannedIsHeld(smallJob(), layouts);
  for (const char* mesh : {"dp=4", "fsdp=4", "tp=4", "pp=4", "cp=4", "pp=2,tp=2", "dp=2,fsdp=2",
                           "fsdp=2,cp=2", "cp=2,tp=2", "pp=2,cp=2"})
    EXPECT_TRUE(meshes.contains(mesh)) << mesh;
}

// Each token goes to all experts, which are then used alike, as a dry run takes for granted.
TEST(Planner, BytesByKindOfExpertsAreThoseOfTheArenas) {
  TrainingJob job = smallJob();
  GptOptions model = fourLayers();
  model.experts = {.count = 2, .perToken = 2};
  job.model = model;
  std::vector<TrainingLayout> layouts = layoutsOfFour(job);
  std::erase_if(layouts, [](const TrainingLayout& l) { return l.mesh[Axis::Expert] == 1; });
  const std::set<std::string> meshes = expectPlannedIsHeld(job, layouts);
  for (const char* mesh : {"dp=2,ep=2", "fsdp=2,ep=2", "ep=2,tp=2", "pp=2,ep=2"})
    EXPECT_TRUE(meshes.contains(mesh)) << mesh;
}

void expectSameRun(const DryRun& said, const DryRun& whole, const std::string& where) {
  EXPECT_EQ(said.memory, whole.memory)
      << where << "\nfew: it " << describe(said.memory) << "and all: it " << describe(whole.memory);
  EXPECT_EQ(said.collectives, whole.collectives) << where;
  EXPECT_EQ(said.tensor, whole.tensor) << where;
  ASSERT_EQ(said.kernels.size(), whole.kernels.size()) << where;
  for (const auto& [name, count] : whole.kernels) {
    const KernelCount& other = said.kernels.at(name);
    EXPECT_EQ(other.calls, count.calls) << where << ", " << name;
    EXPECT_EQ(other.bytesRead, count.bytesRead) << where << ", " << name;
    EXPECT_EQ(other.bytesWritten, count.bytesWritten) << where << ", " << name;
    EXPECT_DOUBLE_EQ(other.gemmFlops, count.gemmFlops) << where << ", " << name;
  }
}

// 19 is no multiple of the ranks of any pipeline here.
TEST(Planner, AFewMicroBatchesSayWhatAllDo) {
  for (const int microBatches : {19, 24, 43})
    for (const char* mesh : {"fsdp=4", "dp=4", "pp=2,fsdp=2", "pp=4", "tp=2,pp=2", "tp=4"})
      for (const int zero : {0, 1, 3})
        for (const ScheduleKind schedule :
             {ScheduleKind::OneFOneB, ScheduleKind::Interleaved, ScheduleKind::ZeroBubbleH1,
              ScheduleKind::ZeroBubbleV, ScheduleKind::GPipe}) {
          TrainingLayout layout{.mesh = MeshShape::parse(mesh),
                                .zero = zero,
                                .schedule = schedule,
                                .microBatches = microBatches};
          if (layout.mesh[Axis::Pipeline] == 1 && schedule != ScheduleKind::OneFOneB) continue;
          TrainingJob job = smallJob();
          job.batch = int64_t{layout.microBatches} * layout.mesh.ranks({Axis::Data, Axis::Fsdp});
          for (const int rounds : {1, layout.microBatches}) {
            layout.rounds = rounds;
            if (rounds > 1 && zero != 3) continue;
            for (const int rank : {0, 3}) {
              const ShortDryRun few(job, layout, rank);
              EXPECT_EQ(few.memory(), few.whole().memory);
              const TrainingMemory least = leastMemory(job, layout, rank);
              EXPECT_LE(least.total(), few.memory().total()) << layout.describe();
              EXPECT_LE(least.store.total(), few.memory().store.total()) << layout.describe();
              expectSameRun(few.whole(), dryRunUnder(job, layout, rank),
                            message(layout.describe(), ", rank ", rank));
            }
          }
        }
}

TEST(Planner, TermsFollowFromRatesByArithmetic) {
  const TrainingJob job = smallJob();
  Slow network;
  Predictor predictor(job, {.any = {.callSeconds = 1}, .overlaps = false}, network, 4);
  const TrainingLayout layout{.mesh = MeshShape::parse("dp=4"), .microBatches = 4};
  const DryRun run = dryRunUnder(job, layout, 0);
  double calls = 0, updates = 0;
  for (const auto& [name, count] : run.kernels)
    (name == "adamW" || name == "addSquares" ? updates : calls) += static_cast<double>(count.calls);
  const Prediction p = predictor.predict(layout);
  EXPECT_DOUBLE_EQ(p.seconds.compute, calls);
  EXPECT_DOUBLE_EQ(p.seconds.update, updates);
  EXPECT_NEAR(p.seconds.wait, 0, 1e-3 * calls);
  const auto sent = static_cast<double>(run.collectives.at({Axis::Data}).allReduce.bytes);
  EXPECT_NEAR(p.seconds.reduce, sent / 1000, 1e-9 * sent);
  EXPECT_EQ(p.seconds.gather, 0);
  EXPECT_DOUBLE_EQ(p.tokensPerSecond, 16 * 16 / p.seconds.total());
  double sum = 0;
  for (const auto& [term, seconds] : termsOf(p.seconds)) sum += seconds;
  EXPECT_DOUBLE_EQ(sum, p.seconds.total());
}

// What is started beside backward costs what is longer than backward alone.
TEST(Planner, WhatGoesOnBesideComputationCostsNothing) {
  const TrainingJob job = smallJob();
  Slow network;
  network.perKilobyte = 1e-9;
  const TrainingLayout layout{.mesh = MeshShape::parse("fsdp=4"), .zero = 3, .microBatches = 4};
  DeviceRates rates{.any = {.callSeconds = 1}, .overlaps = false};
  const Prediction alone = Predictor(job, rates, network, 4).predict(layout);
  rates.overlaps = true;
  const Prediction beside = Predictor(job, rates, network, 4).predict(layout);
  EXPECT_GT(alone.seconds.gather, 0);
  EXPECT_LT(beside.seconds.gather, 0.7 * alone.seconds.gather);
  EXPECT_LT(beside.seconds.reduce, 0.7 * alone.seconds.reduce);
  EXPECT_EQ(beside.seconds.compute, alone.seconds.compute);
}

/// What a step's exchanges take where they take a second for each byte, or each message.
StepSeconds exchangesOf(const TrainingJob& job, const TrainingLayout& layout, DeviceRates rates) {
  Slow network;
  return Predictor(job, std::move(rates), network, 4).predict(layout).seconds;
}

// Messages of the ring go beside attention, those of the last gradients excepted; gradients that
// are partial along cp are added when the last of them is there.
TEST(Planner, RingsGoOnBesideAttention) {
  const TrainingJob job = smallJob();
  const TrainingLayout layout{.mesh = MeshShape::parse("cp=4"), .microBatches = 16};
  const CollectiveCounters sent = dryRunUnder(job, layout, 0).collectives.at({Axis::Context});
  const double ring = double(sent.sent.bytes) / 1000, sums = double(sent.allReduce.bytes) / 1000;
  ASSERT_GT(ring, 0);
  ASSERT_GT(sums, 0);
  const StepSeconds alone =
      exchangesOf(job, layout, {.any = {.callSeconds = 1}, .overlaps = false});
  EXPECT_NEAR(alone.layers, ring, 1e-9 * ring);
  EXPECT_NEAR(alone.reduce, sums, 1e-9 * sums);
  const StepSeconds beside = exchangesOf(job, layout, {.any = {.callSeconds = 1}});
  EXPECT_NEAR(beside.layers, ring / 7, 1e-9 * ring);
  EXPECT_NEAR(beside.reduce, sums, 1e-9 * sums);
  DeviceRates quick{.any = {.callSeconds = 1}};
  for (const char* kernel : {"attentionBlock", "attentionBlockBackward", "attentionMerge"})
    quick.byKernel[kernel] = {};
  EXPECT_NEAR(exchangesOf(job, layout, quick).layers, ring, 1e-9 * ring) << "beside nothing";
}

// An AllToAll is waited for, of heads as of rows that go to experts.
TEST(Planner, ExchangesOfHeadsAndExpertsAreWaitedFor) {
  TrainingJob job = smallJob();
  const auto expectAllToAll = [&](const TrainingLayout& layout, AxisSet axes) {
    const auto sent = dryRunUnder(job, layout, 0).collectives.at(axes);
    const double bytes = double(sent.allToAll.bytes) / 1000;
    ASSERT_GT(bytes, 0);
    EXPECT_NEAR(exchangesOf(job, layout, {.any = {.callSeconds = 1}}).layers, bytes, 1e-9 * bytes);
  };
  expectAllToAll({.mesh = MeshShape::parse("cp=4"),
                  .contextAttention = ContextAttention::Heads,
                  .microBatches = 16},
                 {Axis::Context});
  GptOptions model = fourLayers();
  model.experts = {.count = 4, .perToken = 2};
  job.model = model;
  expectAllToAll({.mesh = MeshShape::parse("ep=4"), .microBatches = 4}, {Axis::Expert});
}

// What the program itself refuses is left out, and said where nothing else is left.
TEST(Planner, TakesWhatTheProgramTakes) {
  TrainingJob job = smallJob();
  GptOptions model = fourLayers();
  model.experts = {.count = 4, .perToken = 2};
  job.model = model;
  Slow network;
  Predictor predictor(job, plainRates(), network, 4);
  const Plan plan = planTraining(predictor, {.space = fourRanks(), .memoryBytes = kNoLimit});
  std::set<int> experts;
  for (const Prediction& p : plan.fitting) {
    EXPECT_TRUE(isTaken(job, p.layout)) << p.layout.describe();
    experts.insert(p.layout.mesh[Axis::Expert]);
  }
  EXPECT_EQ(experts, (std::set<int>{1, 2, 4}));
  job.context = 1024;
  Predictor tooLong(job, plainRates(), network, 4);
  EXPECT_THROW(planTraining(tooLong, {.space = fourRanks(), .memoryBytes = kNoLimit}), Error);
}

// Stages take as long as each other only about: the share of the bubble is within what they differ
// by.
TEST(Planner, WaitsAsThePipelineDoes) {
  const TrainingJob job = smallJob();
  Slow network;
  network.perKilobyte = 0;
  Predictor predictor(job, plainRates(), network, 4);
  TrainingLayout layout{.mesh = MeshShape::parse("pp=4"), .microBatches = 16};
  const auto waits = [&](ScheduleKind schedule) {
    layout.schedule = schedule;
    const StepSeconds s = predictor.predict(layout).seconds;
    return s.wait / (s.wait + s.compute);
  };
  EXPECT_NEAR(waits(ScheduleKind::Naive), 3.0 / 4, 1e-3);
  EXPECT_NEAR(waits(ScheduleKind::GPipe), 3.0 / 19, 1e-3);
  EXPECT_NEAR(waits(ScheduleKind::OneFOneB), 3.0 / 19, 1e-3);
  EXPECT_NEAR(waits(ScheduleKind::Interleaved), 3.0 / 35, 1e-3);
  EXPECT_NEAR(waits(ScheduleKind::ZeroBubbleH1), 3.0 / (48 + 3), 1e-3);
  EXPECT_LE(waits(ScheduleKind::ZeroBubbleV), 3.0 / (48 + 3));
  layout.recompute = Recompute::Block;
  EXPECT_NEAR(waits(ScheduleKind::OneFOneB), 3.0 / 19, 1e-3);
}

// Four ranks on two cores compute no faster than two, and fill each other's gaps.
TEST(Planner, RanksThatShareCoresWaitForThem) {
  const TrainingJob job = smallJob();
  Slow network;
  network.perKilobyte = 0;
  DeviceRates rates = plainRates();
  const TrainingLayout data{.mesh = MeshShape::parse("dp=4"), .microBatches = 4};
  const TrainingLayout naive{
      .mesh = MeshShape::parse("pp=4"), .schedule = ScheduleKind::Naive, .microBatches = 16};
  Predictor apart(job, rates, network, 4);
  rates.cores = 2;
  Predictor shared(job, rates, network, 4);
  const StepSeconds a = apart.predict(data).seconds, b = shared.predict(data).seconds;
  EXPECT_NEAR(b.compute + b.wait, 2 * (a.compute + a.wait), 1e-3 * a.compute);
  EXPECT_NEAR(b.update, 2 * a.update, 1e-9);
  EXPECT_NEAR(shared.predict(naive).seconds.wait, apart.predict(naive).seconds.wait,
              1e-3 * a.compute);
}

// Where cores are what is short, a message takes its time of one, so that the schedule with most
// messages is the slowest.
TEST(Planner, MessagesTakeTheirTimeOfSharedCores) {
  const TrainingJob job = smallJob();
  Slow network;
  network.perKilobyte = 1e-6;
  DeviceRates rates = plainRates();
  rates.cores = 1;
  const auto seconds = [&](ScheduleKind schedule) {
    const TrainingLayout layout{
        .mesh = MeshShape::parse("pp=4"), .schedule = schedule, .microBatches = 16};
    return Predictor(job, rates, network, 4).predict(layout).seconds;
  };
  const StepSeconds plain = seconds(ScheduleKind::OneFOneB);
  const StepSeconds interleaved = seconds(ScheduleKind::Interleaved);
  network.perKilobyte = 0;
  EXPECT_GT(plain.compute + plain.wait,
            seconds(ScheduleKind::OneFOneB).compute + seconds(ScheduleKind::OneFOneB).wait);
  EXPECT_GT(interleaved.compute + interleaved.wait, plain.compute + plain.wait);
}

// A layout that fits to the byte is not given up, however little of it was run.
TEST(Planner, WhatFitsToTheByteFits) {
  const TrainingJob job = smallJob();
  Slow network;
  for (const char* mesh : {"dp=4", "fsdp=4", "pp=4", "fsdp=2,tp=2", "pp=2,cp=2"}) {
    TrainingLayout layout{.mesh = MeshShape::parse(mesh)};
    layout.zero = layout.mesh[Axis::Fsdp] > 1 ? 3 : 0;
    layout.microBatches = 16 / layout.mesh.ranks({Axis::Data, Axis::Fsdp});
    Predictor predictor(job, plainRates(), network, 4);
    const TrainingMemory exact = predictor.runs(layout, kNoLimit).largest().run.memory();
    EXPECT_EQ(predictor.held(layout, exact.total()), exact) << mesh;
    EXPECT_GT(predictor.held(layout, exact.total() - 1).total(), exact.total() - 1) << mesh;
  }
}

/// A family fits or not as its leanest member does, and each is either among those that fit or said
/// not to.
void expectMisfitsAreAll(const TrainingJob& job, const Plan& plan, size_t limit) {
  Slow network;
  Predictor predictor(job, plainRates(), network, 4);
  size_t misfits = 0;
  for (const LayoutFamily& family : familiesOf(job, fourRanks())) {
    const TrainingLayout least = leanest(job, family);
    const TrainingMemory held = predictor.runs(least, kNoLimit).largest().run.memory();
    misfits += held.total() > limit;
    const auto isOf = [&](const Prediction& p) {
      return p.layout.mesh == family.mesh && p.layout.zero == family.zero;
    };
    EXPECT_EQ(std::ranges::any_of(plan.fitting, isOf), held.total() <= limit) << least.describe();
  }
  EXPECT_EQ(plan.misfits.size(), misfits);
}

TEST(Planner, RanksWhatFitsAndSaysWhatDoesNot) {
  const TrainingJob job = smallJob();
  Slow network;
  network.perKilobyte = 1e-6;
  Predictor predictor(job, plainRates(), network, 4);
  const Plan all = planTraining(predictor, {.space = fourRanks(), .memoryBytes = kNoLimit});
  ASSERT_GE(all.fitting.size(), 20u);
  EXPECT_TRUE(all.misfits.empty());
  EXPECT_TRUE(std::ranges::is_sorted(all.fitting, {},
                                     [](const Prediction& p) { return p.seconds.total(); }));
  for (const Prediction& p : all.fitting) EXPECT_EQ(p.layout.recompute, Recompute::None);
  std::vector<size_t> held;
  for (const Prediction& p : all.fitting) held.push_back(p.memory.total());
  std::ranges::sort(held);
  const size_t limit = held[held.size() / 4];
  const Plan some = planTraining(predictor, {.space = fourRanks(), .memoryBytes = limit});
  ASSERT_FALSE(some.fitting.empty());
  ASSERT_FALSE(some.misfits.empty());
  for (const Prediction& p : some.fitting) EXPECT_LE(p.memory.total(), limit);
  EXPECT_TRUE(std::ranges::any_of(
      some.fitting, [](const Prediction& p) { return p.layout.recompute != Recompute::None; }));
  expectMisfitsAreAll(job, some, limit);
  for (const Misfit& misfit : some.misfits) {
    EXPECT_GT(misfit.memory.total(), limit);
    EXPECT_NE(tooLarge(misfit.memory, limit).find("too much; most of it "), std::string::npos);
  }
  EXPECT_NE(boundOf(some.fitting.front()).find('%'), std::string::npos);
  EXPECT_EQ(slowerThan(some.fitting.front(), some.fitting.front()), "as fast");
  EXPECT_NE(slowerThan(some.fitting.back(), some.fitting.front()).find(" more"), std::string::npos);
  EXPECT_TRUE(planTraining(predictor, {.space = fourRanks(), .memoryBytes = 1}).fitting.empty());
}

TEST(Planner, AKernelTakesAsLongAsItsProductsOrItsBytes) {
  const KernelRate rate{.flopsPerSecond = 10, .bytesPerSecond = 4, .callSeconds = 1};
  const KernelCount bytes{.calls = 2, .bytesRead = 8, .bytesWritten = 4, .gemmFlops = 20};
  EXPECT_DOUBLE_EQ(rate.seconds(bytes), 3 + 2);
  const KernelCount products{.calls = 2, .bytesRead = 8, .bytesWritten = 4, .gemmFlops = 50};
  EXPECT_DOUBLE_EQ(rate.seconds(products), 5 + 2);
}

TEST(Planner, StagesShareOutWhatTheyAreSaidTo) {
  const TrainingJob job = smallJob();
  for (int zero = 0; zero <= 3; ++zero) {
    const ShardPolicy policy =
        engineUnder(job, {.mesh = MeshShape::parse("fsdp=4"), .zero = zero}).policy;
    EXPECT_EQ(policy.optimizer, zero >= 1) << zero;
    EXPECT_EQ(policy.gradients, zero >= 2) << zero;
    EXPECT_EQ(policy.parameters, zero >= 3) << zero;
  }
}

TEST(Planner, LeavesOutWhatDoesNotDivide) {
  TrainingJob job = smallJob();
  for (const LayoutFamily& family : familiesOf(job, {.devices = 12, .ranksPerHost = 4})) {
    EXPECT_NE(family.mesh.ranks(kTensorAxes), 3) << "there are 4 heads";
    EXPECT_LE(family.mesh.ranks(kTensorAxes), 4);
    EXPECT_LE(family.mesh[Axis::Pipeline], 8);
    EXPECT_EQ(16 % family.mesh.ranks({Axis::Data, Axis::Fsdp}), 0);
    EXPECT_EQ(family.mesh[Axis::Expert], 1) << "there are none";
  }
  std::set<int> contexts;
  for (const LayoutFamily& family :
       familiesOf(job, {.devices = 8, .ranksPerHost = 4, .leastTokens = 8}))
    contexts.insert(family.mesh[Axis::Context]);
  EXPECT_EQ(contexts, (std::set<int>{1, 2})) << "of 16 tokens";
  job.batch = 1;
  EXPECT_THROW(familiesOf(job, {.devices = 64, .ranksPerHost = 1, .leastTokens = 16}), Error);
  EXPECT_THROW(engineUnder(job, {.microBatches = 3, .rounds = 2}), Error);
}

TEST(Planner, KnowsModelsByName) {
  const auto billions = [](const char* name) {
    return std::visit([](const auto& o) { return parameterCount(o) / 1e9; }, *modelNamed(name));
  };
  EXPECT_NEAR(billions("gpt2"), 0.124, 0.001);
  EXPECT_NEAR(billions("gpt2-xl"), 1.558, 0.001);
  EXPECT_NEAR(billions("llama-7b"), 6.74, 0.01);
  EXPECT_NEAR(billions("llama-13b"), 13.02, 0.01);
  EXPECT_NEAR(billions("llama-8b"), 8.03, 0.01);
  EXPECT_NEAR(billions("llama-70b"), 70.6, 0.1);
  EXPECT_NEAR(billions("llama-405b"), 405.9, 0.1);
  EXPECT_NEAR(billions("mixtral-8x7b"), 46.7, 0.05);
  EXPECT_NEAR(billions("mixtral-8x22b"), 140.6, 0.1);
  EXPECT_FALSE(modelNamed("llama-9b"));
  EXPECT_NE(modelNames().find("gpt2-medium, "), std::string::npos);
}

}  // namespace
}  // namespace tutti::parallel
