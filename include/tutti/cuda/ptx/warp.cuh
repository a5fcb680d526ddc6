#pragma once

// Named barriers of a block, lanes of a warp, clocks, registers of a warpgroup. Shuffles, votes,
// match, redux and __syncwarp() are CUDA C++'s own words; see device_words.cuh for those that the
// emulation has.

#include <tutti/cuda/ptx/instruction.cuh>

namespace tutti::cuda::ptx {

/// Barrier `id` (1 to 15; 0 is __syncthreads) among `threads` of the block, a multiple of 32:
/// arrives and waits. What they wrote before is seen after.
TUTTI_PTX void barSync(uint32_t id, uint32_t threads TUTTI_SITE)
    TUTTI_ASM("bar.sync %0, %1;" ::"r"(id), "r"(threads)
              : "memory");
/// Arrives without waiting.
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

/// Nanoseconds of a clock of the GPU, which all its blocks share.
TUTTI_PTX uint64_t globalTimer(TUTTI_ONLY_SITE) TUTTI_ASM_TO(uint64_t, "mov.u64 %0, %%globaltimer;"
                                                             : "=l"(result));

/// Whether setmaxnreg takes that many registers.
constexpr bool isRegisterCount(int registers) {
  return registers % 8 == 0 && registers >= 24 && registers <= 256;
}

#ifndef __CUDACC__
void increaseRegisters(int registers, Site site);
void decreaseRegisters(int registers, Site site);
#endif

/// Registers of each thread of the warpgroup from here on, more or fewer than before. By all its
/// threads, and again only behind a barrier of them. Up waits until others of the block have given
/// back enough; a kernel begins with what its __launch_bounds__, which it needs, make of all 65536.
/// sm_90a.
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
