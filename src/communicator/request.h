#pragma once

// A call as the chooser sees it, on the host and on GPUs: its blocks' size rounded up to a power of
// two, so that few choices are kept.

#include <string>
#include <vector>

#include <tutti/communicator.h>

#include "src/communicator/settings.h"
#include "src/executor/call.h"
#include "src/plan/request.h"
#include "src/topology/topology.h"

namespace tutti::communicator {

using executor::CallFacts;
using executor::CallWishes;

/// Throws InvalidArgument for numbers that cannot be.
CallWishes wishesOf(const CallOptions& options);

/// Numbers for wishes, so that choices are kept by them: 0 where there are none.
class WishNumbers {
 public:
  /// Throws InvalidArgument where there would be too many.
  uint64_t numberOf(const CallWishes& wishes);

 private:
  std::vector<CallWishes> known_;
};

/// The same for calls that have the same choice; `wishes` is their number.
uint64_t choiceKey(const CallFacts& facts, int ranks, uint64_t wishes);

/// Which calls may have plans that address the peers' buffers.
struct MappableCalls {
  uint64_t leastBlockBytes = 0;
  bool mayBeInPlace = false;  ///< as in plan::CollectiveRequest
};

/// What to choose for. Where the communicator's forced algorithm does not exist for the call, the
/// choice is free; but not for a barrier, by which unknown names are refused. Throws
/// InvalidArgument where that of the call itself does not, and says why.
plan::CollectiveRequest requestOf(const CallFacts& facts, const Settings& settings,
                                  const CallWishes& wishes, const topology::Topology& topology,
                                  const MappableCalls& mappable);

}  // namespace tutti::communicator
