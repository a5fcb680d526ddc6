#pragma once

/// \file
/// PTX instructions as functions of namespace tutti::cuda::ptx, one function per instruction. Names
/// follow the instructions. Under nvcc they are inline assembly. Otherwise they are declarations,
/// and tests/emulation/ptx defines them.
///
/// Shared addresses are the 32-bit addresses of sharedAddress(). Functions with "cluster" in their
/// name take addresses of mapa(). If a GPU lacks an instruction, code for it that uses the function
/// does not compile.

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
