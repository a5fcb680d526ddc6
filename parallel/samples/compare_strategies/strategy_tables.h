#pragma once

// The tables of compare_strategies: what a rank holds under each strategy, and what a step sends
// and takes, beside what the formulas of the books say.

#include <optional>
#include <string>
#include <vector>

#include "parallel/mesh/awaited.h"
#include "parallel/samples/compare_strategies/formulas.h"

namespace tutti::parallel {

/// Of one rank under one strategy, with bytes throughout.
struct StrategyUse {
  struct Measured {
    double seconds = 0;  ///< of a step
    Waited shares;       ///< for whom ranks wait, as shares of the step
    double tokensPerSecond = 0, loss = 0;
  };

  std::string strategy;
  StoreTypes types;
  TrainingMemory memory;
  StateBytes formula;
  double sent = 0;  ///< in a step
  std::optional<double> sentFormula;
  double predictedSeconds = 0;
  std::optional<Measured> measured;  ///< nothing without data

  StateBytes state() const { return stateOf(memory.store, types); }
  /// What forward saves for backward, at most.
  size_t savedActivations() const { return memory.untilBackward.peak + memory.untilWeights.peak; }
  /// All that is neither state nor saved activations.
  double buffers() const {
    return static_cast<double>(memory.total() - savedActivations()) - state().total();
  }
};

/// A row for each strategy, in columns for a terminal, or as a table of Markdown.
std::string memoryTable(const std::vector<StrategyUse>& uses, bool markdown);
/// Without data: what is sent, and the predicted time.
std::string stepTable(const std::vector<StrategyUse>& uses, bool markdown);

}  // namespace tutti::parallel
