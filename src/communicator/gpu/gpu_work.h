#pragma once

// Calls on GPUs, from the arguments to their launches. A launch returns at once; the kernel runs
// when its stream gets to it. The thread that issues the calls of all these communicators calls
// launch(); GpuBackend and SharedStreams say what protects their state.

#include <memory>
#include <variant>
#include <vector>

#include "src/communicator/gpu/gpu_rank.h"
#include "src/communicator/recorder.h"

namespace tutti::communicator {

class GpuBackend;

/// A call that can be launched.
struct GpuWork {
  std::shared_ptr<GpuBackend> backend;
  std::variant<executor::CollectiveCall, executor::Exchange> operation;
  const executor::PreparedPlan* plan = nullptr;  ///< of a collective
  uint32_t slices = 1;
  StreamRef stream = {};               ///< none: whoever launches it waits for it
  std::vector<StreamRef> joined = {};  ///< as RankLaunch has them

  /// Null where it is the other.
  const executor::CollectiveCall* call() const {
    return std::get_if<executor::CollectiveCall>(&operation);
  }
  const executor::Exchange* exchange() const { return std::get_if<executor::Exchange>(&operation); }
  /// For the recorder.
  std::variant<CallFacts, ExchangeFacts> facts() const {
    if (exchange()) return exchange()->facts();
    return call()->facts;
  }
};

/// Launches them: the first of each communicator, then the second of each, and so on, the
/// communicators always in the order in which they come first, so that the calls of one group
/// cannot wait for each other. Ranks of one communicator on one stream, or on one device and no
/// stream, share a launch.
void launch(std::vector<GpuWork> works);

}  // namespace tutti::communicator
