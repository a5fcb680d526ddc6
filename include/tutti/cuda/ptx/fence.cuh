#pragma once

// Fences. Between generic accesses (ordinary loads and stores) and the asynchronous proxy (TMA,
// bulk copies and wgmma, which read and write shared memory by another path) one is needed in
// addition to the barrier: fenceProxyAsync*().

#include <tutti/cuda/ptx/instruction.cuh>

namespace tutti::cuda::ptx {

/// With a relaxed store after it a release, with a relaxed load before it an acquire.
TUTTI_PTX void fenceAcqRelGpu(TUTTI_ONLY_SITE) TUTTI_ASM("fence.acq_rel.gpu;" ::: "memory");
TUTTI_PTX void fenceAcqRelSys(TUTTI_ONLY_SITE) TUTTI_ASM("fence.acq_rel.sys;" ::: "memory");

/// This thread's generic writes, and those that it has seen, are seen by asynchronous operations
/// that are issued after it. sm_90. Of the block's shared memory, or of all memory.
TUTTI_PTX void fenceProxyAsyncShared(TUTTI_ONLY_SITE) TUTTI_ASM("fence.proxy.async.shared::cta;" ::
                                                                    : "memory");
TUTTI_PTX void fenceProxyAsync(TUTTI_ONLY_SITE) TUTTI_ASM("fence.proxy.async;" ::: "memory");

/// After mbarrierInit(), before other blocks of the cluster or TMA may use the barrier. sm_90.
TUTTI_PTX void fenceMbarrierInit(TUTTI_ONLY_SITE)
    TUTTI_ASM("fence.mbarrier_init.release.cluster;" ::
                  : "memory");

/// Before a block uses a tensor map that was written in global memory, 128 bytes at `map`; and
/// after a thread has written it, before it says so. sm_90. The emulation sees that they are
/// missing where a block has used the map, or acquired it, before it changed.
TUTTI_PTX void fenceTensorMapAcquire(const CUtensorMap* map TUTTI_SITE)
    TUTTI_ASM("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map)
              : "memory");
TUTTI_PTX void fenceTensorMapRelease(TUTTI_ONLY_SITE)
    TUTTI_ASM("fence.proxy.tensormap::generic.release.gpu;" ::
                  : "memory");

/// Waits until launches before this one, which it overlaps by LaunchConfig::overlapsPrevious, have
/// ended and their writes are seen. The emulation never overlaps launches of one stream, so that
/// there it does nothing: a missing wait is not seen. sm_90.
TUTTI_PTX void gridDependencyWait(TUTTI_ONLY_SITE) TUTTI_ASM("griddepcontrol.wait;" ::: "memory");
/// Lets the launch after this one begin; nothing in the emulation. sm_90.
TUTTI_PTX void gridLaunchDependents(TUTTI_ONLY_SITE)
    TUTTI_ASM("griddepcontrol.launch_dependents;" ::
                  : "memory");

}  // namespace tutti::cuda::ptx
