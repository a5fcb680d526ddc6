#pragma once

// PTX, one function per instruction, in tutti::cuda::ptx: inline assembly under nvcc, and elsewhere
// declarations whose definitions are in tests/emulation/ptx. Names follow the instructions. Shared
// addresses are the 32-bit ones of sharedAddress(); with "cluster" in a name those of mapa().
//
// A function of an instruction that a GPU does not have fails to compile for it, where it is used.

#include <tutti/cuda/ptx/atomic.cuh>
#include <tutti/cuda/ptx/bulk.cuh>
#include <tutti/cuda/ptx/cluster.cuh>
#include <tutti/cuda/ptx/copy.cuh>
#include <tutti/cuda/ptx/fence.cuh>
#include <tutti/cuda/ptx/matrix.cuh>
#include <tutti/cuda/ptx/mbarrier.cuh>
#include <tutti/cuda/ptx/memory.cuh>
#include <tutti/cuda/ptx/multimem.cuh>
#include <tutti/cuda/ptx/numbers.cuh>
#include <tutti/cuda/ptx/tensor.cuh>
#include <tutti/cuda/ptx/warp.cuh>
#include <tutti/cuda/ptx/wgmma.cuh>
