// The rungs of models with experts: every axis beside ep, top-1 and top-2, with a capacity and
// without.

#include <gtest/gtest.h>

#include <algorithm>

#include "parallel/checkpoint/names.h"
#include "tests/parallel/parity/expert_models.h"
#include "tests/parallel/parity/one_step.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

std::vector<Arrangement> expertLayouts() {
  std::vector<Arrangement> all{arrangement("dp=2"),      arrangement("fsdp=4", zero(3)),
                               arrangement("ep=2"),      arrangement("ep=4"),
                               arrangement("dp=2,ep=2"), arrangement("pp=2"),
                               arrangement("pp=2,ep=2")};
  for (const Arrangement& shared : sharings("fsdp=2,ep=2")) all.push_back(shared);
  for (const bool sequence : {false, true}) {
    all.push_back(arrangement("tp=2", zero(0), sequence));
    all.push_back(arrangement("ep=2,tp=2", zero(0), sequence));
  }
  all.push_back(arrangement("fsdp=2,ep=2,tp=2", zero(3), true));
  all.push_back(piped(arrangement("pp=2,dp=2,ep=2"), {.schedule = ScheduleKind::ZeroBubbleH1}));
  return all;
}

TEST(Rung1, Experts) {
  for (const RunModel& model : allExpertModels()) {
    const RunOptions options = float64Run(model);
    const RunResult one = run(options)[0];
    expectUneven(one, model);
    for (const Arrangement& layout : expertLayouts())
      expectWithin(float64Steps(one, layout.name + ", " + model.name, under(layout, options)));
  }
}

// Heads shared, rows of 14 tokens that four ranks cut unevenly, weight gradients that come late.
TEST(Rung1, ExpertsAndUnevenRows) {
  for (LadderModel model : {ladderGpt(4), ladderLlama(4, 2)}) {
    std::visit([](auto& o) { o.experts = ladderExperts(2, 0.8); }, model.options);
    const WholeStep one = wholeStep(model, arrangement(""), {});
    const std::string heads = model.name.starts_with("gpt") ? "tp=4" : "tp=2,rep=2";
    for (const bool sequence : {false, true})
      for (const bool defer : {false, true}) {
        const StepOptions step{.defer = defer};
        expectWithin(float64Step(one, model, arrangement(heads, zero(0), sequence), step));
        expectWithin(
            float64Step(one, model, arrangement("ep=2," + heads, zero(0), sequence), step));
      }
  }
}

// Sequences that the micro-batches share unevenly, so that ranks of experts have other numbers of
// them; rounds; blocks that are recomputed; and against a single micro-batch.
TEST(Rung1, ExpertsAndUnevenMicroBatches) {
  for (const double capacityFactor : {0.0, 0.7})
    for (const RunModel& model : expertModels(2, capacityFactor)) {
      RunOptions options = float64Run(model);
      options.batch = 7;
      options.groups = 1;
      const RunResult one = run(options)[0];
      options.groups = 4;
      for (const std::string mesh : {"", "ep=2", "ep=4", "dp=2,ep=2", "pp=2,ep=2"})
        expectWithin(float64Steps(one, mesh + ", 7 sequences, " + model.name,
                                  under(arrangement(mesh), options)));
      options.groups = 2;
      options.rounds = 2;
      expectWithin(
          float64Steps(one, "2 rounds, " + model.name, under(arrangement("ep=2"), options)));
      std::visit([](auto& o) { o.recompute = Recompute::Block; }, options.model);
      expectWithin(
          float64Steps(one, "recompute block, " + model.name, under(arrangement("ep=2"), options)));
    }
}

void addTo(const Tensor& x, int64_t i, float value) {
  if (x.type == DType::Float64)
    x.as<double>()[i] += double{value};
  else
    x.as<float>()[i] += value;
}

