#pragma once

/// \file
/// Makes buffers of CUDA's 16-bit and 8-bit floating-point types: `__half*` and the like, and spans
/// of them, say their DataType. It needs the headers of CUDA's toolkit.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <tutti/buffer.h>

namespace tutti {

// clang-format off
template <> struct ElementType<__half> : ElementIs<DataType::Float16> {};
template <> struct ElementType<__nv_bfloat16> : ElementIs<DataType::BFloat16> {};
template <> struct ElementType<__nv_fp8_e4m3> : ElementIs<DataType::Float8E4M3> {};
template <> struct ElementType<__nv_fp8_e5m2> : ElementIs<DataType::Float8E5M2> {};
// clang-format on

}  // namespace tutti
