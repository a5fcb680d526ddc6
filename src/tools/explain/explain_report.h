#pragma once

// What `tutti explain` says, as values, as text and as JSON.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collectives/chooser.h"
#include "src/tools/common/algorithm_times.h"

namespace tutti::tools {

/// An algorithm that there is for the call.
struct ExplainedAlgorithm {
  std::string algorithm, protocol;
  int channels = 1;
  bool chosen = false;  ///< or taken where all buffers are mapped, or can be read
  double predictedUs = 0, oneByteUs = 0;
  std::optional<double> measuredUs;
  int messages = 0;  ///< one after another
  uint64_t sentBytes = 0;
};

/// What is chosen for blocks of a range of sizes.
struct ExplainedRange {
  std::optional<uint64_t> mostBytes;  ///< none: beyond all
  std::string algorithm;
  int channels = 1;
  std::string mapped;    ///< the algorithm where all buffers are mapped; or empty
  std::string attached;  ///< the algorithm where they are not, but can be read; or empty
};

struct Explanation {
  plan::CollectiveRequest request;
  topology::Topology topology;
  std::string reason;
  std::vector<ExplainedAlgorithm> algorithms;
  bool measured = false;
  std::optional<double> calledUs;  ///< without forcing anything; of what was measured
  std::vector<ExplainedRange> ranges;
};

/// What the chooser knows.
struct Situation {
  plan::CollectiveRequest request;
  topology::Topology topology;
  topology::Tuning tuning;
  const collectives::AlgorithmFile* file = nullptr;  ///< or null
  /// By the algorithm's name; null where nothing was measured.
  const std::map<std::string, AlgorithmTime>* times = nullptr;
};

Explanation explain(const Situation& situation);

std::string explanationText(const Explanation& explanation);
/// In one line; docs/reference/commands.md lists the fields.
std::string explanationJson(const Explanation& explanation);

}  // namespace tutti::tools