/// All first weights but the routers': those send everything to the experts of `rank`, of two.
std::function<void(ParameterStore&, const Optimizer&)> sendAllTo(int rank) {
  return [rank](ParameterStore& store, const Optimizer&) {
    for (size_t p = 0; p < store.parameterCount(); ++p) {
      const Parameter& parameter = store.parameter(p);
      if (parameter.name.ends_with("beforeMlp.bias")) {
        const Tensor bias = store.master(parameter);
        for (int64_t i = 0; i < bias.count(); ++i) addTo(bias, i, 1);
      }
      if (!parameter.name.ends_with("router.weight")) continue;
      const Tensor router = store.master(parameter);
      const Range rows = store.box(parameter)[0];
      const int64_t width = parameter.global[1];
      for (int64_t i = 0; i < router.count(); ++i)
        addTo(router, i, (rows.begin + i / width) / 2 == rank ? 1 : -1);
    }
    store.restored(0);
  };
}

// A rank whose experts get nothing from anybody, and another that gets everything.
TEST(Rung1, ARankOfExpertsMayGetNothing) {
  for (const int rank : {0, 1}) {
    RunOptions options = float64Run(expertModels(2, 0)[0]);
    options.steps = 1;
    options.afterLoad = sendAllTo(rank);
    const RunResult one = run(options)[0];
    for (size_t e = 0; e < one.router.loads.size(); ++e)
      EXPECT_EQ(one.router.loads[e] > 0, static_cast<int>(e % 4 / 2) == rank) << e;
    for (const Arrangement& layout :
         {arrangement("ep=2"), arrangement("ep=4"), arrangement("fsdp=2,ep=2", zero(3))})
      expectWithin(
          float64Steps(one, message(layout.name, ", all to rank ", rank), under(layout, options)));
  }
}

TEST(Rung2, Experts) {
  for (const RunModel& model : expertModels(2, 1)) {
    const RunOptions options{.model = model.options, .clip = 0.1};
    const Float32Reference reference = float32Reference(options);
    for (const Arrangement& layout :
         {arrangement("ep=2"), arrangement("ep=4"), arrangement("fsdp=2,ep=2", zero(3)),
          arrangement("ep=2,tp=2", zero(0), true), arrangement("pp=2,ep=2")})
      expectWithin(float32Step(reference, layout.name + ", " + model.name, under(layout, options)));
  }
}

// Also where the experts of a rank get nothing from anybody. Those of the other are then two, of
// which a token goes to both: a rounding may not change the choice.
TEST(Rung2, ExpertsInSixteenBits) {
  for (const bool toOne : {false, true})
    for (const RunModel& model : expertModels(toOne ? 2 : 1, 0))
      for (const DType type : {DType::BFloat16, DType::Float16}) {
        RunOptions options{.types = type, .model = model.options, .clip = 0.1};
        if (toOne) options.afterLoad = sendAllTo(1);
        const Float32Reference reference = float32Reference(options);
        for (const Arrangement& layout :
             {arrangement("ep=2"), arrangement("ep=4"), arrangement("ep=2,tp=2", zero(0), true)})
          expectWithin(narrowStep(reference,
                                  message(layout.name, ", ", model.name, ", ", toString(type),
                                          toOne ? ", all to rank 1" : ""),
                                  under(layout, options)));
      }
}

// What is deterministic without experts is so with them, along the axes that it is of.
TEST(Rung3, Experts) {
  for (const RunModel& model : expertModels(2, 1)) {
    RunOptions options{.model = model.options, .steps = 3, .adam = true};
    options.policy.deterministic = true;
    const RunResult one = run(options)[0];
    for (const Arrangement& layout :
         {arrangement("dp=2"), arrangement("fsdp=4", zero(3)), arrangement("pp=2")})
      expectWithin(sameBits(one, layout.name + ", " + model.name, under(layout, options)));
    const RunOptions two = under(arrangement("fsdp=2,ep=2", zero(1)), options);
    expectWithin(sameBits(run(two)[0], "ep=2, two runs, " + model.name, two));
  }
}

