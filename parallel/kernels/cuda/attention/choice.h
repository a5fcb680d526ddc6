#pragma once

// Which kernels compute attention: those of this folder where operands and the GPU allow, else the
// reference ones.

#include <string>

#include "parallel/kernels/cuda/attention/arguments.h"

namespace tutti::parallel::cuda {

/// Reference: attention.cu, of any types and widths. Tensor cores: by mma.sync, or by wgmma with
/// TMA; the latter by as many blocks as there are multiprocessors, which take tiles in turn; and of
/// these a backward that computes scores once; and of these a forward of heads of 64 columns whose
/// tiles have 192 queries, not 128.
enum class AttentionFamily { Reference, Mma, Wgmma, Persistent, OnePass, Tall };

/// What TUTTI_ATTENTION says: `reference`, `mma`, `wgmma`, `persistent`, `onepass` or `tall`;
/// without it Wgmma. Throws InvalidArgument for any other word.
AttentionFamily attentionOfEnvironment();
/// Of a GPU of that compute capability (80 for 8.0), of which `most` is wanted: Wgmma and
/// what is behind it on 9.0 alone, Reference before 8.0.
AttentionFamily attentionOfGpu(int capability, AttentionFamily most);

/// The family that computes it, of which `most` is wanted. Mma takes queries, keys, values (and
/// dOut) of one type of 16 bits, heads of 64, 80, 96 or 128 columns, and all rows aligned to 16
/// bytes; what is behind it besides needs that there is something, for TMA.
AttentionFamily attentionOf(const AttentionForward& x, AttentionFamily most);
AttentionFamily attentionOf(const AttentionBackward& x, AttentionFamily most);

}  // namespace tutti::parallel::cuda
