// arguments.h, updates.cu: by nvcc for a GPU, by g++ for the emulation.

#include "parallel/kernels/cuda/launch.h"
#include "parallel/kernels/cuda/vectorized/arguments.h"
#include "parallel/kernels/cuda/vectorized/updates_device.cuh"

namespace tutti::parallel::cuda {
namespace {

template <class Rates, int kOperands>
struct UpdateKernels {
  using Arguments = Updates<Rates, kOperands>;
  static_assert(sizeof(Arguments) <= kMostParameterBytes);
  static constexpr auto kFour = updated<4, Rates, kOperands>, kEight = updated<8, Rates, kOperands>;
  static cudaError_t start(const Arguments& x, cudaStream_t stream) {
    bool areFloats = true;
    for (int k = 0; k < kOperands; ++k)
      areFloats &= k == kCopy<kOperands> || x.table.formats[k] == ElementFormat::Float32;
    return launch(areFloats ? kFour : kEight, x.table.blocks, kThreads, x, stream);
  }
  static cudaError_t load() { return loadAll(kFour, kEight); }
};

}  // namespace

cudaError_t enqueue(const Updates<AdamWRates, 4>& x, cudaStream_t stream) {
  return UpdateKernels<AdamWRates, 4>::start(x, stream);
}

cudaError_t enqueue(const Updates<AdamWRates, 5>& x, cudaStream_t stream) {
  return UpdateKernels<AdamWRates, 5>::start(x, stream);
}

cudaError_t enqueue(const Updates<SgdRates, 2>& x, cudaStream_t stream) {
  return UpdateKernels<SgdRates, 2>::start(x, stream);
}

cudaError_t enqueue(const Updates<SgdRates, 3>& x, cudaStream_t stream) {
  return UpdateKernels<SgdRates, 3>::start(x, stream);
}

cudaError_t enqueue(const Updates<CopyRates, 2>& x, cudaStream_t stream) {
  return UpdateKernels<CopyRates, 2>::start(x, stream);
}

cudaError_t loadUpdates() {
  cudaError_t error = cudaSuccess;
  for (const auto load : {UpdateKernels<AdamWRates, 4>::load, UpdateKernels<AdamWRates, 5>::load,
                          UpdateKernels<SgdRates, 2>::load, UpdateKernels<SgdRates, 3>::load,
                          UpdateKernels<CopyRates, 2>::load})
    if (error == cudaSuccess) error = load();
  return error;
}

}  // namespace tutti::parallel::cuda
