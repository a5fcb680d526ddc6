// Rungs 1, 3 and 5 of pipelines: every schedule on 2 and 4 stages gives the bits of one rank in
// deterministic mode, and its gradients in float64 beside every other axis.

#include <gtest/gtest.h>

#include "parallel/checkpoint/names.h"
#include "parallel/engine/generate.h"
#include "parallel/kernels/host/host_kernels.h"
#include "tests/parallel/parity/rungs.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

/// Layers for four ranks with two chunks each. GPT's output map is its token embedding.
constexpr GptOptions kGpt{.context = 11, .layers = 8, .width = 16, .heads = 2};
constexpr LlamaOptions kLlama{.context = 11,
                              .layers = 8,
                              .width = 16,
                              .heads = 4,
                              .kvHeads = 2,
                              .inner = 21,
                              .ropeBase = 100};

/// Every schedule.
std::vector<PipelineOptions> schedules() {
  return {{.schedule = ScheduleKind::Naive},        {.schedule = ScheduleKind::GPipe},
          {.schedule = ScheduleKind::OneFOneB},     {.schedule = ScheduleKind::Interleaved},
          {.schedule = ScheduleKind::ZeroBubbleH1}, {.schedule = ScheduleKind::ZeroBubbleV}};
}

RunOptions deterministic(const ModelOptions& model, int groups = 4, int rounds = 1) {
  RunOptions options{
      .model = model, .groups = groups, .rounds = rounds, .steps = 3, .adam = true, .clip = 0.1};
  options.policy.deterministic = true;
  return options;
}

TEST(Rung3, EveryScheduleOnOneTwoAndFourStages) {
  for (const ModelOptions& model : {ModelOptions(kGpt), ModelOptions(kLlama)}) {
    const RunOptions options = deterministic(model);
    const RunResult one = run(options)[0];
    EXPECT_GT(one.norms[0], options.clip);
    for (const std::string mesh : {"", "pp=2", "pp=4"})
      for (const PipelineOptions& schedule : schedules()) {
        const Arrangement layout = piped(arrangement(mesh), schedule);
        expectWithin(sameBits(one, layout.name, under(layout, options)));
      }
  }
}

TEST(Rung3, PipelinesOfRanksThatShareOut) {
  for (const int rounds : {1, 2}) {
    const RunOptions options = deterministic(kGpt, 4, rounds);
    const RunResult one = run(options)[0];
    std::vector<Arrangement> layouts{arrangement("pp=2,dp=2"), arrangement("pp=2,fsdp=2", zero(1)),
                                     arrangement("pp=2,fsdp=2", zero(2)),
                                     arrangement("pp=2,fsdp=2", zero(3)),
                                     arrangement("pp=2,fsdp=2", fsdp(Reshard::Never))};
    for (const Arrangement& layout : layouts)
      for (const ScheduleKind kind :
           {ScheduleKind::OneFOneB, ScheduleKind::Interleaved, ScheduleKind::ZeroBubbleV}) {
        const Arrangement all = piped(layout, {.schedule = kind});
        expectWithin(
            sameBits(one, message(all.name, ", ", rounds, " rounds"), under(all, options)));
      }
  }
}

// Stages of other sizes, fewer micro-batches than stages, and micro-batches of several sizes.
TEST(Rung3, UnevenPipelines) {
  RunOptions options = deterministic(kGpt);
  const RunResult one = run(options)[0];
  for (const Arrangement& layout :
       {piped(arrangement("pp=4"), {.layers = {3, 2, 2, 1}}),
        piped(arrangement("pp=2"), {.schedule = ScheduleKind::Interleaved, .layers = {1, 5, 1, 1}}),
        piped(arrangement("pp=2"), {.schedule = ScheduleKind::ZeroBubbleV, .layers = {4, 1, 2, 1}}),
        piped(arrangement("pp=8"), {.schedule = ScheduleKind::GPipe}),
        piped(arrangement("pp=8"), {.schedule = ScheduleKind::ZeroBubbleH1})})
    expectWithin(sameBits(one, layout.name, under(layout, options)));
  options.batch = 7;
  const RunResult uneven = run(options)[0];
  for (const PipelineOptions& schedule : schedules()) {
    const Arrangement layout = piped(arrangement("pp=2"), schedule);
    expectWithin(sameBits(uneven, layout.name + ", a batch of 7", under(layout, options)));
  }
}

