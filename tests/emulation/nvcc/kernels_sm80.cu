// The kernels of kernels/ that sm_80 has, without bugs; and that launch code compiles.

#include <tutti/cuda/launch.h>

#include "tests/emulation/kernels/exchange_device.cuh"
#include "tests/emulation/kernels/mma_gemm_device.cuh"
#include "tests/emulation/kernels/ring_device.cuh"
#include "tests/emulation/kernels/rows_device.cuh"

namespace tutti::emulation::kernels {

cudaError_t launchRing(const RingArguments& arguments, cudaStream_t stream) {
  return cuda::launch(ringAllReduce<RingBug::None>, {.block = dim3(96), .stream = stream},
                      arguments);
}
cudaError_t launchExchanges(const ExchangeArguments& arguments, cudaStream_t stream) {
  const cuda::LaunchConfig config{.block = dim3(32), .stream = stream};
  cuda::launch(exchangeLL<ExchangeBug::None>, config, arguments);
  return cuda::launch(exchangeLL128<ExchangeBug::None>, config, arguments);
}
cudaError_t launchRows(float* y, float* x, unsigned* arrived, int count) {
  cuda::launch(rmsNorm<RowsBug::None>, {}, y, x, x, count, 1e-5f);
  cuda::launch(gridSum<RowsBug::None>, {.cooperative = true}, y, y, x, count);
  return cuda::launch(lastBlockSum<RowsBug::None>, {}, y, y, arrived, x, count);
}
cudaError_t launchGemm(const MmaProblem& problem) {
  return cuda::launch(mmaGemm<MmaBug::None>, {.block = dim3(128)}, problem);
}

}  // namespace tutti::emulation::kernels
