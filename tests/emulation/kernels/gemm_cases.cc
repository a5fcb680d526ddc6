#include <numeric>

#include <tutti/cuda/launch.h>

#include "tests/emulation/device_array.h"
#include "tests/emulation/kernels/cases.h"
#include "tests/emulation/kernels/mma_gemm_device.cuh"
#include "tests/emulation/kernels/wgmma_gemm_device.cuh"

namespace tutti::emulation::kernels {
namespace {

using Matrix = std::vector<__nv_bfloat16>;

/// Integers from -4 to 4: products and sums are exact in float.
Matrix someIntegers(size_t count, uint64_t seed) {
  Random random(seed);
  Matrix values(count);
  for (auto& value : values) value = __float2bfloat16(float(random.between(4)));
  return values;
}

std::vector<float> widened(const Matrix& matrix) {
  std::vector<float> values;
  for (const auto& value : matrix) values.push_back(__bfloat162float(value));
  return values;
}

struct Problem {
  int m, n, k;
  Matrix a, b;
  std::vector<float> c;  // what it should be

  Problem(int rows, int columns, int depth)
      : m(rows),
        n(columns),
        k(depth),
        a(someIntegers(size_t(rows) * size_t(depth), 1)),
        b(someIntegers(size_t(columns) * size_t(depth), 2)),
        c(size_t(rows) * size_t(columns)) {
    const std::vector<float> left = widened(a), right = widened(b);
    for (int row = 0; row < m; ++row)
      for (int column = 0; column < n; ++column) {
        const float* const first = &left[size_t(row) * size_t(k)];
        c[size_t(row) * size_t(n) + size_t(column)] =
            std::inner_product(first, first + k, &right[size_t(column) * size_t(k)], 0.0f);
      }
  }
};

template <MmaBug kBug>
bool runMma() {
  const Problem problem(70, 136, 104);
  const DeviceArray<__nv_bfloat16> a(problem.a), b(problem.b);
  const DeviceArray<float> c(problem.c.size());
  check(cuda::launch(mmaGemm<kBug>,
                     {.grid = dim3((136 + 63) / 64, (70 + 63) / 64), .block = dim3(128)},
                     MmaProblem{a.get(), b.get(), c.get(), problem.m, problem.n, problem.k}));
  check(cudaDeviceSynchronize());
  return c.download() == problem.c;
}

CUtensorMap bf16Map(const DeviceArray<__nv_bfloat16>& matrix, int rows, int columns, int boxRows,
                    int boxColumns, CUtensorMapSwizzle swizzle) {
  return makeTensorMap({.type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                        .data = matrix.get(),
                        .size = {uint64_t(columns), uint64_t(rows)},
                        .strideBytes = {uint64_t(columns) * 2},
                        .box = {uint32_t(boxColumns), uint32_t(boxRows)},
                        .swizzle = swizzle});
}

template <WgmmaBug kBug>
bool runWgmma() {
  const Problem problem(256, 384, 200);  // whole tiles: what TMA stores lies inside C
  const DeviceArray<__nv_bfloat16> a(problem.a), b(problem.b), c(problem.c.size());
  const auto kernel = wgmmaGemm<kBug>;
  check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(WgmmaShared)));
  check(cuda::launch(
      kernel,
      {.grid = dim3(2),
       .block = dim3(kWgThreads),
       .cluster = dim3(2),
       .dynamicSharedBytes = sizeof(WgmmaShared)},
      bf16Map(a, problem.m, problem.k, kWgTile, kWgDepth, CU_TENSOR_MAP_SWIZZLE_128B),
      bf16Map(b, problem.n, problem.k, kWgTile / 2, kWgDepth, CU_TENSOR_MAP_SWIZZLE_128B),
      bf16Map(c, problem.m, problem.n, 64, kWgTile, CU_TENSOR_MAP_SWIZZLE_NONE),
      WgmmaShape{problem.m, problem.n, problem.k}));
  check(cudaDeviceSynchronize());
  const auto got = c.download();
  for (size_t i = 0; i < got.size(); ++i)
    if (__bfloat162float(got[i]) != __bfloat162float(__float2bfloat16(problem.c[i]))) return false;
  return true;
}

}  // namespace

std::vector<Case> gemmCases() {
  const auto mma = [](int bug) {
    return withBug<MmaBug::None, MmaBug::OneGroupTooFew, MmaBug::HalvesExchanged,
                   MmaBug::NoBarrierBeforeRefill, MmaBug::NoBarrierAfterCopies, MmaBug::NoZeroFill,
                   MmaBug::CopyForgotten>(bug, []<MmaBug kBug>() { return runMma<kBug>(); });
  };
  const auto wgmma = [](int bug) {
    return withBug<WgmmaBug::None, WgmmaBug::NoWaitForEmpty, WgmmaBug::WrongParity,
                   WgmmaBug::ReleasedEarly, WgmmaBug::TooFewBytes, WgmmaBug::WrongStep,
                   WgmmaBug::NoProxyFence, WgmmaBug::NoWaitForResults, WgmmaBug::StoreNotWaited,
                   WgmmaBug::ReleasedHereOnly, WgmmaBug::LeftEarly, WgmmaBug::NoFence,
                   WgmmaBug::NoBarrierFence, WgmmaBug::NoBarrierBeforeStore,
                   WgmmaBug::OneThreadTooMany>(bug,
                                               []<WgmmaBug kBug>() { return runWgmma<kBug>(); });
  };
  return {{"mma_gemm", mma}, {"wgmma_gemm", wgmma}};
}

}  // namespace tutti::emulation::kernels
