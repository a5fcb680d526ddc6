// Data parallelism against one rank: the same losses, gradients and weights for the same global
// batch on 1, 2 and 4 ranks (threads of this process); to the bit in deterministic mode. Buckets
// overlap backward, and arenas come back to zero.

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <exception>
#include <thread>
#include <type_traits>
#include <vector>

#include "parallel/engine/engine.h"
#include "parallel/kernels/host/blas.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/nn/gpt.h"
#include "tests/parallel/runs.h"

namespace tutti::parallel {
namespace {

constexpr GptOptions kModel = kSmallGpt;
constexpr uint64_t kSeed = kRunSeed;
const ShardPolicy kSmallBuckets = RunOptions::smallBuckets(ShardPolicy::ddp());

struct DdpOptions {
  int ranks = 1;
  bool deterministic = false;
  DType type = DType::Float32;
  int groups = 4;
  int steps = 1;
  bool adam = false;
};

std::vector<RunResult> run(const DdpOptions& o) {
  RunOptions options{.mesh = MeshShape::along(Axis::Data, o.ranks),
                     .types = o.type,
                     .groups = o.groups,
                     .steps = o.steps,
                     .adam = o.adam};
  options.policy.deterministic = o.deterministic;
  return run(options);
}

// Rung 1: float64 gradients within 1e-12 of one rank's.
TEST(DataParallel, Float64GradientsAgreeWithOneRank) {
  const RunResult one = run({.type = DType::Float64})[0];
  for (int ranks : {2, 4}) {
    const RunResult many = run({.ranks = ranks, .type = DType::Float64})[0];
    const double worst = worstDifference(one.gradients, many.gradients);
    std::printf("%d ranks: worst relative difference %.2g\n", ranks, worst);
    EXPECT_LE(worst, 1e-12) << ranks << " ranks";
  }
}

// Rung 4: plain SGD in float32.
TEST(DataParallel, TwentyStepsOfSgdAgreeWithOneRank) {
  const RunResult one = run({.steps = 20})[0];
  EXPECT_LT(one.losses.back(), one.losses.front() - 0.5);
  for (int ranks : {2, 4}) {
    const auto results = run({.ranks = ranks, .steps = 20});
    for (size_t i = 0; i < one.losses.size(); ++i)
      EXPECT_NEAR(results[0].losses[i], one.losses[i], 1e-5) << ranks << " ranks, step " << i;
  }
}

// Rung 3: the same bits, with clipping, for both optimizers, also with more micro-batches than
// ranks.
TEST(DataParallel, DeterministicModeGivesTheBitsOfOneRank) {
  for (bool adam : {false, true})
    for (int groups : {4, 8}) {
      const DdpOptions options{.deterministic = true, .groups = groups, .steps = 12, .adam = adam};
      const RunResult one = run(options)[0];
      for (int ranks : {1, 2, 4}) {
        DdpOptions split = options;
        split.ranks = ranks;
        const auto results = run(split);
        EXPECT_EQ(results[0].losses, one.losses) << ranks << " ranks, " << groups << " groups";
        EXPECT_EQ(results[0].norms, one.norms) << ranks << " ranks, " << groups << " groups";
        EXPECT_EQ(results[0].weights, one.weights) << ranks << " ranks, " << groups << " groups";
        EXPECT_EQ(results[0].gradients, one.gradients) << ranks << " ranks, " << groups;
      }
    }
}

// Three ranks: replicas still agree, and the losses with one rank.
TEST(DataParallel, ThreeRanksAndUnevenMicroBatches) {
  const RunResult one = run({.groups = 6, .steps = 5})[0];
  const auto results = run({.ranks = 3, .groups = 6, .steps = 5});
  for (size_t i = 0; i < one.losses.size(); ++i)
    EXPECT_NEAR(results[0].losses[i], one.losses[i], 1e-5);
}

// Three buckets with these limits: the final norm (256 bytes, below the first limit) with block 1
// (51 KB), block 0, and 35 KB of embeddings. All but the last begin while backward goes on.
TEST(DataParallel, BucketsStartBeforeBackwardEnds) {
  for (const RunResult& result : run({.ranks = 2, .steps = 2})) {
    EXPECT_EQ(result.counters.allReduce.calls, 3);
    EXPECT_EQ(result.counters.startedEarly, 2);
    size_t bytes = 0;
    for (const auto& g : result.gradients) bytes += (g.size() + 127) / 128 * 128;  // of 32 floats
    EXPECT_EQ(result.counters.allReduce.bytes, bytes);
  }
  EXPECT_EQ(run({})[0].counters.allReduce.calls, 0);
}

/// One micro-batch whose weight gradients are kept until backward is over.
StoreCounters deferredStep(DeviceMesh& mesh) {
  HostKernels kernels;
  Gpt model(kModel);
  ParameterStore store(mesh, kernels, kSmallBuckets, DType::Float32);
  Arena scratch("scratch");
  ParallelContext context{mesh, kernels, store, scratch};
  Saved saved;
  saved.deferWeights = true;
  model.declare(store);
  store.initialize(kSeed);
  std::vector<int32_t> ids(static_cast<size_t>(kModel.context), 3);
  store.beginStep(1);
  const Tensor logits =
      model.forward(context, Tensor(ids.data(), DType::Int32, {1, kModel.context}), saved);
  store.addLoss(0, 0);
  model.backward(context, logits, saved);
  saved.drain(context);
  saved.reset();
  store.finishLoss();
  return store.counters();
}

// The counter tells the two apart: when the weight gradients come after backward, no bucket can
// begin early.
TEST(DataParallel, DeferredWeightsStartNoBucketEarly) {
  for (const StoreCounters& counters : onRanks(2, false, deferredStep)) {
    EXPECT_EQ(counters.allReduce.calls, 3);
    EXPECT_EQ(counters.startedEarly, 0);
  }
}

/// Steps of two units with a bucket each, with longer and longer pauses between the backward of one
/// and that of the other, until both ranks have seen the first bucket reduced in the pause. Returns
/// whether that was so at last; the gradients must be right in any case.
int reducedInThePause(DeviceMesh& mesh) {
  HostKernels kernels;
  ParameterStore store(mesh, kernels, {.firstBucketBytes = 1, .bucketBytes = 1}, DType::Float32);
  Parameter first{.name = "first", .global = {1000}, .init = {}, .layout = {}, .unit = 0};
  Parameter second{.name = "second", .global = {1000}, .init = {}, .layout = {}, .unit = 1};
  store.add(first);
  store.add(second);
  store.initialize(kSeed);
  const auto fill = [&](const Parameter& parameter) {
    store.acquire(parameter.unit, Phase::Backward);
    auto* values = static_cast<float*>(store.gradient(parameter, 0).buffer.data);
    std::fill_n(values, 1000, 1.0f);
    store.weightsDone(parameter.unit, 0);
    store.release(parameter.unit, Phase::Backward);
  };
  for (auto pause = std::chrono::milliseconds(1); pause.count() < 10'000; pause *= 2) {
    store.beginStep(1);
    fill(second);
    std::this_thread::sleep_for(pause);
    fill(first);
    store.addLoss(store.counters().finishedEarly, 0);
    const double seen = store.finishLoss();
    for (const Parameter* parameter : {&first, &second})
      EXPECT_EQ(static_cast<const float*>(store.finishedGradient(*parameter).data)[999], 2.0f);
    if (seen == 2) return 1;
  }
  return 0;
}

TEST(DataParallel, ABucketIsReducedWhileBackwardGoesOn) {
  for (const int reduced : onRanks(2, false, reducedInThePause)) EXPECT_EQ(reduced, 1);
}

// A text of 25 windows, taken 4 at a time: the ranks get 7 batches in all, the last of one window.
TEST(DataParallel, ValidationLossDoesNotDependOnTheRanks) {
  const auto text = makeText();
  const std::vector<uint8_t> part(text.begin(), text.begin() + 25 * kModel.context);
  const auto evaluate = [&](DeviceMesh& mesh) {
    HostKernels kernels;
    Gpt model(kModel);
    Engine engine(mesh, kernels, model, {.policy = kSmallBuckets, .seed = kSeed});
    Windows windows(part, kModel.context);
    return engine.evaluate(windows, 4);
  };
  host::setBlasThreads(1);
  DeviceMesh alone;
  const double one = evaluate(alone);
  EXPECT_NEAR(one, std::log(256.0), 0.2);  // untrained: all bytes are about equally likely
  for (int ranks : {2, 3, 4, 8})
    for (double loss : onRanks(ranks, false, evaluate)) EXPECT_EQ(loss, one) << ranks << " ranks";
}

// What a user gets who says nothing but --deterministic.
TEST(DataParallel, DeterministicDefaultsAreTheSameUpToEightRanks) {
  const DdpOptions options{.deterministic = true, .groups = 0, .steps = 3, .adam = true};
  const RunResult one = run(options)[0];
  for (int ranks : {2, 4, 8}) {
    DdpOptions split = options;
    split.ranks = ranks;
    const auto results = run(split);
    EXPECT_EQ(results[0].losses, one.losses) << ranks << " ranks";
    EXPECT_EQ(results[0].weights, one.weights) << ranks << " ranks";
  }
}

TEST(DataParallel, DeterministicPolicyNeedsADeterministicCommunicator) {
  const auto outcome = [](DeviceMesh& mesh) -> std::string {
    HostKernels kernels;
    Gpt model(kModel);
    try {
      Engine engine(mesh, kernels, model, {.policy = {.deterministic = true}});
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  for (const std::string& refusal : onRanks(2, false, outcome))
    EXPECT_NE(refusal.find("deterministic"), std::string::npos) << refusal;
  for (const std::string& refusal : onRanks(2, true, outcome)) EXPECT_EQ(refusal, "");
}

// One bit of one weight of one rank: all ranks are told which parameter it is in.
TEST(DataParallel, CheckReplicasSeesOneBit) {
  const auto complaint = [](DeviceMesh& mesh) -> std::string {
    HostKernels kernels;
    Gpt model(kModel);
    Engine engine(mesh, kernels, model, {.policy = {}, .seed = kSeed});
    ParameterStore& store = engine.store();
    store.checkReplicas();
    const Parameter& parameter = store.parameter(store.parameterCount() / 2);
    if (mesh.rank() == 1) static_cast<uint8_t*>(store.weight(parameter).data)[3] ^= 1;
    try {
      store.checkReplicas();
      return "nothing";
    } catch (const Error& error) {
      const std::string what = error.what();
      return what.find(parameter.name) != std::string::npos ? "named" : what;
    }
  };
  for (const std::string& said : onRanks(3, false, complaint)) EXPECT_EQ(said, "named");
}

TEST(DataParallel, RefusesEmptyMicroBatches) {
  const auto text = makeText();
  HostKernels kernels;
  Gpt model(kModel);
  DeviceMesh mesh;
  Engine engine(mesh, kernels, model, {.reductionGroups = 4});
  Loader three(text, kModel.context, 3, kSeed), four(text, kModel.context, 4, kSeed);
  EXPECT_THROW(engine.gradients(three, 0), Error);
  EXPECT_NO_THROW(engine.gradients(four, 0));
}

TEST(DataParallel, RefusesWhatCannotBeDeterministic) {
  EXPECT_THROW(reductionGroupsFor(3, true), Error);
  EXPECT_EQ(reductionGroupsFor(3, false), 6);
  EXPECT_EQ(reductionGroupsFor(2, false), 4);
  for (int ranks : {1, 2, 4, 8}) EXPECT_EQ(reductionGroupsFor(ranks, true), 8);
  EXPECT_EQ(reductionGroupsFor(16, true), 16);
  EXPECT_THROW(run({.deterministic = true, .groups = 6}), Error);
  EXPECT_THROW(run({.ranks = 2, .groups = 3}), Error);
}

}  // namespace
}  // namespace tutti::parallel
