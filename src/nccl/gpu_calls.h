#pragma once

// Where the calls of a program run: on the GPU that was current when its communicator was made, or,
// where there is none, on the host.

#include <initializer_list>

#include <tutti-nccl/nccl.h>

#include <tutti/device.h>

namespace tutti::nccl {

/// The calling thread's GPU; the host where there is no GPU.
Device deviceOfThread();
/// The GPU of that number; the host where there is no GPU. Throws InvalidArgument for one too many.
Device deviceNumbered(int index);

/// The stream on which a call with these buffers runs: the program's, or none for memory of the
/// host, which needs the null stream. Throws InvalidArgument for what does not go together.
StreamRef streamFor(Device device, cudaStream_t stream, std::initializer_list<const void*> buffers);

}  // namespace tutti::nccl
