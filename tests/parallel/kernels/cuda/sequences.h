#pragma once

// What tests of kernels that are kept and launched as graphs share.

#include <cstring>
#include <vector>

#include "parallel/kernels/cuda/cuda_kernels.h"
#include "tests/device/cuda_test.h"

namespace tutti::parallel {

/// Without kernels, as there are no graphs where others have theirs on the same device.
class SequencesWithoutKernels : public tests::CudaTest {
 protected:
  /// In memory that host and GPU address.
  Tensor make(const Shape& shape, DType type = DType::Float32) {
    memory_.push_back(allocatePinned(byteCount(type, shape)));
    std::memset(memory_.back().data(), 0, memory_.back().bytes());
    return {memory_.back().data(), type, shape};
  }
  void fill(const Tensor& x, float first) {
    for (int64_t i = 0; i < x.count(); ++i)
      x.as<float>()[i] = first + 0.25f * static_cast<float>(i % 13);
  }
  std::vector<float> values(const Tensor& x) {
    stream_.synchronize();
    return {x.as<float>(), x.as<float>() + x.count()};
  }

  /// Products, an activation, memory that is filled and copied, and sums, by scratch, that are
  /// added to.
  struct Chain {
    Tensor x, weight, inner, active, copied, sum;
  };
  Chain chain() {
    constexpr int64_t kRows = 300;
    return {make({kRows, 8}),  make({16, 8}),     make({kRows, 16}),
            make({kRows, 16}), make({kRows, 16}), make({16})};
  }
  static void call(Kernels& kernels, const Chain& c) {
    kernels.fillZero(c.inner);
    kernels.gemm({.a = c.x, .b = c.weight, .c = c.inner, .transposeB = true, .beta = 1});
    kernels.gelu(c.inner, c.active);
    kernels.copy(c.active, c.copied);
    kernels.biasGradient(c.copied, c.sum, 1);
  }
  std::vector<float> results(const Chain& c) {
    std::vector<float> all = values(c.copied), sum = values(c.sum);
    all.insert(all.end(), sum.begin(), sum.end());
    return all;
  }

  std::vector<Memory> memory_;
  Stream stream_{tests::gpu(0)};
};

class Sequences : public SequencesWithoutKernels {
 protected:
  CudaKernels kernels_{stream_};
};

}  // namespace tutti::parallel
