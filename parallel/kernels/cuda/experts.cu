// launches.h, experts.cu: by nvcc for a GPU, by g++ for the emulation.

#include "parallel/kernels/cuda/experts_device.cuh"
#include "parallel/kernels/cuda/launch.h"

namespace tutti::parallel::cuda {

namespace {
constexpr Kernel<Route> kRoute{route<float>, route<double>};
constexpr Kernel<RouterGradient> kRouterGradient{routerGradient<float>, routerGradient<double>};
constexpr Kernel<SpreadRows> kSpreadRows{spreadRows<float>, spreadRows<double>};
constexpr Kernel<CombineRows> kCombineRows{combineRows<float>, combineRows<double>};
constexpr Kernel<RowDots> kRowDots{rowDots<float>, rowDots<double>};
}  // namespace

cudaError_t enqueue(const Route& x, bool doubles, cudaStream_t stream) {
  return launch(kRoute, doubles, blocksOf(x.rows, kRowThreads), kRowThreads, x, stream);
}

cudaError_t enqueue(const CountChoices& x, cudaStream_t stream) {
  return launch(countChoices, blocksOver(x.count), kThreads, x, stream);
}

cudaError_t enqueue(const PlaceTokens& x, cudaStream_t stream) {
  const int64_t experts = x.pieces.experts;
  cudaError_t error =
      launch(sumPieces, blocksOf(x.sequences * experts, kThreads), kThreads, x, stream);
  if (error == cudaSuccess)
    error = launch(placeByExpert, blocksOf(experts, kRowWarps), kRowThreads, x, stream);
  if (error == cudaSuccess) error = launch(placeExperts, blocksOver(x.count), kThreads, x, stream);
  return error;
}

cudaError_t enqueue(const RouterGradient& x, bool doubles, cudaStream_t stream) {
  return launch(kRouterGradient, doubles, blocksOf(x.rows, kRowThreads), kRowThreads, x, stream);
}

cudaError_t enqueue(const SpreadRows& x, bool doubles, cudaStream_t stream) {
  return launch(kSpreadRows, doubles, x.count, kRowThreads, x, stream);
}

cudaError_t enqueue(const CombineRows& x, bool doubles, cudaStream_t stream) {
  return launch(kCombineRows, doubles, x.count, kRowThreads, x, stream);
}

cudaError_t enqueue(const RowDots& x, bool doubles, cudaStream_t stream) {
  return launch(kRowDots, doubles, x.count, kRowThreads, x, stream);
}

cudaError_t loadExperts() {
  return loadAll(kRoute, countChoices, sumPieces, placeByExpert, placeExperts, kRouterGradient,
                 kSpreadRows, kCombineRows, kRowDots);
}

}  // namespace tutti::parallel::cuda
