#pragma once

// Operands of kernels for tests of every device of a program.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "tests/parallel/kernels/tested_kernels.h"

namespace tutti::parallel {

inline constexpr int64_t kRows = 6, kWidth = 4, kVocabulary = 5;

class Operands : public testing::TestWithParam<TestedDevice> {
 protected:
  Tensor make(const Shape& shape, DType type = DType::Float32) {
    const Tensor x = tested_->allocate(type, shape);
    if (x.bytes() > 0) std::memset(x.data, 0, x.bytes());
    return x;
  }

  const std::unique_ptr<TestedKernels> tested_ = GetParam().make();
  Kernels& kernels_ = tested_->kernels();
  Arena arena_{"scratch"};
};

inline std::string nameOfDevice(const testing::TestParamInfo<TestedDevice>& device) {
  return device.param.name;
}

}  // namespace tutti::parallel
