// launches.h, elementwise.cu: by nvcc for a GPU, by g++ for the emulation.

#include "parallel/kernels/cuda/elementwise_device.cuh"
#include "parallel/kernels/cuda/launch.h"

namespace tutti::parallel::cuda {
namespace {

constexpr TypedKernel<AddRows> kAdd{add<float>, add<double>};
constexpr TypedKernel<AddBias> kAddBias{addBias<float>, addBias<double>};
constexpr TypedKernel<Gelu> kGelu{gelu<float>, gelu<double>};
constexpr TypedKernel<Gelu> kGeluBackward{geluBackward<float>, geluBackward<double>};
constexpr TypedKernel<SwiGlu> kSwiGlu{swiGlu<float>, swiGlu<double>};
constexpr TypedKernel<SwiGlu> kSwiGluBackward{swiGluBackward<float>, swiGluBackward<double>};
constexpr TypedKernel<Rotary> kRotary{rotary<float>, rotary<double>};
constexpr TypedKernel<AdamWUpdate> kAdamW{adamW<float>, adamW<double>};
constexpr TypedKernel<SgdUpdate> kSgd{sgd<float>, sgd<double>};

void (*moveOf(int32_t elementBytes))(MoveRows) {
  switch (elementBytes) {
    case 1: return move<uint8_t>;
    case 2: return move<uint16_t>;
    case 4: return move<uint32_t>;
    default: return move<uint64_t>;
  }
}

}  // namespace

cudaError_t enqueue(const MoveRows& x, cudaStream_t stream) {
  return launch(moveOf(x.elementBytes), blocksOver(x.count), kThreads, x, stream);
}

cudaError_t enqueue(const Convert& x, cudaStream_t stream) {
  const auto kernel = x.from.format == ElementFormat::Float64 ? convert<double, float>
                      : x.to.format == ElementFormat::Float64 ? convert<float, double>
                                                              : convert<float, float>;
  return launch(kernel, blocksOver(x.count), kThreads, x, stream);
}

cudaError_t enqueue(const AddRows& x, bool doubles, cudaStream_t stream) {
  return launch(kAdd, doubles, blocksOver(x.count), kThreads, x, stream);
}

cudaError_t enqueue(const AddBias& x, bool doubles, cudaStream_t stream) {
  return launch(kAddBias, doubles, blocksOver(x.rows * x.width), kThreads, x, stream);
}

cudaError_t enqueue(const Gelu& x, bool doubles, cudaStream_t stream) {
  const auto& kernel = x.dy.data == nullptr ? kGelu : kGeluBackward;
  return launch(kernel, doubles, blocksOver(x.count), kThreads, x, stream);
}

cudaError_t enqueue(const SwiGlu& x, bool doubles, cudaStream_t stream) {
  const auto& kernel = x.dy.data == nullptr ? kSwiGlu : kSwiGluBackward;
  return launch(kernel, doubles, blocksOver(x.rows * x.width), kThreads, x, stream);
}

cudaError_t enqueue(const Rotary& x, bool doubles, cudaStream_t stream) {
  return launch(kRotary, doubles, blocksOver(x.rows * x.heads * x.half), kThreads, x, stream);
}

cudaError_t enqueue(const AdamWUpdate& x, bool doubles, cudaStream_t stream) {
  return launch(kAdamW, doubles, blocksOver(x.count), kThreads, x, stream);
}

cudaError_t enqueue(const SgdUpdate& x, bool doubles, cudaStream_t stream) {
  return launch(kSgd, doubles, blocksOver(x.count), kThreads, x, stream);
}

cudaError_t loadElementwise() {
  return loadAll(move<uint8_t>, move<uint16_t>, move<uint32_t>, move<uint64_t>,
                 convert<double, float>, convert<float, double>, convert<float, float>, kAdd,
                 kAddBias, kGelu, kGeluBackward, kSwiGlu, kSwiGluBackward, kRotary, kAdamW, kSgd);
}

}  // namespace tutti::parallel::cuda
