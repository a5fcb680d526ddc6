#pragma once

// What a product's epilogue does between a sum and c (GemmEpilogue of kernels.h), as the host and a
// GPU's kernels call it.

#include <cstdint>

namespace tutti::parallel {

enum class Activation : int32_t { None, Gelu, GeluBackward, SwiGlu, SwiGluBackward };

}  // namespace tutti::parallel