// The tied embedding is one weight at one end or two copies, and everything counts once.
TEST(Rung1, PipelinesBesideEveryAxis) {
  LlamaOptions tied = kLlama;
  tied.tied = true;
  size_t next = 1;
  for (const ModelOptions& model : {ModelOptions(kGpt), ModelOptions(kLlama), ModelOptions(tied)}) {
    const RunOptions options{.types = DType::Float64, .model = model, .steps = 2};
    const RunResult one = run(options)[0];
    std::vector<Arrangement> layouts{arrangement("pp=2"),
                                     arrangement("pp=2,dp=2"),
                                     arrangement("pp=2,fsdp=2", zero(2)),
                                     arrangement("pp=2,fsdp=2", zero(3)),
                                     arrangement("pp=2,tp=2"),
                                     arrangement("pp=2,tp=2", zero(0), true),
                                     arrangement("pp=2,fsdp=2,tp=2", zero(3), true),
                                     arrangement("pp=2,cp=2"),
                                     exchanging(arrangement("pp=2,cp=2")),
                                     arrangement("pp=2,cp=2,tp=2", zero(0), true),
                                     arrangement("pp=2,fsdp=2,cp=2,tp=2", zero(3), true)};
    for (size_t i = 0; i < layouts.size(); ++i) {
      const Arrangement layout = piped(layouts[i], schedules()[(i + next) % schedules().size()]);
      expectWithin(float64Steps(one, layout.name, under(layout, options)));
    }
    next += 2;  // each model has other schedules beside the same axes
  }
}

TEST(Rung5, PipelinesAreSavedAndLoadedUnderOtherLayouts) {
  const std::vector<Arrangement> layouts{
      arrangement(""), piped(arrangement("pp=2"), {}),
      piped(arrangement("pp=2,fsdp=2", zero(3)), {.schedule = ScheduleKind::ZeroBubbleV}),
      piped(arrangement("pp=4"), {.schedule = ScheduleKind::Interleaved})};
  RunResult rest = run(deterministic(kGpt))[0];
  rest.losses.erase(rest.losses.begin(), rest.losses.begin() + 2);
  rest.norms.erase(rest.norms.begin(), rest.norms.begin() + 2);
  for (const Arrangement& from : layouts) {
    const tests::TemporaryFolder folder;
    RunOptions options = under(from, deterministic(kGpt));
    options.steps = 2;
    options.saveTo = folder.path();
    run(options);
    for (const Arrangement& to : layouts) {
      RunOptions resumed = under(to, deterministic(kGpt));
      const std::string name = from.name + " to " + to.name;
      expectWithin(loadedAndSaved(folder.path(), name, resumed));
      if (to.mesh == from.mesh) continue;
      resumed.steps = 1;
      resumed.loadFrom = latestCheckpoint(folder.path())->string();
      expectWithin(sameBits(rest, name, resumed));
    }
  }
}

std::vector<int32_t> textOf(DeviceMesh& mesh, const PipelineOptions& pipeline) {
  HostKernels kernels;
  Gpt model(kGpt);
  Engine engine(mesh, kernels, model, {.pipeline = pipeline});
  return generate(engine, {.prompt = {112, 105, 112, 101}, .tokens = 12, .context = kGpt.context});
}

TEST(Pipelines, WriteTheSameText) {
  DeviceMesh alone;
  const std::vector<int32_t> one = textOf(alone, {});
  for (const std::string mesh : {"pp=2", "pp=4", "pp=2,tp=2", "pp=2,cp=2"})
    for (const ScheduleKind kind :
         {ScheduleKind::GPipe, ScheduleKind::Interleaved, ScheduleKind::ZeroBubbleV})
      for (const auto& text : onRanks(MeshShape::parse(mesh), false, [&](DeviceMesh& ranks) {
             return textOf(ranks, {.schedule = kind});
           }))
        EXPECT_EQ(text, one) << mesh << " " << toString(kind);
}

}  // namespace
}  // namespace tutti::parallel
