#pragma once

// Calls of communicators on emulated GPUs: what tests of several files share.

#include "tests/communicator/gpu/ranks.h"

namespace tutti::tests {

class GpuCalls : public CudaTest {};

inline constexpr size_t kCount = 5000;

}  // namespace tutti::tests
