#pragma once

/// \file
/// mbarrier: 8 bytes of shared memory, aligned to 8, that count arrivals and bytes. A phase
/// completes when the count of mbarrierInit() has arrived and all expected bytes have landed. Then
/// the next phase begins, with the same count. You wait for the phase of a parity. The first phase
/// has parity 0; on a new barrier parity 1 counts as complete. Arrivals release, waits acquire.

#include <tutti/cuda/ptx/instruction.cuh>

namespace tutti::cuda::ptx {

/// One thread calls it. Then call fenceMbarrierInit() and a barrier of the block or cluster.
TUTTI_PTX void mbarrierInit(uint32_t barrier, uint32_t count TUTTI_SITE)
    TUTTI_ASM("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count)
              : "memory");
/// Ends the barrier. Its 8 bytes may then be used for something else.
TUTTI_PTX void mbarrierInvalidate(uint32_t barrier TUTTI_SITE)
    TUTTI_ASM("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier)
              : "memory");

TUTTI_PTX void mbarrierArrive(uint32_t barrier TUTTI_SITE)
    TUTTI_ASM("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(barrier)
              : "memory");
/// Adds to the bytes that the current phase waits for, without an arrival.
TUTTI_PTX void mbarrierExpectTx(uint32_t barrier, uint32_t bytes TUTTI_SITE)
    TUTTI_ASM("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes)
              : "memory");
TUTTI_PTX void mbarrierArriveExpectTx(uint32_t barrier, uint32_t bytes TUTTI_SITE) TUTTI_ASM(
    "{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n}" ::"r"(
        barrier),
    "r"(bytes)
    : "memory");

/// Arrives at the barrier of another block of the cluster, at an address of mapa(). Threads that
/// wait with "Cluster" then see all earlier writes. For that the arrival waits for every store to
/// any memory, which costs hundreds of cycles. "Relaxed" costs nothing. It is enough to say that
/// data was read.
TUTTI_PTX void mbarrierArriveCluster(uint32_t barrier TUTTI_SITE)
    TUTTI_ASM("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier)
              : "memory");
TUTTI_PTX void mbarrierArriveClusterRelaxed(uint32_t barrier TUTTI_SITE)
    TUTTI_ASM("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier)
              : "memory");
TUTTI_PTX void mbarrierArriveExpectTxCluster(uint32_t barrier, uint32_t bytes TUTTI_SITE) TUTTI_ASM(
    "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(barrier),
    "r"(bytes)
    : "memory");

#ifdef __CUDACC__
#define TUTTI_MBARRIER_TEST(instruction)                                                    \
  {                                                                                         \
    uint32_t completed;                                                                     \
    asm volatile("{\n.reg .pred p;\n" instruction " p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}" \
                 : "=r"(completed)                                                          \
                 : "r"(barrier), "r"(parity)                                                \
                 : "memory");                                                               \
    return completed != 0;                                                                  \
  }
#else
#define TUTTI_MBARRIER_TEST(instruction)
#endif

/// True if the phase of that parity has completed. "Try" may wait for a while first. The forms with
/// "Cluster" also acquire what other blocks of the cluster have released; those with "Relaxed" do
/// not.
TUTTI_PTX bool mbarrierTestWait(uint32_t barrier, uint32_t parity TUTTI_SITE)
    TUTTI_MBARRIER_TEST("mbarrier.test_wait.parity.shared::cta.b64");
TUTTI_PTX bool mbarrierTryWait(uint32_t barrier, uint32_t parity TUTTI_SITE)
    TUTTI_MBARRIER_TEST("mbarrier.try_wait.parity.shared::cta.b64");
TUTTI_PTX bool mbarrierTryWaitCluster(uint32_t barrier, uint32_t parity TUTTI_SITE)
    TUTTI_MBARRIER_TEST("mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64");
TUTTI_PTX bool mbarrierTryWaitClusterRelaxed(uint32_t barrier, uint32_t parity TUTTI_SITE)
    TUTTI_MBARRIER_TEST("mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64");
#undef TUTTI_MBARRIER_TEST

/// Waits until the phase of that parity has completed.
TUTTI_DEVICE void mbarrierWait(uint32_t barrier, uint32_t parity TUTTI_SITE) {
  while (!mbarrierTryWait(barrier, parity TUTTI_HERE)) {
  }
}
TUTTI_DEVICE void mbarrierWaitCluster(uint32_t barrier, uint32_t parity TUTTI_SITE) {
  while (!mbarrierTryWaitCluster(barrier, parity TUTTI_HERE)) {
  }
}
TUTTI_DEVICE void mbarrierWaitClusterRelaxed(uint32_t barrier, uint32_t parity TUTTI_SITE) {
  while (!mbarrierTryWaitClusterRelaxed(barrier, parity TUTTI_HERE)) {
  }
}

}  // namespace tutti::cuda::ptx
