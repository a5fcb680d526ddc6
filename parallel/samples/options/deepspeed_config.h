#pragma once

// A configuration file of DeepSpeed, as far as the sample `zero` can follow it. What would change
// the numbers of a training and is not known here is refused by name; what only changes its speed
// in DeepSpeed, and has no counterpart here, is taken and named in a note.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/optim/loss_scale.h"
#include "parallel/optim/optimizer.h"
#include "parallel/store/shard_policy.h"

namespace tutti::parallel {

struct DeepSpeedConfig {
  // Sequences of a step over all ranks, those of one micro-batch on one rank, and micro-batches of
  // a step on one rank; 0: not given.
  int64_t trainBatch = 0, microBatch = 0, accumulation = 0;
  ShardPolicy policy;
  StoreTypes types;  ///< weights of bfloat16 or float16 where bf16 or fp16 is enabled
  std::optional<LossScaling> lossScaling;  ///< where fp16 is
  double clip = 0;                         ///< 0: no clipping, which is also DeepSpeed's choice
  std::string optimizer = "AdamW";         ///< or "SGD"
  double learningRate = 0.001;
  AdamWOptions adamW = {.beta2 = 0.999, .weightDecay = 0};  // DeepSpeed's choices
  SgdOptions sgd;
  std::vector<std::string> notes;

  std::unique_ptr<Optimizer> makeOptimizer() const;
};

/// Throws InvalidArgument naming the file and the key.
DeepSpeedConfig readDeepSpeedConfig(const std::filesystem::path& path);

struct DeepSpeedBatch {
  int64_t sequences = 0;  ///< of a step, over all ranks
  int microBatches = 0;   ///< over all ranks
};
/// What the three numbers say on so many ranks, where one of the first two is enough: the third is
/// their quotient, or 1. Throws InvalidArgument when they contradict each other, or the batch does
/// not divide.
DeepSpeedBatch batchOn(const DeepSpeedConfig& config, int ranks);

}  // namespace tutti::parallel
