#pragma once

// The command line of train_gpt.

#include <cstdint>
#include <optional>
#include <string>

#include "parallel/nn/gpt.h"

namespace tutti::parallel {

struct TrainOptions {
  std::string text;
  int ranks = 0;  ///< 0: not given
  GptOptions model;
  int64_t steps = 586;  ///< 1.2 million tokens of the default batch
  int64_t batch = 16;   ///< sequences of one step, over all ranks
  int microBatches = 0;
  std::string optimizer = "adamw";
  double learningRate = 0;  ///< 0: by optimizer
  int64_t warmup = -1;      ///< negative: a twentieth of the steps
  double weightDecay = -1;  ///< negative: by optimizer
  double clip = 1;
  uint64_t seed = 1;
  bool deterministic = false;
  bool checkReplicas = false;
  std::string json;
  int64_t generate = 400;
  std::string prompt;
};

/// Fills `options`. Returns an exit code when there is nothing more to do: 0 after --help, 2 after
/// an error that has been printed and that names the flag.
std::optional<int> parse(int argc, char** argv, TrainOptions& options);

/// Throws InvalidArgument when the batch cannot be split over `ranks`.
void checkSplit(const TrainOptions& options, int ranks);
/// Throws InvalidArgument when `--json` would be written over the text, under whatever name.
void checkNotTheText(const TrainOptions& options);
/// Throws InvalidArgument naming the file when the text cannot be used or `--json` not be written.
void checkFiles(const TrainOptions& options);

}  // namespace tutti::parallel
