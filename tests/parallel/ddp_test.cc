// Data parallelism against one rank: the same losses, gradients and weights for the same global
// batch on 1, 2 and 4 ranks (threads of this process); to the bit in deterministic mode. Buckets
// overlap backward, and arenas come back to zero.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "parallel/engine/engine.h"
#include "parallel/kernels/host/blas.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/nn/gpt.h"
#include "parallel/store/gradient_tree.h"

namespace tutti::parallel {
namespace {

constexpr GptOptions kModel{.context = 24, .layers = 2, .width = 32, .heads = 2};
constexpr int64_t kBatch = 8;
constexpr uint64_t kSeed = 9;

std::vector<uint8_t> makeText() {
  std::vector<uint8_t> text(6000);
  for (size_t i = 0; i < text.size(); ++i)
    text[i] = static_cast<uint8_t>('a' + (i * i + i / 7) % 26);
  return text;
}

struct RunOptions {
  int ranks = 1;
  bool deterministic = false;
  DType type = DType::Float32;
  int groups = 4;
  int steps = 1;
  bool adam = false;
  double clip = 0.5;
};

struct RunResult {
  std::vector<double> losses, norms;
  std::vector<std::vector<char>> weights, gradients;  ///< by parameter; gradients of the last step
  StoreCounters counters;
  size_t scratchBytes = 1, savedBytes = 1, growths = 0;
};

std::vector<char> bytesOf(const Tensor& tensor) {
  const char* data = static_cast<const char*>(tensor.data);
  return {data, data + tensor.bytes()};
}

/// One rank's whole run.
RunResult train(DeviceMesh mesh, const RunOptions& o) {
  HostKernels kernels;
  Gpt model(kModel);
  Engine engine(
      mesh, kernels, model,
      {.policy = {.deterministic = o.deterministic, .firstBucketBytes = 1000, .bucketBytes = 40000},
       .type = o.type,
       .reductionGroups = o.groups,
       .clipNorm = o.clip,
       .seed = kSeed});
  const auto text = makeText();
  Loader loader(text, kModel.context, kBatch, kSeed);
  const auto optimizer = o.adam ? makeAdamW({}) : makeSgd({});
  RunResult result;
  for (int step = 0; step < o.steps; ++step) {
    const StepReport report = engine.step(loader, step, *optimizer, o.adam ? 0.003 : 0.5);
    result.losses.push_back(report.loss);
    result.norms.push_back(report.gradientNorm);
    result.counters = report.counters;
    engine.store().checkReplicas();
    if (step == 1)
      result.growths = engine.scratch().growths() + engine.saved().untilWeights.growths();
  }
  if (o.steps > 1) {
    EXPECT_EQ(result.growths, engine.scratch().growths() + engine.saved().untilWeights.growths())
        << "a later step took more memory";
  }
  for (size_t p = 0; p < engine.store().parameterCount(); ++p) {
    const Parameter& parameter = engine.store().parameter(p);
    result.weights.push_back(bytesOf(engine.store().weight(parameter)));
    result.gradients.push_back(bytesOf(engine.store().finishedGradient(parameter)));
  }
  result.scratchBytes = engine.scratch().usedBytes();
  result.savedBytes =
      engine.saved().untilBackward.usedBytes() + engine.saved().untilWeights.usedBytes();
  return result;
}

/// All ranks as threads; the results are in rank order.
std::vector<RunResult> run(const RunOptions& o) {
  host::setBlasThreads(1);
  std::vector<RunResult> results(static_cast<size_t>(o.ranks));
  if (o.ranks == 1) {
    results[0] = train(DeviceMesh(), o);
    return results;
  }
  auto communicators = Communicator::createLocal(o.ranks, {.deterministic = o.deterministic});
  std::vector<std::exception_ptr> failures(results.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < results.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        results[r] = train(DeviceMesh(std::move(communicators[r])), o);
      } catch (...) {
        failures[r] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return results;
}

void expectReplicasEqual(const std::vector<RunResult>& results) {
  for (const RunResult& result : results) {
    EXPECT_EQ(result.weights, results[0].weights);
    EXPECT_EQ(result.losses, results[0].losses);
    EXPECT_EQ(result.norms, results[0].norms);
    EXPECT_EQ(result.scratchBytes, 0u);
    EXPECT_EQ(result.savedBytes, 0u);
  }
}

double norm(const double* values, size_t count) {
  double total = 0;
  for (size_t i = 0; i < count; ++i) total += values[i] * values[i];
  return std::sqrt(total);
}

// Rung 1: float64 gradients within 1e-12 of one rank's.
TEST(DataParallel, Float64GradientsAgreeWithOneRank) {
  const RunResult one = run({.type = DType::Float64})[0];
  std::vector<double> norms;
  for (const auto& g : one.gradients)
    norms.push_back(norm(reinterpret_cast<const double*>(g.data()), g.size() / 8));
  auto sorted = norms;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<long>(sorted.size() / 2),
                   sorted.end());
  const double median = sorted[sorted.size() / 2];
  for (int ranks : {2, 4}) {
    const RunResult many = run({.ranks = ranks, .type = DType::Float64})[0];
    double worst = 0;
    for (size_t p = 0; p < norms.size(); ++p) {
      const auto* a = reinterpret_cast<const double*>(one.gradients[p].data());
      const auto* b = reinterpret_cast<const double*>(many.gradients[p].data());
      std::vector<double> difference(one.gradients[p].size() / 8);
      for (size_t i = 0; i < difference.size(); ++i) difference[i] = a[i] - b[i];
      worst = std::max(
          worst, norm(difference.data(), difference.size()) / std::max(norms[p], 1e-3 * median));
    }
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
    expectReplicasEqual(results);
    for (size_t i = 0; i < one.losses.size(); ++i)
      EXPECT_NEAR(results[0].losses[i], one.losses[i], 1e-5) << ranks << " ranks, step " << i;
  }
}

// Rung 3: the same bits, with clipping, for both optimizers, also with more micro-batches than
// ranks.
TEST(DataParallel, DeterministicModeGivesTheBitsOfOneRank) {
  for (bool adam : {false, true})
    for (int groups : {4, 8}) {
      const RunOptions options{.deterministic = true, .groups = groups, .steps = 12, .adam = adam};
      const RunResult one = run(options)[0];
      for (int ranks : {1, 2, 4}) {
        RunOptions split = options;
        split.ranks = ranks;
        const auto results = run(split);
        expectReplicasEqual(results);
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
  expectReplicasEqual(results);
  for (size_t i = 0; i < one.losses.size(); ++i)
    EXPECT_NEAR(results[0].losses[i], one.losses[i], 1e-5);
}

// 2 blocks of 51 KB, a final norm and 35 KB of embeddings: with these limits four buckets.
TEST(DataParallel, BucketsStartBeforeBackwardEnds) {
  for (const RunResult& result : run({.ranks = 2, .steps = 2})) {
    EXPECT_EQ(result.counters.allReduces, 3);
    EXPECT_EQ(result.counters.startedEarly, result.counters.allReduces - 1);
    size_t bytes = 0;
    for (const auto& g : result.gradients) bytes += (g.size() + 63) / 64 * 64;
    EXPECT_EQ(result.counters.allReduceBytes, bytes);
  }
  EXPECT_EQ(run({})[0].counters.allReduces, 0);
}

TEST(DataParallel, RefusesWhatCannotBeDeterministic) {
  EXPECT_THROW(reductionGroupsFor(3, true), Error);
  EXPECT_EQ(reductionGroupsFor(3, false), 6);
  EXPECT_EQ(reductionGroupsFor(8, true), 8);
  EXPECT_THROW(run({.deterministic = true, .groups = 6}), Error);
  EXPECT_THROW(run({.ranks = 2, .groups = 3}), Error);
}

// The merges of a binary counter leave one balanced tree at level 0.
TEST(GradientTree, IsBalanced) {
  for (int count : {1, 2, 4, 8, 16}) {
    std::vector<std::string> levels(static_cast<size_t>(treeLevels(count)));
    const std::function<std::string(int, int)> expected = [&](int begin, int size) {
      if (size == 1) return std::to_string(begin);
      return "(" + expected(begin, size / 2) + "+" + expected(begin + size / 2, size / 2) + ")";
    };
    for (int k = 0; k < count; ++k) {
      const TreePlace place = treePlace(k);
      auto at = levels.begin() + place.level;
      *at = std::to_string(k);
      for (int i = 0; i < place.merges; ++i, --at) *(at - 1) = "(" + *(at - 1) + "+" + *at + ")";
    }
    EXPECT_EQ(levels[0], expected(0, count));
  }
}

}  // namespace
}  // namespace tutti::parallel
