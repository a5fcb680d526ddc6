#include "src/communicator/placement.h"

#include "src/base/check.h"
#include "src/device/cuda.h"

namespace tutti::communicator {
namespace {

using device::MemoryPlace;
using Side = CallPlacement::Side;

/// Throws for memory that is nobody's here.
Side sideOf(const char* call, const CallBuffer& buffer, Device own) {
  const MemoryPlace place = device::placeOf(buffer.data);
  switch (place.kind) {
    case MemoryPlace::Kind::Host: return Side::Host;
    case MemoryPlace::Kind::Pinned: return Side::Any;
    case MemoryPlace::Kind::Cuda:
      if (place.device == own.index) return Side::Gpu;
      break;
    case MemoryPlace::Kind::Managed: break;
  }
  base::fail(ErrorCode::InvalidArgument, call, ": ", buffer.argument, " is ",
             device::describe(place), ", and this rank works on memory of ", toString(own),
             " and of the host");
}

const char* nameOf(Side side) {
  return side == Side::Gpu ? "memory of a GPU" : "ordinary memory of the host";
}

}  // namespace

CallPlacement placementOf(const char* call, std::span<const CallBuffer> buffers, Device own) {
  CallPlacement placement{.call = call};
  if (own.kind == DeviceKind::Host) return {Side::Host, call};
  for (const CallBuffer& buffer : buffers) {
    if (buffer.bytes == 0) continue;
    const Side side = sideOf(call, buffer, own);
    if (side == Side::Any || side == placement.side) continue;
    TUTTI_REQUIRE(placement.side == Side::Any, call, ": ", placement.argument, " is ",
                  nameOf(placement.side), ", and ", buffer.argument, " is ", nameOf(side),
                  ": a call runs where all of its buffers are");
    placement.side = side;
    placement.argument = buffer.argument;
  }
  return placement;
}

bool runsOnGpu(const CallPlacement& placement, Device own, StreamRef stream) {
  const char* const call = placement.call;
  if (!stream) return placement.side == Side::Gpu;
  if (!stream.isCuda()) {
    TUTTI_REQUIRE(placement.side != Side::Gpu, call, ": stream is the host's, and ",
                  placement.argument, " is ", nameOf(placement.side));
    return false;
  }
  TUTTI_REQUIRE(stream.device() == own, call, ": stream is of ", toString(stream.device()),
                ", and this rank's device is ", toString(own));
  TUTTI_REQUIRE(placement.side != Side::Host, call, ": stream is of ", toString(own), ", and ",
                placement.argument, " is ", nameOf(placement.side),
                ", which a GPU's stream does not work on");
  return true;
}

}  // namespace tutti::communicator
