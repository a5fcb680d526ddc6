#pragma once

// The list of algorithms, one file each. An algorithm is three pure functions; the registry admits
// it only after PlanChecker has proved it for small rank counts (tests prove it for the rest).

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/plan/plan.h"

namespace tutti::collectives {

using plan::Algorithm;
using plan::Collective;
using plan::PlanSpec;
using plan::Program;
using plan::Protocol;

/// What an algorithm's header promises, in the units of its comment; the checker measures the same.
struct Cost {
  int steps = 0;          ///< messages on the longest chain of waits
  double blocksSent = 0;  ///< most that one rank moves to or from others, in blocks of `count`
                          ///< elements: it sends messages, and reads and writes mapped buffers
  double linkBlocks = 0;  ///< most that flows from one rank to one other, in blocks
};

struct SpecRequest {
  Collective collective;
  Protocol protocol;
  int ranks;
  int root;
  int channels;
  bool operator==(const SpecRequest&) const = default;
};

struct AlgorithmInfo {
  Algorithm algorithm;
  /// The plan for a request, or nothing where the algorithm does not exist for it.
  std::function<std::optional<PlanSpec>(const SpecRequest&)> spec;
  std::function<Program(const PlanSpec&, int rank)> build;
  std::function<Cost(const PlanSpec&)> cost;
};

class Registry {
 public:
  /// Throws Internal naming rank, lane and step when the checker refuses one of its plans on 1 to 8
  /// ranks.
  void add(AlgorithmInfo info);
  std::span<const AlgorithmInfo> algorithms() const { return algorithms_; }
  const AlgorithmInfo& find(Algorithm algorithm) const;

 private:
  std::vector<AlgorithmInfo> algorithms_;
};

/// All algorithms of this folder. Built and proved once, at the first call.
const Registry& registry();

/// True when algorithm `name` ("ring", ..., "mapped") exists for `collective` on `ranks` ranks.
bool exists(const std::string& name, Collective collective, int ranks);

/// One rank's program of a plan of the registry.
Program build(const PlanSpec& spec, int rank);

}  // namespace tutti::collectives
