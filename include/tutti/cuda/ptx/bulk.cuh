#pragma once

/// \file
/// Bulk copies (sm_90). The copy engine of the multiprocessor copies contiguous bytes between
/// global and shared memory. Addresses and sizes are multiples of 16 bytes. Loads count their bytes
/// at an mbarrier. Stores join the thread's bulk group; the thread must wait for the group before
/// it exits.

#include <tutti/cuda/ptx/instruction.cuh>

namespace tutti::cuda::ptx {

/// Copies global to shared memory.
TUTTI_PTX void bulkLoad(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier TUTTI_SITE)
    TUTTI_ASM(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
        "[%3];" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier)
        : "memory");
/// Copies to every block of the cluster whose bit is set, like tensorLoadMulticast().
TUTTI_PTX void bulkLoadMulticast(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier,
                                 uint16_t blocks TUTTI_SITE)
    TUTTI_ASM(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1], %2, [%3], %4;" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier), "h"(blocks)
        : "memory");
/// Copies shared memory to another block's shared memory. `to` and `barrier` are addresses of
/// mapa().
TUTTI_PTX void bulkCopyCluster(uint32_t to, uint32_t from, uint32_t bytes,
                               uint32_t barrier TUTTI_SITE)
    TUTTI_ASM(
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
        "[%3];" ::"r"(to),
        "r"(from), "r"(bytes), "r"(barrier)
        : "memory");
/// Copies shared to global memory.
TUTTI_PTX void bulkStore(void* to, uint32_t from, uint32_t bytes TUTTI_SITE)
    TUTTI_ASM("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from),
              "r"(bytes)
              : "memory");

// These add shared memory to global memory, element by element.
TUTTI_PTX void bulkReduceAddF32(void* to, uint32_t from, uint32_t bytes TUTTI_SITE) TUTTI_ASM(
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
    "r"(from), "r"(bytes)
    : "memory");
TUTTI_PTX void bulkReduceAddF16(void* to, uint32_t from, uint32_t bytes TUTTI_SITE) TUTTI_ASM(
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%0], [%1], %2;" ::"l"(to),
    "r"(from), "r"(bytes)
    : "memory");
TUTTI_PTX void bulkReduceAddBf16(void* to, uint32_t from, uint32_t bytes TUTTI_SITE) TUTTI_ASM(
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%0], [%1], %2;" ::"l"(to),
    "r"(from), "r"(bytes)
    : "memory");
TUTTI_PTX void bulkReduceAddS32(void* to, uint32_t from, uint32_t bytes TUTTI_SITE) TUTTI_ASM(
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%0], [%1], %2;" ::"l"(to),
    "r"(from), "r"(bytes)
    : "memory");
TUTTI_PTX void bulkReduceAddU64(void* to, uint32_t from, uint32_t bytes TUTTI_SITE) TUTTI_ASM(
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u64 [%0], [%1], %2;" ::"l"(to),
    "r"(from), "r"(bytes)
    : "memory");

/// Makes a group of the thread's stores since its last group.
TUTTI_PTX void bulkCommit(TUTTI_ONLY_SITE) TUTTI_ASM("cp.async.bulk.commit_group;" ::: "memory");

#ifndef __CUDACC__
void bulkWaitAllBut(int groups, bool onlyRead, Site site);
#endif

/// Waits until all but the `kGroups` newest groups have written their data.
template <int kGroups>
TUTTI_DEVICE void bulkWait(TUTTI_ONLY_SITE) {
#ifdef __CUDACC__
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kGroups) : "memory");
#else
  bulkWaitAllBut(kGroups, false, site);
#endif
}
/// Waits until all but the `kGroups` newest groups have read their shared memory. You may then
/// write to it again.
template <int kGroups>
TUTTI_DEVICE void bulkWaitRead(TUTTI_ONLY_SITE) {
#ifdef __CUDACC__
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kGroups) : "memory");
#else
  bulkWaitAllBut(kGroups, true, site);
#endif
}

}  // namespace tutti::cuda::ptx
