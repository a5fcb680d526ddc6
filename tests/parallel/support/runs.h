#pragma once

// Whole trainings of a small model over ranks that are threads of this process, and what is left of
// them: losses, norms, and weights and gradients put together from all ranks' parts.

#include <functional>
#include <string>
#include <vector>

#include "parallel/engine/engine.h"
#include "parallel/nn/model_options.h"
#include "tests/parallel/support/on_ranks.h"

namespace tutti::parallel {

inline constexpr GptOptions kSmallGpt{.context = 24, .layers = 2, .width = 32, .heads = 2};
/// With heads for four ranks of tensor parallelism.
inline constexpr GptOptions kRunGpt{.context = 23, .layers = 2, .width = 32, .heads = 4};
inline constexpr LlamaOptions kRunLlama{.context = 23,
                                        .layers = 2,
                                        .width = 32,
                                        .heads = 4,
                                        .kvHeads = 2,
                                        .inner = 45,
                                        .ropeBase = 100};
inline constexpr int64_t kSmallBatch = 8;
inline constexpr uint64_t kRunSeed = 9;
inline constexpr double kSgdRate = 0.5;

std::vector<uint8_t> makeText();
/// It as documents of 1 to 61 tokens, of which some have a prompt, that may be most of it.
std::vector<Document> makeDocuments();

struct RunOptions {
  MeshShape mesh = {};  ///< of one rank: without a communicator
  ShardPolicy policy = smallBuckets(ShardPolicy::ddp());
  StoreTypes types = {};
  ModelOptions model = kSmallGpt;
  int64_t batch = kSmallBatch;  ///< sequences of a step
  bool documents = false;       ///< samples are those of makeDocuments(): not all labels count
  size_t validationBytes = 0;   ///< of the text, for validation; 0: all
  int groups = 4, rounds = 1;
  PipelineOptions pipeline = {};
  int steps = 1;
  bool adam = false;
  double clip = 0.5;
  std::optional<LossScaling> lossScaling = {};
  uint64_t seed = kRunSeed;   ///< of the first weights and of the samples
  std::string loadFrom = {};  ///< a checkpoint to begin with
  /// What is then done to it.
  std::function<void(ParameterStore&, const Optimizer&)> afterLoad = {};
  std::string saveTo = {};  ///< the root of one to end with
  /// Of ranks on GPUs, which they take in turn. None: they are on the host.
  std::function<std::unique_ptr<Kernels>(const DeviceMesh&)> gpuKernels = {};

  static ShardPolicy smallBuckets(ShardPolicy policy);
};

/// The samples of a run; `text` must outlive it.
Loader makeLoader(const std::vector<uint8_t>& text, const RunOptions& options);

/// A tensor of bytes as it is without sharding, by parameter.
using Values = std::vector<std::vector<char>>;

/// What one rank holds of one parameter.
struct StoredPart {
  std::string name;
  size_t order = 0;  ///< of the parameter in the model; of a copy, that of what it is tied to
  Shape global;
  Box box;
  std::vector<char> weight, gradient;
};
/// Of all parameters that the rank has; with `gradients`, those of the last step.
std::vector<StoredPart> storedParts(ParameterStore& store, bool gradients,
                                    const DeviceMesh& mesh = DeviceMesh());
/// Put together from all ranks' parts. Throws Internal where ranks that hold the same elements hold
/// other bits, and where an element is held by no rank.
Values wholeValues(const std::vector<std::vector<StoredPart>>& ranks,
                   std::vector<char> StoredPart::*what);

struct RunResult {
  std::vector<double> losses, norms;
  Values weights, gradients;       ///< of the last step
  std::vector<std::string> names;  ///< of the parameters, of the whole model
  StoreCounters counters;          ///< of the last step
  CollectiveCounters tensor;       ///< of the last step
  CollectiveCounters experts;      ///< of the last step
  RouterReport router;             ///< of the last step
  StoreMemory memory;
  double validation = 0;
  size_t scratchBytes = 1, savedBytes = 1;
};

/// What each rank saw; weights and gradients are those of all ranks together. Throws what a rank
/// throws, and Internal where something holds that never should: ranks report other losses, or hold
/// other bits of the same elements, replicas differ after a step, arenas do not come back to zero,
/// or a step after the second takes memory.
std::vector<RunResult> run(const RunOptions& options);

/// The largest difference of a parameter's gradient from that of `one`, in the Frobenius norm,
/// over the larger of its own and a thousandth of the median parameter's norm. float64. `where` is
/// set to that parameter's number.
double worstDifference(const Values& one, const Values& many, size_t* where = nullptr);

}  // namespace tutti::parallel
