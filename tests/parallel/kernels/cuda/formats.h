#pragma once

// Elements of a Format as numbers and as bits, for tests of kernels by themselves.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cstdint>

#include "parallel/kernels/cuda/elements.h"

namespace tutti::parallel::cuda {

inline const char* nameOf(ElementFormat format) {
  return format == ElementFormat::Float32    ? "float32"
         : format == ElementFormat::BFloat16 ? "bfloat16"
                                             : "float16";
}

inline uint32_t bitsOf(double value, ElementFormat format) {
  const auto wide = static_cast<float>(value);
  if (format == ElementFormat::Float32) return std::bit_cast<uint32_t>(wide);
  if (format == ElementFormat::BFloat16) return std::bit_cast<uint16_t>(__float2bfloat16(wide));
  return std::bit_cast<uint16_t>(__float2half(wide));
}

inline double numberOf(uint32_t bits, ElementFormat format) {
  if (format == ElementFormat::Float32) return std::bit_cast<float>(bits);
  const auto narrow = static_cast<uint16_t>(bits);
  if (format == ElementFormat::BFloat16)
    return __bfloat162float(std::bit_cast<__nv_bfloat16>(narrow));
  return __half2float(std::bit_cast<__half>(narrow));
}

}  // namespace tutti::parallel::cuda
