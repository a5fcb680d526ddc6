// The rungs of models with experts whose sequences are cut: which tokens are dropped, and what
// routers' losses are, is of whole sequences, of which each rank along cp has two pieces.

#include <gtest/gtest.h>

#include "parallel/checkpoint/names.h"
#include "tests/parallel/parity/expert_models.h"
#include "tests/parallel/parity/one_step.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

/// Ring attention, and heads that are exchanged.
std::vector<Arrangement> inBothWays(const std::vector<Arrangement>& rings) {
  std::vector<Arrangement> all;
  for (const Arrangement& ring : rings) {
    all.push_back(ring);
    all.push_back(exchanging(ring));
  }
  return all;
}

// Experts on one rank and on several.
TEST(Rung1, ExpertsOfSequencesThatAreCut) {
  for (const RunModel& model : allExpertModels()) {
    const RunOptions options = float64Run(model);
    const RunResult one = run(options)[0];
    expectUneven(one, model);
    for (const Arrangement& layout : inBothWays({arrangement("cp=2"), arrangement("cp=2,ep=2"),
                                                 arrangement("cp=2,ep=2,tp=2", zero(0), true)}))
      expectWithin(float64Steps(one, layout.name + ", " + model.name, under(layout, options)));
  }
}

// Every stage of ZeRO, tensor parallelism, and pipelines.
TEST(Rung1, ExpertsOfSequencesThatAreCutBesideEachAxis) {
  std::vector<Arrangement> layouts = sharings("fsdp=2,cp=2,ep=2");
  for (const Arrangement& layout :
       {arrangement("dp=2,cp=2"), arrangement("cp=4"), arrangement("cp=4,ep=2"),
        arrangement("cp=2,ep=4"), arrangement("cp=2,tp=2"), arrangement("cp=2,ep=2,tp=2"),
        arrangement("pp=2,cp=2"),
        piped(arrangement("pp=2,cp=2,ep=2"), {.schedule = ScheduleKind::ZeroBubbleH1}),
        exchanging(piped(arrangement("pp=2,cp=2,ep=2"), {}))})
    layouts.push_back(layout);
  for (const RunModel& model : expertModels(2, 1)) {
    const RunOptions options = float64Run(model);
    const RunResult one = run(options)[0];
    for (const Arrangement& layout : layouts)
      expectWithin(float64Steps(one, layout.name + ", " + model.name, under(layout, options)));
  }
}

// Of 7 positions a rank of five has one or two, of eight one or none; weight gradients come late.
TEST(Rung1, ExpertsOfFewPositions) {
  for (LadderModel model : {ladderGpt(4), ladderLlama(4, 2)})
    for (const double capacityFactor : {0.0, 0.8}) {
      std::visit([&](auto& o) { o.experts = ladderExperts(2, capacityFactor); }, model.options);
      const WholeStep one = wholeStep(model, arrangement(""), {});
      for (const std::string mesh : {"cp=3", "cp=5", "cp=8", "cp=4,ep=2"})
        expectWithin(float64Step(one, model, arrangement(mesh), {.defer = mesh == "cp=3"}));
    }
}

// Sequences that the micro-batches share unevenly, rounds, and blocks that are recomputed.
TEST(Rung1, ExpertsOfSequencesThatAreCutInUnevenMicroBatches) {
  for (const RunModel& model : expertModels(2, 0.7)) {
    RunOptions options = float64Run(model);
    options.batch = 7;
    options.groups = 2;
    options.rounds = 2;
    const RunResult one = run(options)[0];
    std::visit([](auto& o) { o.recompute = Recompute::Block; }, options.model);
    for (const std::string mesh : {"cp=2", "cp=2,ep=2"})
      expectWithin(float64Steps(one, mesh + ", recompute block, " + model.name,
                                under(arrangement(mesh), options)));
  }
}

TEST(Rung2, ExpertsOfSequencesThatAreCut) {
  for (const RunModel& model : expertModels(2, 1)) {
    const RunOptions options{.model = model.options, .clip = 0.1};
    const Float32Reference reference = float32Reference(options);
    for (const Arrangement& layout :
         inBothWays({arrangement("cp=2,ep=2"), arrangement("cp=2,ep=2,tp=2", zero(0), true)}))
      expectWithin(float32Step(reference, layout.name + ", " + model.name, under(layout, options)));
  }
}

// With the same ranks along cp and ep other axes change no bit.
TEST(Rung3, ExpertsOfSequencesThatAreCut) {
  for (const RunModel& model : expertModels(2, 1)) {
    RunOptions options{.model = model.options, .steps = 3, .adam = true};
    options.policy.deterministic = true;
    const auto same = [&](const std::string& mesh, const std::vector<Arrangement>& layouts) {
      const RunResult one = run(under(arrangement(mesh), options))[0];
      for (const Arrangement& layout : layouts)
        expectWithin(
            sameBits(one, layout.name + " to " + mesh + ", " + model.name, under(layout, options)));
    };
    same("cp=2",
         {arrangement("dp=2,cp=2"), arrangement("fsdp=2,cp=2", zero(3)), arrangement("pp=2,cp=2")});
    same("cp=2,ep=2", {arrangement("cp=2,ep=2"), arrangement("pp=2,cp=2,ep=2")});
  }
}

TEST(Rung4, ExpertsOfSequencesThatAreCut) {
  for (const RunModel& model : expertModels(2, 0)) {
    const RunOptions options{.model = model.options, .steps = 20};
    const RunResult one = run(options)[0];
    for (const Arrangement& layout : inBothWays({arrangement("cp=2,ep=2")}))
      expectWithin(sameLosses(one, layout.name + ", " + model.name, under(layout, options)));
  }
}

// Weights do not know of it.
TEST(Rung5, ExpertsOfSequencesThatAreCut) {
  const RunModel model = expertModels(2, 1)[0];
  RunOptions options{.types = DType::Float64, .model = model.options, .steps = 2, .adam = true};
  const tests::TemporaryFolder folder;
  RunOptions first = under(arrangement("fsdp=2,cp=2,ep=2", zero(3)), options);
  first.saveTo = folder.path();
  run(first);
  for (const Arrangement& to : {arrangement(""), arrangement("ep=4"), arrangement("cp=4,ep=2")})
    expectWithin(
        loadedAndSaved(first.saveTo, "fsdp=2,cp=2,ep=2, zero 3 to " + to.name, under(to, options)));
}

// Experts are replicated along cp.
TEST(Rung6, ExpertsOfSequencesThatAreCut) {
  const ModelOptions model = expertModels(2, 0)[0].options;
  for (const std::string parameter : {"blocks.0.router.weight", "blocks.0.experts.up.weight"})
    expectWithin(corruptedReplica(arrangement("cp=2,ep=2"), model, parameter, Copy::Master));
}

}  // namespace
}  // namespace tutti::parallel
