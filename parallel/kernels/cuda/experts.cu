// launches.h, experts.cu: by nvcc for a GPU, by g++ for the emulation.

#include "parallel/kernels/cuda/experts_device.cuh"
#include "parallel/kernels/cuda/launch.h"

namespace tutti::parallel::cuda {

namespace {
constexpr TypedKernel<Route> kRoute{route<float>, route<double>};
constexpr TypedKernel<RouterGradient> kRouterGradient{routerGradient<float>,
                                                      routerGradient<double>};
constexpr TypedKernel<SpreadRows> kSpreadRows{spreadRows<float>, spreadRows<double>};
constexpr TypedKernel<CombineRows> kCombineRows{combineRows<float>, combineRows<double>};
constexpr TypedKernel<RowDots> kRowDots{rowDots<float>, rowDots<double>};
}  // namespace

cudaError_t enqueue(const Route& x, bool doubles, cudaStream_t stream) {
  return launch(kRoute, doubles, blocksOf(x.rows, kRowWarps), kRowThreads, x, stream);
}

cudaError_t enqueue(const CountChoices& x, cudaStream_t stream) {
  return launch(countChoices, blocksOf(x.count, kCountedChoices), kThreads, x, stream);
}

cudaError_t enqueue(const PlaceTokens& x, cudaStream_t stream) {
  const int64_t experts = x.pieces.experts;
  cudaError_t error =
      launch(sumPieces, blocksOf(x.sequences * experts, kThreads), kThreads, x, stream);
  const int64_t blocks = blocksOf(tilesOfChoices(x.count) * experts, kRowWarps);
  if (error == cudaSuccess) error = launch(countTiles, blocks, kRowThreads, x, stream);
  if (error == cudaSuccess && experts > 0) error = launch(addExperts, 1, kThreads, x, stream);
  if (error == cudaSuccess) error = launch(placeTiles, blocks, kRowThreads, x, stream);
  return error;
}

cudaError_t enqueue(const RouterGradient& x, bool doubles, cudaStream_t stream) {
  const cudaError_t error =
      launch(kRouterGradient, doubles, blocksOf(x.rows, kRowWarps), kRowThreads, x, stream);
  return error == cudaSuccess ? launch(addLosses, 1, kLossThreads, x, stream) : error;
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
  return loadAll(kRoute, countChoices, sumPieces, countTiles, addExperts, placeTiles,
                 kRouterGradient, addLosses, kSpreadRows, kCombineRows, kRowDots);
}

}  // namespace tutti::parallel::cuda
