// Rung 5: what is saved under one layout and loaded under another is equal to the bit, weights and
// moments, and the training goes on with the sample that comes next as if it had never stopped.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "parallel/checkpoint/names.h"
#include "parallel/kernels/host/host_kernels.h"
#include "tests/parallel/parity/rungs.h"
#include "tests/parallel/temporary_folder.h"

namespace tutti::parallel {
namespace {

using tests::TemporaryFolder;

std::vector<Arrangement> layoutsOfData() {
  return {arrangement(""),
          arrangement("dp=2"),
          arrangement("fsdp=4", zero(1)),
          arrangement("fsdp=2", zero(2)),
          arrangement("fsdp=4", zero(3)),
          arrangement("dp=2,fsdp=2", zero(3)),
          arrangement("fsdp=8", zero(3))};
}

RunOptions training(const Arrangement& layout, int steps) {
  RunOptions options{.groups = 8, .steps = steps, .adam = true};
  options.policy.deterministic = true;
  return under(layout, options);
}

/// What is left of a run after its first three steps.
RunResult afterThree(RunResult run) {
  run.losses.erase(run.losses.begin(), run.losses.begin() + 3);
  run.norms.erase(run.norms.begin(), run.norms.begin() + 3);
  return run;
}

/// Three steps under `from`, then `visit(checkpoints, to, what)` for each of `layouts`.
template <class Visit>
void goOn(const Arrangement& from, const std::vector<Arrangement>& layouts, const Visit& visit) {
  const TemporaryFolder folder;
  RunOptions first = training(from, 3);
  first.saveTo = folder.path();
  run(first);
  EXPECT_GT(savedTensors(first.saveTo).size(), 3u);
  EXPECT_EQ(checkpointSteps(first.saveTo), std::vector<int64_t>{3});
  for (const Arrangement& to : layouts) visit(first.saveTo, to, from.name + " to " + to.name);
}

RunOptions resumed(const std::string& root, const Arrangement& layout) {
  RunOptions options = training(layout, 2);
  options.loadFrom = latestCheckpoint(root)->string();
  return options;
}

TEST(Resume, AnyLayoutGoesOnWhereAnotherStopped) {
  const RunResult rest = afterThree(run(training(layoutsOfData()[0], 5))[0]);
  for (const Arrangement& from : layoutsOfData())
    goOn(from, layoutsOfData(),
         [&](const std::string& root, const Arrangement& to, const std::string& what) {
           expectWithin(loadedAndSaved(root, what, training(to, 0)));
           expectWithin(sameBits(rest, what, resumed(root, to)));
         });
}

// Where tensor parallelism has other ranks than before, sums have another order: what was saved is
// still equal to the bit, and what follows is near.
TEST(Resume, LayoutsOfTensorParallelismGoOnToo) {
  const std::vector<Arrangement> layouts{arrangement(""), arrangement("fsdp=4", zero(3)),
                                         arrangement("tp=2"), arrangement("fsdp=2,tp=2", zero(3)),
                                         arrangement("dp=2,tp=2", zero(0), true)};
  const auto cut = [](const Arrangement& layout) { return layout.mesh.ranks(kTensorAxes) > 1; };
  const RunResult rest = afterThree(run(training(layouts[0], 5))[0]);
  for (const Arrangement& from : layouts)
    goOn(from, layouts,
         [&](const std::string& root, const Arrangement& to, const std::string& what) {
           if (!cut(from) && !cut(to)) return;  // above
           expectWithin(loadedAndSaved(root, what, training(to, 0)));
           const RunResult many = run(resumed(root, to))[0];
           for (size_t i = 0; i < 2; ++i)
             EXPECT_NEAR(many.losses[i], rest.losses[i], 1e-4) << what << ", step " << i;
         });
}

// Fewer heads of keys and values than ranks, tied embeddings, odd numbers of ranks, bfloat16.
TEST(Resume, EveryKindOfWeightIsSavedAndLoaded) {
  LlamaOptions tied = kRunLlama;
  tied.tied = true;
  const std::vector<Arrangement> layouts{arrangement(""),
                                         arrangement("fsdp=3", zero(3)),
                                         arrangement("dp=5"),
                                         arrangement("tp=2,rep=2", zero(0), true),
                                         arrangement("fsdp=2,tp=2,rep=2", zero(1)),
                                         arrangement("dp=2,fsdp=2,tp=2", zero(2), true)};
  const auto groups = [](const Arrangement& layout) {
    const int ranks = layout.mesh.ranks();
    return ranks % 2 == 0 || ranks == 1 ? 4 : ranks;
  };
  for (const StoreTypes& types : {StoreTypes(DType::Float32), StoreTypes(DType::BFloat16)})
    for (const Arrangement& from : layouts) {
      const TemporaryFolder folder;
      RunOptions options{
          .types = types, .model = tied, .groups = groups(from), .steps = 2, .adam = true};
      options = under(from, options);
      options.saveTo = folder.path();
      run(options);
      for (const Arrangement& to : layouts)
        expectWithin(loadedAndSaved(
            options.saveTo, message(from.name, " to ", to.name, ", ", toString(types.weights)),
            under(to, {.types = types, .model = tied, .groups = groups(to), .adam = true})));
    }
}

// Also when the weights that were gathered before are other ones.
TEST(Resume, GoingBackForgetsWhatWasGathered) {
  for (const int stage : {0, 1, 3}) {
    const TemporaryFolder folder;
    const auto losses = [&](DeviceMesh& mesh) -> std::vector<double> {
      HostKernels kernels;
      Gpt model(kSmallGpt);
      Engine engine(mesh, kernels, model,
                    {.policy = ShardPolicy::zero(stage), .types = DType::BFloat16});
      const auto adam = makeAdamW({});
      const auto text = makeText();
      Loader loader(text, kSmallGpt.context, kSmallBatch, kRunSeed);
      Windows windows(text, kSmallGpt.context);
      engine.step(loader, 0, *adam, 0.01);
      engine.save(folder.path(), 1, *adam);
      const double saved = engine.evaluate(windows, 16);
      engine.step(loader, 1, *adam, 0.01);
      const double later = engine.evaluate(windows, 16);
      EXPECT_EQ(engine.load(*latestCheckpoint(folder.path()), *adam), 1);
      return {saved, later, engine.evaluate(windows, 16)};
    };
    for (const auto& loss : onRanks(MeshShape::parse("fsdp=2"), false, losses)) {
      EXPECT_NE(loss[1], loss[0]) << stage;
      EXPECT_EQ(loss[2], loss[0]) << stage;
    }
  }
}

/// What all ranks throw, each its own, when they load `root`'s latest.
std::vector<std::string> refusals(const std::string& root, const GptOptions& model,
                                  const StoreTypes& types, bool adam) {
  return onRanks(MeshShape::parse("fsdp=2"), false, [&](DeviceMesh& mesh) -> std::string {
    HostKernels kernels;
    Gpt gpt(model);
    Engine engine(mesh, kernels, gpt, {.policy = ShardPolicy::fsdp(), .types = types});
    const auto optimizer = adam ? makeAdamW({}) : makeSgd({});
    try {
      engine.load(*latestCheckpoint(root), *optimizer);
      return "loaded";
    } catch (const Error& error) {
      return error.what();
    }
  });
}

TEST(Resume, RefusesWhatIsNotOfThisTrainingOnAllRanks) {
  const TemporaryFolder folder;
  RunOptions options = training(arrangement("fsdp=4", zero(3)), 1);
  options.saveTo = folder.path();
  run(options);
  const auto expect = [&](const std::vector<std::string>& said, const std::string& named) {
    ASSERT_EQ(said.size(), 2u);
    for (const std::string& what : said) EXPECT_NE(what.find(named), std::string::npos) << what;
  };
  expect(refusals(options.saveTo, kSmallGpt, DType::Float32, true), "loaded");
  expect(refusals(options.saveTo, kSmallGpt, DType::Float32, false),
         "nobody expects tensor \"optimizer.exp_avg.");
  expect(refusals(options.saveTo, kSmallGpt, DType::Float64, true), "it is float32, not float64");
  GptOptions other = kSmallGpt;
  other.layers = 3;
  expect(refusals(options.saveTo, other, DType::Float32, true), "there is no tensor \"blocks.2.");
  other = kSmallGpt;
  other.context = 25;
  expect(refusals(options.saveTo, other, DType::Float32, true),
         "tensor \"positions\": shape: it is [24, 32], not [25, 32]");
  // Only the second of the two reads the second half of the file of rank 3.
  const auto file = *latestCheckpoint(options.saveTo) / shardName(3);
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekp(-1, std::ios::end);
  bytes.put('\x55');
  bytes.close();
  const auto damaged = refusals(options.saveTo, kSmallGpt, DType::Float32, true);
  expect(damaged, "its data has changed");
  expect(damaged, shardName(3));
  EXPECT_EQ(damaged[0].find("rank 1: "), 0u) << damaged[0];
  EXPECT_EQ(damaged[1].find("rank 1: "), std::string::npos) << damaged[1];
}

// Saving fails on all ranks when it cannot be on one, and leaves what there was.
TEST(Resume, SavingFailsTogether) {
  const TemporaryFolder folder;
  RunOptions options = training(arrangement("fsdp=2", zero(2)), 1);
  options.saveTo = folder.path();
  run(options);
  const auto before = savedTensors(options.saveTo);
  const auto said = onRanks(options.mesh, true, [&](DeviceMesh& mesh) -> std::string {
    HostKernels kernels;
    Gpt model(kSmallGpt);
    Engine engine(mesh, kernels, model, {.policy = options.policy});
    const auto sgd = makeSgd({});
    try {
      engine.save(options.saveTo, 1, *sgd);  // there is one of this step
      return "saved";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidUsage);
      return error.what();
    }
  });
  EXPECT_NE(said[0], "saved");
  EXPECT_EQ(said[1], "rank 0: " + said[0]);
  EXPECT_EQ(savedTensors(options.saveTo), before);
}

}  // namespace
}  // namespace tutti::parallel
