#pragma once

// Prediction: what a layout would take, by its parts, so that one can say what bounds it and what
// another one is slower by.

#include <string>
#include <utility>
#include <vector>

#include "parallel/planner/training_layout.h"

namespace tutti::parallel {

/// Of a step, in seconds, on the rank that computes longest. They add up to the step.
struct StepSeconds {
  double compute = 0;  ///< forward and backward, by kernels
  double layers = 0;   ///< collectives inside layers: of tensor parallelism, and along cp and ep
  double wait = 0;     ///< for other stages of the pipeline, or for a core
  double gather = 0;   ///< of weights, as far as nothing is computed meanwhile
  double reduce = 0;   ///< of gradients, likewise
  double update = 0;   ///< the optimizer, and the gradient's norm
  double other = 0;    ///< sums of a few numbers over all ranks

  double total() const { return compute + layers + wait + gather + reduce + update + other; }
  bool operator==(const StepSeconds&) const = default;
};
/// Each with its words: "computes", "exchanges inside layers", ...
std::vector<std::pair<const char*, double>> termsOf(const StepSeconds& seconds);

struct Prediction {
  TrainingLayout layout;
  TrainingMemory memory;    ///< of the rank that holds most
  int memoryRank = 0;       ///< which that is
  Collectives collectives;  ///< of a step, of the rank that computes longest
  StepSeconds seconds;
  double tokensPerSecond = 0;

  /// Memory by kind, what is sent, and the terms of the step, in lines.
  std::string describe() const;
};

/// "1.25 s", "310 ms": three digits.
std::string secondsText(double seconds);
/// Bytes that a rank passes to collectives and messages, by their larger side.
size_t bytesOf(const Collectives& collectives);
/// What most of its step is, and what most of the rest.
std::string boundOf(const Prediction& prediction);
/// By how much and in which term it is slower than `best`.
std::string slowerThan(const Prediction& prediction, const Prediction& best);
/// How much more than `limit` it holds, and the largest kind.
std::string tooLarge(const TrainingMemory& memory, size_t limit);

}  // namespace tutti::parallel
