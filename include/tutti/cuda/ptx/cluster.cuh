#pragma once

/// \file
/// Clusters of blocks (sm_90): ranks, the barrier, and access to each other's shared memory. A
/// block must not exit while another block may still use its shared memory.

#include <tutti/cuda/ptx/instruction.cuh>

namespace tutti::cuda::ptx {

/// This block's rank in its cluster, and the number of blocks of the cluster.
TUTTI_PTX uint32_t clusterRank(TUTTI_ONLY_SITE)
    TUTTI_ASM_TO(uint32_t, "mov.u32 %0, %%cluster_ctarank;"
                 : "=r"(result));
TUTTI_PTX uint32_t clusterSize(TUTTI_ONLY_SITE)
    TUTTI_ASM_TO(uint32_t, "mov.u32 %0, %%cluster_nctarank;"
                 : "=r"(result));

/// The barrier of all threads of the cluster, in two halves. Writes before the arrival are visible
/// after the wait. With the relaxed arrival they are not.
TUTTI_PTX void clusterArrive(TUTTI_ONLY_SITE) TUTTI_ASM("barrier.cluster.arrive.release.aligned;" ::
                                                            : "memory");
TUTTI_PTX void clusterArriveRelaxed(TUTTI_ONLY_SITE)
    TUTTI_ASM("barrier.cluster.arrive.relaxed.aligned;" ::
                  : "memory");
TUTTI_PTX void clusterWait(TUTTI_ONLY_SITE) TUTTI_ASM("barrier.cluster.wait.acquire.aligned;" ::
                                                          : "memory");

TUTTI_DEVICE void clusterSync(TUTTI_ONLY_SITE) {
  clusterArrive(TUTTI_ONLY_HERE);
  clusterWait(TUTTI_ONLY_HERE);
}

/// The shared::cluster address of `address` in the block with that rank.
TUTTI_PTX uint32_t mapa(uint32_t address, uint32_t rank TUTTI_SITE)
    TUTTI_ASM_TO(uint32_t, "mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(result)
                 : "r"(address), "r"(rank));

/// Loads and stores of 4, 8 and 16 bytes at an address of mapa().
TUTTI_PTX uint32_t ldCluster32(uint32_t address TUTTI_SITE)
    TUTTI_ASM_TO(uint32_t, "ld.shared::cluster.u32 %0, [%1];"
                 : "=r"(result)
                 : "r"(address)
                 : "memory");
TUTTI_PTX uint64_t ldCluster64(uint32_t address TUTTI_SITE)
    TUTTI_ASM_TO(uint64_t, "ld.shared::cluster.u64 %0, [%1];"
                 : "=l"(result)
                 : "r"(address)
                 : "memory");
TUTTI_PTX uint4 ldCluster128(uint32_t address TUTTI_SITE)
    TUTTI_ASM_TO(uint4, "ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(result.x), "=r"(result.y), "=r"(result.z), "=r"(result.w)
                 : "r"(address)
                 : "memory");
TUTTI_PTX void stCluster32(uint32_t address, uint32_t value TUTTI_SITE)
    TUTTI_ASM("st.shared::cluster.u32 [%0], %1;" ::"r"(address), "r"(value)
              : "memory");
TUTTI_PTX void stCluster64(uint32_t address, uint64_t value TUTTI_SITE)
    TUTTI_ASM("st.shared::cluster.u64 [%0], %1;" ::"r"(address), "l"(value)
              : "memory");
TUTTI_PTX void stCluster128(uint32_t address, uint4 value TUTTI_SITE)
    TUTTI_ASM("st.shared::cluster.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(value.x),
              "r"(value.y), "r"(value.z), "r"(value.w)
              : "memory");

}  // namespace tutti::cuda::ptx
