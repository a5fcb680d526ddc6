#pragma once

// Groups of one thread: what it calls between ncclGroupStart() and the outermost ncclGroupEnd().
// Arguments are checked by the call; a call that fails spoils the group.

#include <memory>
#include <optional>
#include <vector>

#include <tutti/communicator.h>

#include "src/nccl/entry.h"
#include "src/nccl/making.h"

namespace tutti::nccl {

class NcclGroup {
 public:
  static NcclGroup& ofThread();

  bool open() const { return depth_ > 0; }
  void start() { ++depth_; }
  /// Makes, at the outermost end, what was collected. ncclInProgress when some of it goes on.
  /// Throws InvalidUsage when none is open, and what its calls throw.
  ncclResult_t end();
  /// Makes nothing; tells the microseconds that the outermost group would take, of an inner one
  /// none. As of end(), a call's result that was refused.
  ncclResult_t simulateEnd(std::optional<double>& microseconds);

  struct Call {
    std::shared_ptr<Comm> comm;
    PreparedCall call;
    StreamRef stream;  ///< the program's, of a call on a GPU
    cudaEvent_t launched = nullptr;
  };
  /// Of a call inside; throws InvalidUsage for a group of both kinds.
  void add(Call call);
  void add(Making making);
  /// A call inside has failed: so does the outermost end.
  void spoil(ncclResult_t result);

 private:
  struct Collected {
    std::vector<Call> calls;
    std::vector<Making> makings;
    ncclResult_t failure = ncclSuccess;
  };
  /// What the outermost end has to make; nothing at an inner one.
  std::optional<Collected> close();
  static ncclResult_t make(std::vector<Call> calls);

  int depth_ = 0;
  Collected collected_;
};

/// Makes it now, or at the end of the group that is open.
ncclResult_t makeOrCollect(Making making);

/// guard() for calls that may be in a group.
template <class Body>
ncclResult_t guardInGroup(const char* function, const Body& body) noexcept {
  const ncclResult_t result = guard(function, body);
  if (result != ncclSuccess && result != ncclInProgress) NcclGroup::ofThread().spoil(result);
  return result;
}

}  // namespace tutti::nccl
