#pragma once

/// \file
/// Fences. TMA, bulk copies and wgmma access shared memory through the asynchronous proxy, which is
/// another path than that of ordinary (generic) loads and stores. Between generic and asynchronous
/// accesses you need fenceProxyAsync*() in addition to the barrier.

#include <tutti/cuda/ptx/instruction.cuh>

namespace tutti::cuda::ptx {

/// A release together with a relaxed store after it; an acquire together with a relaxed load before
/// it.
TUTTI_PTX void fenceAcqRelGpu(TUTTI_ONLY_SITE) TUTTI_ASM("fence.acq_rel.gpu;" ::: "memory");
TUTTI_PTX void fenceAcqRelSys(TUTTI_ONLY_SITE) TUTTI_ASM("fence.acq_rel.sys;" ::: "memory");

/// Makes generic writes visible to asynchronous operations that are issued after it: this thread's
/// writes, and the writes that it has seen. The first is for the block's shared memory, the second
/// for all memory. sm_90.
TUTTI_PTX void fenceProxyAsyncShared(TUTTI_ONLY_SITE) TUTTI_ASM("fence.proxy.async.shared::cta;" ::
                                                                    : "memory");
TUTTI_PTX void fenceProxyAsync(TUTTI_ONLY_SITE) TUTTI_ASM("fence.proxy.async;" ::: "memory");

/// Call it after mbarrierInit(), before other blocks of the cluster or TMA use the barrier. sm_90.
TUTTI_PTX void fenceMbarrierInit(TUTTI_ONLY_SITE)
    TUTTI_ASM("fence.mbarrier_init.release.cluster;" ::
                  : "memory");

/// Fences for a tensor map that is written in global memory, 128 bytes at `map`. A block calls
/// Acquire before it uses the map. The writing thread calls Release after it has written the map
/// and before it signals that. sm_90. The emulation notices a missing fence only if a block has
/// used or acquired the map before the map changed.
TUTTI_PTX void fenceTensorMapAcquire(const CUtensorMap* map TUTTI_SITE)
    TUTTI_ASM("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map)
              : "memory");
TUTTI_PTX void fenceTensorMapRelease(TUTTI_ONLY_SITE)
    TUTTI_ASM("fence.proxy.tensormap::generic.release.gpu;" ::
                  : "memory");

/// Waits until the launches that this one overlaps (LaunchConfig::overlapsPrevious) have ended and
/// their writes are visible. sm_90. In the emulation launches of one stream never overlap. There it
/// does nothing, and a missing wait is not noticed.
TUTTI_PTX void gridDependencyWait(TUTTI_ONLY_SITE) TUTTI_ASM("griddepcontrol.wait;" ::: "memory");
/// Lets the next launch begin. Does nothing in the emulation. sm_90.
TUTTI_PTX void gridLaunchDependents(TUTTI_ONLY_SITE)
    TUTTI_ASM("griddepcontrol.launch_dependents;" ::
                  : "memory");

}  // namespace tutti::cuda::ptx
