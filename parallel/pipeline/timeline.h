#pragma once

// Virtual time: when each computation of a schedule begins and ends, if they cost what is said and
// nothing else takes time. A computation begins when its rank has ended the one before and has what
// it reads; a transfer begins when its sender has made what it sends, and does not keep it from
// going on. Everything is whole numbers, so that what a formula says can be compared exactly.

#include <vector>

#include "parallel/pipeline/costs.h"
#include "parallel/pipeline/schedule.h"

namespace tutti::parallel {

struct Span {
  Action action;
  int64_t begin = 0, end = 0;  ///< in 1/chunks of the unit of costs
  bool operator==(const Span&) const = default;
};

struct Timeline {
  int chunks = 1;
  std::vector<std::vector<Span>> byRank;  ///< computations

  int64_t end() const;           ///< of the step, which begins at 0; in 1/chunks of the unit
  int64_t busy(int rank) const;  ///< what it computes
  Fraction length() const { return {end(), chunks}; }
  /// The share of the step in which ranks idle: all of them, and one.
  Fraction bubble() const;
  Fraction bubble(int rank) const;
  /// What a rank idles between its first and its last computation; the most of all ranks. In the
  /// unit of costs.
  Fraction idleWithin(int rank) const;
  Fraction mostIdleWithin() const;
};

/// Throws InvalidArgument when a computation can never begin.
Timeline timelineOf(const Schedule& schedule, const Costs& costs);

}  // namespace tutti::parallel
