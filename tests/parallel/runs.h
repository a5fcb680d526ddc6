#pragma once

// Whole trainings of a small GPT over ranks that are threads of this process, and what is left of
// them: losses, norms, and weights and gradients put together from all ranks' parts.

#include <exception>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "parallel/engine/engine.h"
#include "parallel/kernels/host/blas.h"
#include "parallel/nn/gpt.h"

namespace tutti::parallel {

/// One call of `rank(mesh)` on each of the mesh's ranks; the results are in rank order.
template <class Rank>
auto onRanks(const MeshShape& shape, bool deterministic, const Rank& rank) {
  host::setBlasThreads(1);
  using Result = std::invoke_result_t<Rank, DeviceMesh>;
  std::vector<Result> results(static_cast<size_t>(shape.ranks()));
  auto communicators = Communicator::createLocal(shape.ranks(), {.deterministic = deterministic});
  std::vector<std::exception_ptr> failures(results.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < results.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        results[r] = rank(DeviceMesh(std::move(communicators[r]), shape));
      } catch (...) {
        failures[r] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return results;
}
template <class Rank>
auto onRanks(int ranks, bool deterministic, const Rank& rank) {
  return onRanks(MeshShape::along(Axis::Data, ranks), deterministic, rank);
}

inline constexpr GptOptions kSmallGpt{.context = 24, .layers = 2, .width = 32, .heads = 2};
inline constexpr int64_t kSmallBatch = 8;
inline constexpr uint64_t kRunSeed = 9;

std::vector<uint8_t> makeText();

struct RunOptions {
  MeshShape mesh = {};  ///< of one rank: without a communicator
  ShardPolicy policy = smallBuckets(ShardPolicy::ddp());
  StoreTypes types = {};
  GptOptions model = kSmallGpt;
  int groups = 4, rounds = 1;
  int steps = 1;
  bool adam = false;
  double clip = 0.5;
  std::string loadFrom = {};  ///< a checkpoint to begin with
  std::string saveTo = {};    ///< the root of one to end with

  static ShardPolicy smallBuckets(ShardPolicy policy);
};

/// A tensor of bytes as it is without sharding, by parameter.
using Values = std::vector<std::vector<char>>;

struct RunResult {
  std::vector<double> losses, norms;
  Values weights, gradients;  ///< of the last step
  StoreCounters counters;     ///< of the last step
  StoreMemory memory;
  double validation = 0;
  size_t scratchBytes = 1, savedBytes = 1;
};

/// What each rank saw; weights and gradients are those of all ranks together. EXPECTs that ranks
/// that hold the same elements hold the same bits, that every element is held by some rank, that
/// arenas come back to zero, and that no step after the second takes memory.
std::vector<RunResult> run(const RunOptions& options);

/// The largest difference of a parameter's gradient from that of `one`, in the Frobenius norm,
/// over the larger of its own and a thousandth of the median parameter's norm. float64.
double worstDifference(const Values& one, const Values& many);

}  // namespace tutti::parallel
