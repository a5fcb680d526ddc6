#pragma once

// Where a call runs: on the host or on the rank's GPU, which the memory of its buffers and its
// stream say together.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

#include <tutti/device.h>

namespace tutti::communicator {

/// A buffer of a call, by its name among the arguments.
struct CallBuffer {
  const char* argument;
  const void* data;
  uint64_t bytes;  ///< that are used; without any it says nothing
};

/// What the buffers of a call say.
struct CallPlacement {
  enum class Side : uint8_t { Any, Host, Gpu } side = Side::Any;
  /// The argument that says so: "all_reduce", "send".
  const char* call = "";
  const char* argument = "";
  std::array<CallBuffer, 2> collective = {};  ///< send and recv of one
};

/// Throws InvalidArgument naming the argument for memory that no executor of a rank on `own` can
/// work on, and for buffers that do not go together. CUDA is not asked where `own` is the host.
CallPlacement placementOf(const char* call, std::span<const CallBuffer> buffers, Device own);

/// Whether the call runs on the GPU. Throws InvalidArgument for a stream that does not go with the
/// buffers, or that is of another device.
bool runsOnGpu(const CallPlacement& placement, Device own, StreamRef stream);

}  // namespace tutti::communicator
