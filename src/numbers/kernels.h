#pragma once

// The table of vector kernels. One source, kernels.inl, is compiled once per instruction set
// (kernels_baseline.cc, kernels_avx2.cc, kernels_avx512.cc), each into a namespace of its own, and
// the best table that this CPU runs is chosen at run time. Those files include nothing that defines
// inline functions with external linkage: the linker could otherwise keep a copy with AVX code in
// it for callers on other CPUs. So this header has plain types only.

#include <cstddef>
#include <cstdint>

namespace tutti::numbers {

/// Alignment and size, in bytes, of the units in which streaming stores leave the CPU.
inline constexpr size_t kLineBytes = 64;
/// Sources of one fold at most; it bounds the depth of the canonical tree's stack.
inline constexpr size_t kMaxSources = size_t{1} << 16;

/// One fold of elements [0, count), all pointers already at their first element.
struct KernelCall {
  const void* const* sources;
  size_t sourceCount;
  void* const* targets;
  size_t targetCount;
  size_t begin;           ///< elements skipped in every source
  size_t count;           ///< elements
  const double* scalars;  ///< one per source, or null; floating-point types only
  int divideBy;           ///< 1: none; floating-point types only
  bool canonical;         ///< the aligned tree; floating-point types only
  bool rounded;           ///< to the type after every addition; true where canonical
  /// Store past the caches. All targets are then aligned to their elements and lie at the same
  /// distance from a line's begin. The caller fences.
  bool streaming;
};
using FoldKernel = void (*)(const KernelCall&);

enum KernelOp {
  kAdd,
  kMultiply,
  kMinimum,
  kMaximum,
  kBitAnd,  // from here on of integers only
  kBitOr,
  kBitXor,
  kLogicalAnd,
  kLogicalOr,
  kLogicalXor,
  kKernelOpCount
};
inline constexpr int kKernelTypeCount = 14;  ///< indexed by DataType

struct FoldKernels {
  FoldKernel fold[kKernelTypeCount][kKernelOpCount];  ///< null where an operation is not defined
  /// memcpy past the caches; any alignment. The caller fences.
  void (*streamCopy)(void* target, const void* source, size_t bytes);
  /// Makes streaming stores ordered before every later store of this thread.
  void (*fence)();
};

/// Each in its own file; where the compiler does not know an instruction set, its file is not part
/// of the build and nobody may call it (variants.cc knows).
const FoldKernels* baselineKernels();
const FoldKernels* avx2Kernels();
const FoldKernels* avx512Kernels();

}  // namespace tutti::numbers
