#pragma once

// The one kernel of this executor: a fold of one piece of a step. It waits for nothing.

#include <cuda_runtime_api.h>

#include "src/executor/kernel/arguments.h"

namespace tutti::executor::copy {

inline constexpr uint32_t kFoldThreads = 256;
/// Sources and targets: what the arguments of a kernel have room for.
inline constexpr uint32_t kMostOperands = 240;

/// targets = fold(sources); the host has found where they lie.
struct FoldArguments {
  uint64_t bytes;
  double scalar;         ///< of PreMulSum
  const void* scalarAt;  ///< an element that is read instead, or null
  int32_t divideBy;
  uint16_t sources, targets;
  uint8_t type, op;   ///< as tutti::DataType and tutti::ReduceOp
  uint8_t isAligned;  ///< all operands, to 16 bytes
  uint8_t isTree;     ///< the aligned binary tree over the sources
  uint8_t isRounded;  ///< every addition rounds to the type
  kernel::Operand operands[kMostOperands];
};
static_assert(sizeof(FoldArguments) <= 4096, "arguments of a kernel");

/// By elements of 1, 2, 4 or 8 bytes.
cudaError_t launchFold(size_t elementBytes, uint32_t blocks, const FoldArguments& arguments,
                       cudaStream_t stream);
/// Its address, for questions to the runtime.
const void* foldAddress(size_t elementBytes);

}  // namespace tutti::executor::copy
