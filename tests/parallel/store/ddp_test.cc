// Data parallelism: buckets overlap backward, validation and the defaults of deterministic mode do
// not depend on the number of ranks, and what cannot be is refused. That gradients and steps are
// one rank's is the parity ladder's (parity/).

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "parallel/engine/engine.h"
#include "parallel/kernels/host/blas.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/nn/gpt.h"
#include "tests/parallel/support/runs.h"

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
  ActivationStash stash;
  stash.deferWeights = true;
  model.declare(store);
  store.initialize(kSeed);
  std::vector<int32_t> ids(static_cast<size_t>(kModel.context), 3);
  store.beginStep(1);
  const Tensor logits =
      model.forward(context, Tensor(ids.data(), DType::Int32, {1, kModel.context}), stash);
  store.addLoss(0, 0);
  model.backward(context, logits, stash);
  stash.drain(context);
  stash.reset();
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
