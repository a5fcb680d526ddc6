#pragma once

// What the algorithms take for the same call, measured side by side: their turns are interleaved,
// so that whatever else the machine does meets all of them.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <tutti/communicator.h>

#include "src/tools/perf/perf_options.h"

namespace tutti::tools {

/// Of what is chosen where nothing is forced.
inline constexpr const char* kChosen = "chosen";

/// Microseconds of a call, one median for each turn: from the first rank's begin to the last one's
/// end. Before it, each rank uses its buffers (PerfCall::use()).
struct AlgorithmTime {
  std::vector<double> turns;
  double median() const;
};

class AlgorithmTimes {
 public:
  /// Collective: makes communicators of the same ranks, one for each algorithm, and one by which
  /// ranks meet between calls.
  explicit AlgorithmTimes(Communicator& c);
  ~AlgorithmTimes();

  /// Collective: the times of calls of blocks of `blockBytes`, by algorithm, of those that exist
  /// for it, and under kChosen; the same on all ranks. Takes `options`' collective, type,
  /// reduction, root, memory and iterations. Throws OutOfMemory, on all ranks, where there is none
  /// for the buffers: in windows each algorithm has its own.
  std::map<std::string, AlgorithmTime> measure(const PerfOptions& options, uint64_t blockBytes,
                                               int turns);

  /// Collective: what asking for mapped buffers adds to a call of `options`'
  /// collective on ordinary memory, whatever its size; no turns where there is nothing to ask for.
  /// The same on all ranks.
  AlgorithmTime asking(const PerfOptions& options, int turns);

 private:
  Communicator sameRanks(const std::string& algorithm);

  Communicator& c_;
  Communicator sameRanks_;
  const double clockAhead_;                     // of rank 0's, in microseconds
  const int place_;                             // among the ranks of this machine
  std::map<std::string, Communicator> forced_;  // by algorithm
};

/// Throws InvalidArgument where TUTTI_ALGORITHM would force what is to be chosen.
void requireNothingForced();

/// Bytes of the larger buffer of a collective with such blocks.
uint64_t bufferBytes(plan::Collective collective, int ranks, uint64_t blockBytes);

}  // namespace tutti::tools
