#pragma once

// The list of algorithms, one file each. An algorithm is four pure functions; the registry admits
// it only after PlanChecker has proved its plans for small rank counts. Tests prove the plans of
// all rank counts that the table below names, and the library proves what it is about to run for
// the counts beyond:
//
//   ranks         every plan is proved
//   1 to 8        when the library starts, and by tests
//   9 to 128      by tests; from 17 on those with a root, which are too many, when first built
//   129 to 256    when it is first built in a process (up to a quarter of a second: the time grows
//                 with the cube of the ranks); 256 also by tests
//   more          not; a thousand ranks take the checker ten seconds
//
// That is about plans of one requested channel; others are proved when they are first built, for up
// to 256 ranks.
//
// Plans that depend on the hosts of the ranks are more than tests can list: each of up to 128 ranks
// is proved when it is first built (in as long), and tests prove those of many placements of up to
// 64 ranks and of a few of up to 256.

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "src/plan/plan.h"
#include "src/plan/symmetry.h"

namespace tutti::collectives {

using plan::Algorithm;
using plan::Collective;
using plan::PlanSpec;
using plan::Program;
using plan::Protocol;

inline constexpr int kRanksProvedAtStart = 8;
inline constexpr int kRanksProvedByTests = 128;
inline constexpr int kRanksWithRootProvedByTests = 16;
inline constexpr int kRanksProvedInUse = 256;
inline constexpr int kRanksOnHostsProvedInUse = 128;

/// What an algorithm's header promises, in the units of its comment; the checker measures the same.
struct Cost {
  int steps = 0;          ///< messages on the longest chain of waits
  double blocksSent = 0;  ///< most that one rank moves to or from others, in blocks of `count`
                          ///< elements: it sends messages, and reads and writes mapped buffers
  double linkBlocks = 0;  ///< most that flows from one rank to one other, in blocks
  // Of plans that depend on the hosts of the ranks; otherwise 0.
  double hostBlocks = 0;  ///< most that leaves a host or comes to it, in blocks
  int hostSteps = 0;      ///< of `steps`, messages between hosts
};

struct SpecRequest {
  Collective collective;
  Protocol protocol;
  int ranks;
  int root;
  int channels;
  std::vector<int> hosts = {};  ///< of each rank, in a plan's form (src/plan/hosts.h)
  bool operator==(const SpecRequest&) const = default;
};

struct AlgorithmInfo {
  Algorithm algorithm;
  /// The plan for a request, or nothing where the algorithm does not exist for it.
  std::function<std::optional<PlanSpec>(const SpecRequest&)> spec;
  std::function<Program(const PlanSpec&, int rank)> build;
  std::function<Cost(const PlanSpec&)> cost;
  /// Which of its ranks are alike. None is always true; plans whose ranks have many steps each have
  /// more to say, and can be simulated on more ranks (simulate.h).
  std::function<plan::Symmetry(const PlanSpec&)> symmetry;
};

class Registry {
 public:
  /// Throws Internal naming rank, lane and step when the checker refuses one of its plans on 1 to 8
  /// ranks.
  void add(AlgorithmInfo info);
  std::span<const AlgorithmInfo> algorithms() const { return algorithms_; }
  const AlgorithmInfo& find(Algorithm algorithm) const;
  /// One rank's program. Throws Internal, as add() does, when the plan is proved only now and the
  /// checker refuses it. From any thread.
  Program build(const PlanSpec& spec, int rank) const;

 private:
  struct Proved {
    std::mutex mutex;
    std::unordered_set<uint64_t> specs;  // their hashes
  };
  void proveOnce(const AlgorithmInfo& info, const PlanSpec& spec) const;

  std::unique_ptr<Proved> proved_ = std::make_unique<Proved>();
  std::vector<AlgorithmInfo> algorithms_;
};

/// All algorithms of this folder. Built and proved once, at the first call.
const Registry& registry();

/// What people call a plan: "ring", or, with so many channels, "ring/2".
struct AlgorithmName {
  explicit AlgorithmName(const std::string& text);
  std::string algorithm;
  int channels = 0;        ///< 0: any number
  bool wellFormed = true;  ///< there is no slash, or a number from 1 on behind it
};

/// True when algorithm `name` ("ring", "ring/2", ..., "mapped") exists for `collective` on `ranks`
/// ranks of these hosts (src/plan/hosts.h), and for blocks that differ in size if asked.
bool exists(const std::string& name, Collective collective, int ranks,
            const std::vector<int>& hosts = {}, bool uneven = false);

/// One rank's program of a plan of the registry.
Program build(const PlanSpec& spec, int rank);

}  // namespace tutti::collectives
