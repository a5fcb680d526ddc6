// Trainings on emulated GPUs against those on the host: the rungs of the parity ladder, whose one
// rank is the host's here, and whose layouts are ranks on GPUs. Their bounds are the ladder's: in
// float64 the order of sums is all that may differ; in float32, and in types of 16 bits, a device
// is no further from float64 than twice what the host is.

#include <gtest/gtest.h>

#include "parallel/kernels/cuda/make_cuda_kernels.h"
#include "tests/parallel/parity/expert_models.h"
#include "tests/parallel/parity/rungs.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

RunOptions onGpus(const Arrangement& layout, const RunOptions& options) {
  RunOptions result = under(layout, options);
  result.gpuKernels = [](const DeviceMesh& mesh) { return makeCudaKernels(mesh.stream()); };
  return result;
}

std::string nameOn(const Arrangement& layout, const std::string& model) {
  return (layout.name.empty() ? "one rank" : layout.name) + " on GPUs, " + model;
}

/// Models that emulated GPUs are done with in a moment.
ModelOptions smaller(ModelOptions options) {
  std::visit(
      [](auto& model) {
        model.context = 11;
        model.width = 16;
      },
      options);
  return options;
}

/// Two steps of each layout in float64, against one rank of the host.
void climb(RunModel model, const std::vector<Arrangement>& layouts, RunOptions options) {
  options.types = DType::Float64;
  options.model = model.options = smaller(model.options);
  const RunResult one = run(options)[0];
  for (const Arrangement& layout : layouts)
    expectWithin(float64Steps(one, nameOn(layout, model.name), onGpus(layout, options)));
}

const RunOptions kTwoSteps{.batch = 4, .validationBytes = 50, .steps = 2};

// What a release build also runs under ThreadSanitizer.
TEST(TrainingBriefly, OfOneTwoAndFourRanks) {
  climb(runModels()[0],
        {arrangement(""), arrangement("dp=2"), arrangement("fsdp=2,tp=2", zero(3), true)},
        kTwoSteps);
}

TEST(TrainingOnGpus, OfOneRank) {
  for (const RunModel& model : runModels()) climb(model, {arrangement("")}, kTwoSteps);
}

TEST(TrainingOnGpus, OfDataParallelRanks) {
  climb(runModels()[0],
        {arrangement("dp=2"), arrangement("dp=4"), arrangement("fsdp=2", zero(1)),
         arrangement("fsdp=2", zero(2)), arrangement("fsdp=4", zero(3)),
         arrangement("dp=2,fsdp=2", zero(3)), arrangement("fsdp=2", fsdp(Reshard::Never))},
        kTwoSteps);
}

TEST(TrainingOnGpus, InRounds) {
  RunOptions options = kTwoSteps;
  options.groups = 2;
  options.rounds = 2;
  climb(runModels()[0], {arrangement("dp=2"), arrangement("fsdp=2", zero(2))}, options);
}

TEST(TrainingOnGpus, OfTensorParallelRanks) {
  for (const RunModel& model : runModels())
    climb(model, {arrangement("tp=2"), arrangement(model.heads, zero(0), true)}, kTwoSteps);
}

TEST(TrainingOnGpus, OfPipelines) {
  std::vector<Arrangement> layouts;
  for (const auto kind : {ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::ZeroBubbleH1})
    layouts.push_back(piped(arrangement("pp=2"), {.schedule = kind}));
  climb(runModels()[1], layouts, kTwoSteps);
}

TEST(TrainingOnGpus, OfPipelinesWithSeveralStagesARank) {
  RunModel model = runModels()[0];
  std::get<GptOptions>(model.options).layers = 4;
  climb(model,
        {piped(arrangement("pp=2"), {.schedule = ScheduleKind::Interleaved, .chunks = 2}),
         piped(arrangement("pp=2"), {.schedule = ScheduleKind::ZeroBubbleV})},
        kTwoSteps);
}

TEST(TrainingOnGpus, OfRanksThatShareOutSequences) {
  for (const RunModel& model : runModels())
    climb(model, {arrangement("cp=2"), exchanging(arrangement("cp=2"))}, kTwoSteps);
}

TEST(TrainingOnGpus, OfRanksThatShareOutExperts) {
  for (const RunModel& model : expertModels(2, 1.25))
    climb(model, {arrangement(""), arrangement("ep=2")}, kTwoSteps);
}

TEST(TrainingOnGpus, OfPairsOfAxes) {
  climb(runModels()[0],
        {arrangement("fsdp=2,tp=2", zero(3), true), arrangement("dp=2,cp=2"),
         piped(arrangement("dp=2,pp=2"), {.schedule = ScheduleKind::OneFOneB})},
        kTwoSteps);
  climb(expertModels(1, 0)[1], {arrangement("cp=2,ep=2"), arrangement("tp=2,ep=2")}, kTwoSteps);
}

// Kernels and collectives give the same bits on any number of data-parallel ranks, as the host's
// do.
TEST(TrainingOnGpus, HaveTheSameBitsInDeterministicMode) {
  RunOptions options = kTwoSteps;
  options.model = smaller(kRunGpt);
  options.policy.deterministic = true;
  const RunResult one = run(onGpus(arrangement(""), options))[0];
  for (const Arrangement& layout : {arrangement(""), arrangement("dp=2"),
                                    arrangement("fsdp=4", zero(3)), arrangement("fsdp=2", zero(1))})
    expectWithin(sameBits(one, nameOn(layout, "gpt"), onGpus(layout, options)));
}

TEST(TrainingOnGpus, InFloat32AndInTypesOf16Bits) {
  for (const RunModel& model : runModels()) {
    RunOptions options = kTwoSteps;
    options.model = smaller(model.options);
    options.steps = 1;
    const Float32Reference reference = float32Reference(options);
    for (const Arrangement& layout : {arrangement(""), arrangement("dp=2")})
      expectWithin(float32Step(reference, nameOn(layout, model.name), onGpus(layout, options)));
    for (const DType type : {DType::BFloat16, DType::Float16}) {
      RunOptions narrow = options;
      narrow.types = type;
      const Float32Reference its = float32Reference(narrow);
      expectWithin(narrowStep(its, nameOn(arrangement(""), model.name + ", " + toString(type)),
                              onGpus(arrangement(""), narrow)));
    }
  }
}

// From the host to GPUs, and from there to the host.
TEST(TrainingOnGpus, GoOnFromCheckpointsOfEitherSide) {
  RunOptions options = kTwoSteps;
  options.model = smaller(kRunGpt);
  options.adam = true;
  const Arrangement one = arrangement(""), two = arrangement("fsdp=2", zero(2));
  const tests::TemporaryFolder ofHost, ofGpus;
  RunOptions saved = under(two, options);
  saved.saveTo = ofHost.path();
  run(saved);
  expectWithin(loadedAndSaved(ofHost.path(), "host to GPUs", onGpus(two, options)));
  expectWithin(loadedAndSaved(ofHost.path(), "host to one GPU", onGpus(one, options)));
  saved = onGpus(two, options);
  saved.saveTo = ofGpus.path();
  run(saved);
  expectWithin(loadedAndSaved(ofGpus.path(), "GPUs to host", under(one, options)));
}

}  // namespace
}  // namespace tutti::parallel
