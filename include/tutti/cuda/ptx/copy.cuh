#pragma once

/// \file
/// cp.async (sm_80): asynchronous copies of one thread from global to shared memory, in groups.

#include <tutti/cuda/ptx/instruction.cuh>

namespace tutti::cuda::ptx {

/// Copies 4, 8 or 16 bytes. Both sides are aligned to that size. It reads only `sourceBytes` of the
/// source, and sets the rest of the destination to zero. With 0 it does not touch the source.
template <int kBytes>
TUTTI_DEVICE void cpAsync(uint32_t to, const void* from, uint32_t sourceBytes TUTTI_SITE);

#ifdef __CUDACC__
template <int kBytes>
TUTTI_DEVICE void cpAsync(uint32_t to, const void* from, uint32_t sourceBytes) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(sourceBytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes),
                 "r"(sourceBytes)
                 : "memory");
}
#else
void cpAsyncBytes(uint32_t to, const void* from, uint32_t bytes, uint32_t sourceBytes, Site site);
void cpAsyncWaitAllBut(int groups, Site site);
template <int kBytes>
void cpAsync(uint32_t to, const void* from, uint32_t sourceBytes, Site site) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  cpAsyncBytes(to, from, kBytes, sourceBytes, site);
}
#endif

/// Makes a group of the copies since the last group.
TUTTI_PTX void cpAsyncCommit(TUTTI_ONLY_SITE) TUTTI_ASM("cp.async.commit_group;" ::: "memory");

/// Waits until all but the `kGroups` newest groups are complete. This thread then sees their data;
/// the other threads of the block see it after a barrier.
template <int kGroups>
TUTTI_DEVICE void cpAsyncWait(TUTTI_ONLY_SITE) {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
#else
  cpAsyncWaitAllBut(kGroups, site);
#endif
}

}  // namespace tutti::cuda::ptx
