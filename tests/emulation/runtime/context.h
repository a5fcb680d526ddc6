#pragma once

// The primary context of each device; there are no others. A thread has a stack of contexts, whose
// top is its current one. The runtime makes that of a device current when a thread calls it.

#include <cuda.h>

namespace tutti::emulation {

CUcontext contextOf(int device);
/// -1 where it is no context.
int deviceOf(CUcontext context);

}  // namespace tutti::emulation
