#pragma once

/// \file
/// Named barriers of a block, lanes of a warp, clocks, and registers of a warpgroup. For shuffles,
/// votes, match, redux and __syncwarp() use CUDA C++; device_words.cuh lists those that the
/// emulation has.

#include <tutti/cuda/ptx/instruction.cuh>

namespace tutti::cuda::ptx {

/// Arrives and waits at barrier `id` (1 to 15; 0 is __syncthreads()). `threads` of the block, a
/// multiple of 32, take part. After it they see each other's earlier writes.
TUTTI_PTX void barSync(uint32_t id, uint32_t threads TUTTI_SITE)
    TUTTI_ASM("bar.sync %0, %1;" ::"r"(id), "r"(threads)
              : "memory");
/// Arrives at a barrier and does not wait.
TUTTI_PTX void barArrive(uint32_t id, uint32_t threads TUTTI_SITE)
    TUTTI_ASM("bar.arrive %0, %1;" ::"r"(id), "r"(threads)
              : "memory");

/// True in one lane of a converged warp. sm_90.
TUTTI_PTX bool electOne(TUTTI_ONLY_SITE)
#ifdef __CUDACC__
{
  uint32_t elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(elected));
  return elected != 0;
}
#else
    ;
#endif

/// Nanoseconds, from a clock that all blocks of the GPU share.
TUTTI_PTX uint64_t globalTimer(TUTTI_ONLY_SITE) TUTTI_ASM_TO(uint64_t, "mov.u64 %0, %%globaltimer;"
                                                             : "=l"(result));

/// True if setmaxnreg accepts this number of registers.
constexpr bool isRegisterCount(int registers) {
  return registers % 8 == 0 && registers >= 24 && registers <= 256;
}

#ifndef __CUDACC__
void increaseRegisters(int registers, Site site);
void decreaseRegisters(int registers, Site site);
#endif

/// Sets the number of registers per thread of the warpgroup, upwards or downwards. All threads of
/// the warpgroup call it. A second call needs a barrier of these threads before it. Up waits until
/// other warpgroups of the block have released enough registers. The kernel needs
/// __launch_bounds__; they determine its initial share of the 65536 registers. sm_90a.
template <int kRegisters>
requires(isRegisterCount(kRegisters)) TUTTI_DEVICE void setMaxRegistersUp(TUTTI_ONLY_SITE) {
#ifdef __CUDACC__
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#else
  increaseRegisters(kRegisters, site);
#endif
}
template <int kRegisters>
requires(isRegisterCount(kRegisters)) TUTTI_DEVICE void setMaxRegistersDown(TUTTI_ONLY_SITE) {
#ifdef __CUDACC__
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#else
  decreaseRegisters(kRegisters, site);
#endif
}

}  // namespace tutti::cuda::ptx
