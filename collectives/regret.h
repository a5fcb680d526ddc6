#pragma once

// How good choices are, judged by what the algorithms were measured to take; and the constants with
// which they are best.

#include <map>
#include <span>
#include <string>
#include <vector>

#include "src/plan/request.h"
#include "src/topology/topology.h"

namespace tutti::collectives {

/// One call, and what it took by each algorithm that exists for it.
struct MeasuredCall {
  plan::CollectiveRequest request;  ///< without an algorithm
  topology::Topology topology;
  bool windows = true;  ///< all buffers are mapped
  std::map<std::string, double>
      microseconds;               ///< by names that isNamed() knows; "mapped" of windows
  double policyMicroseconds = 0;  ///< what asking for mapped buffers adds where there are none
};

/// Calls that were measured several times, once each, in the order of first appearance. A machine
/// may be several times as fast one day as another, and what counts is the algorithms' ratios: of
/// every algorithm the median of its ratios to the median of all, times the median of those; of
/// logarithms, so that of two times it is their geometric mean. Throws InvalidArgument when one was
/// not measured every time.
std::vector<MeasuredCall> merged(std::span<const MeasuredCall> calls);

/// How many times as long the chosen algorithm took as the best one, with what asking
/// adds in the long run where nothing is mapped (plan::MappedBufferPolicy). Throws InvalidArgument
/// when the chosen one was not measured.
double regret(const MeasuredCall& call, const topology::Tuning& tuning);

/// The mean and the worst regret.
struct Regrets {
  double mean = 1, worst = 1;
};
Regrets regrets(std::span<const MeasuredCall> calls, const topology::Tuning& tuning);

/// Constants found by changing those of `start` for as long as regrets get less: their mean, the
/// root of their mean square, and, where those do not tell, the distance of predictions from what
/// was measured. Where they still choose badly, what is best becomes a preference; those of `start`
/// are forgotten. A pure function; some ten seconds for some hundred calls.
topology::Tuning fit(std::span<const MeasuredCall> calls, const topology::Tuning& start);

}  // namespace tutti::collectives
