#pragma once

// Calls on GPUs, from the arguments to their launches. A launch returns at once; the kernel runs
// when its stream gets to it. The thread that issues the calls of all these communicators calls
// launch(); GpuBackend and SharedStreams say what protects their state.

#include <memory>
#include <variant>
#include <vector>

#include "src/communicator/gpu/gpu.h"
#include "src/communicator/recorder.h"

namespace tutti::communicator {

class GpuBackend;

/// A call that can be launched.
struct GpuWork {
  std::shared_ptr<GpuBackend> backend;
  std::variant<CallFacts, ExchangeFacts> facts;
  std::variant<GpuCall, executor::Exchange> call;
  StreamRef stream;                    ///< none: whoever launches it waits for it
  std::vector<StreamRef> joined = {};  ///< as GpuLaunch has them

  bool isExchange() const { return std::holds_alternative<executor::Exchange>(call); }
};

/// Launches them: the first of each communicator, then the second of each, and so on, the
/// communicators always in the order in which they come first, so that the calls of one group
/// cannot wait for each other. Ranks of one communicator on one stream, or on one device and no
/// stream, share a launch.
void launch(std::vector<GpuWork> works);

}  // namespace tutti::communicator
