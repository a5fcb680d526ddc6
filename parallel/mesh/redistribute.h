#pragma once

// Redistribution of real tensors: the steps of parallel/sharding/redistribution.h, performed by the
// mesh's communicators. Collective over the ranks along the axes that the steps name.
//
// Blocks that are not contiguous in memory, because the dimension that is cut or put together has
// others outside it, are packed before a collective and unpacked behind it, row by row.

#include "parallel/mesh/device_mesh.h"
#include "parallel/sharding/redistribution.h"
#include "parallel/tensor/arena.h"

namespace tutti::parallel {

/// `x`, which is this rank's part by x.layout of a tensor of shape `global`, as this rank's part by
/// `to`, in `memory`; x itself where it lies so already, or where only axes of one rank lie
/// otherwise. Summands are added as the communicator's AllReduce and ReduceScatter add. Throws
/// InvalidArgument when x is not contiguous or has another shape than its part, and as
/// redistribution() does; and what the communicator throws. `purpose` says what it is for.
Tensor redistribute(Purpose purpose, DeviceMesh& mesh, const Tensor& x, const Shape& global,
                    const Layout& to, Arena& memory);

}  // namespace tutti::parallel
