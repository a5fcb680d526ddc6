#pragma once

// Which kernels compute attention: those of this folder where operands and the GPU allow, else the
// plain ones.

#include <string>

#include "parallel/kernels/cuda/attention/arguments.h"

namespace tutti::parallel::cuda {

/// Plain: attention.cu, of any types and widths. Mma: tensor cores by mma.sync.
enum class AttentionFamily { Plain, Mma };

/// What TUTTI_ATTENTION says: `plain` or `mma`; without it Mma. Throws InvalidArgument for any
/// other word.
AttentionFamily attentionOfEnvironment();
/// Of a GPU of that compute capability (80 for 8.0), of which `most` is wanted: Plain before 8.0.
AttentionFamily attentionOfGpu(int capability, AttentionFamily most);

/// Whether the kernels of this folder compute it: queries, keys, values (and dOut) of one type of
/// 16 bits, heads of 64, 80, 96 or 128 columns, and all rows aligned to 16 bytes.
bool areTiled(const Attention& x);
bool areTiled(const AttentionBackward& x);

}  // namespace tutti::parallel::cuda