TEST(Rung4, Experts) {
  for (const RunModel& model : expertModels(2, 0)) {
    const RunOptions options{.model = model.options, .steps = 20};
    const RunResult one = run(options)[0];
    EXPECT_LT(one.losses.back(), one.losses.front() - 0.5);
    for (const Arrangement& layout : {arrangement("ep=4"), arrangement("ep=2,tp=2", zero(0), true),
                                      arrangement("fsdp=2,ep=2", zero(3))})
      expectWithin(sameLosses(one, layout.name + ", " + model.name, under(layout, options)));
  }
}

// Weights and moments, of experts that lie elsewhere then, and what follows.
/// Three steps under `from`; weights and moments under each of `layouts`, where experts lie
/// elsewhere, and one step more.
void goOn(const RunModel& model, const Arrangement& from, const std::vector<Arrangement>& layouts) {
  RunOptions options{.types = DType::Float64, .model = model.options, .steps = 4, .adam = true};
  const double fourth = run(options)[0].losses[3];
  const tests::TemporaryFolder folder;
  options.steps = 3;
  RunOptions first = under(from, options);
  first.saveTo = folder.path();
  run(first);
  for (const Arrangement& to : layouts) {
    const std::string what = from.name + " to " + to.name + ", " + model.name;
    RunOptions rest = under(to, options);
    rest.steps = 0;
    expectWithin(loadedAndSaved(first.saveTo, what, rest));
    rest.steps = 1;
    rest.loadFrom = latestCheckpoint(first.saveTo)->string();
    Finding finding{"rung 5", what + ", and on"};
    finding.note(std::fabs(run(rest)[0].losses[0] / fourth - 1), 1e-12, "the loss");
    expectWithin(finding);
  }
}

TEST(Rung5, Experts) {
  const Arrangement one = arrangement(""), two = arrangement("ep=2"), four = arrangement("ep=4"),
                    shared = arrangement("fsdp=4", zero(3)),
                    both = arrangement("fsdp=2,ep=2", zero(2)),
                    cut = arrangement("ep=2,tp=2", zero(0), true);
  const auto of = expertModels(2, 1);
  goOn(of[0], two, {four, shared, one});
  goOn(of[0], shared, {both, cut});
  goOn(of[1], both, {four, one});
  goOn(of[1], cut, {two});
}

TEST(Rung6, Experts) {
  const ModelOptions model = expertModels(2, 0)[0].options;
  for (const Arrangement& layout : {arrangement("ep=2"), arrangement("fsdp=2,ep=2", zero(3))})
    expectWithin(corruptedReplica(layout, model, "blocks.0.router.weight", Copy::Master));
  expectWithin(corruptedReplica(arrangement("dp=2,ep=2"), model, "blocks.1.experts.down.bias",
                                Copy::Master));
  // Of what its rank has alone no other knows.
  EXPECT_FALSE(
      corruptedReplica(arrangement("ep=2"), model, "blocks.0.experts.up.weight", Copy::Master)
          .within());
}

// Where ranks do not divide the experts.
TEST(Experts, RanksThatDoNotFitAreRefused) {
  const auto refused = [](const std::string& mesh, int64_t count, const std::string& named) {
    RunModel model = expertModels(1, 0)[0];
    std::get<GptOptions>(model.options).experts.count = count;
    RunOptions options = under(arrangement(mesh), float64Run(model));
    options.groups = 12;
    options.batch = 12;
    try {
      run(options);
      ADD_FAILURE() << mesh << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument) << error.what();
      EXPECT_NE(std::string(error.what()).find(named), std::string::npos) << error.what();
    }
  };
  refused("ep=3", 4, "4 experts cannot be dealt out to 3 ranks along ep: 2 or 4 would do");
  refused("ep=6", 4, "6 ranks along ep: 4 would do");
  refused("ep=4", 6, "3 or 6 would do");
}

}  // namespace
}  // namespace tutti::parallel
