#include <cmath>

#include <tutti/cuda/launch.h>

#include "tests/emulation/device_array.h"
#include "tests/emulation/kernels/cases.h"
#include "tests/emulation/kernels/rows_device.cuh"

namespace tutti::emulation::kernels {
namespace {

std::vector<float> someFloats(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = float(random.between(100)) / 64;
  return values;
}

template <RowsBug kBug>
bool runRmsNorm() {
  constexpr int kRows = 6, kColumns = 300;
  constexpr float kEpsilon = 1e-5f;
  const auto x = someFloats(kRows * kColumns, 1), weight = someFloats(kColumns, 2);
  const DeviceArray<float> onDevice(x), weightOnDevice(weight);
  DeviceArray<float> y(x.size());
  check(cuda::launch(rmsNorm<kBug>, {.grid = dim3(kRows), .block = dim3(128)}, y.get(),
                     onDevice.get(), weightOnDevice.get(), kColumns, kEpsilon));
  check(cudaDeviceSynchronize());
  const auto got = y.download();
  for (size_t row = 0; row < kRows; ++row) {
    double squares = 0;
    for (size_t i = 0; i < kColumns; ++i) squares += std::pow(double(x[row * kColumns + i]), 2);
    for (size_t i = 0; i < kColumns; ++i) {
      const double wanted =
          x[row * kColumns + i] / std::sqrt(squares / kColumns + kEpsilon) * double(weight[i]);
      // A sum of 300 squares in float and a few roundings: within 2^-20 of the value.
      if (!(std::fabs(got[row * kColumns + i] - wanted) <= std::ldexp(std::fabs(wanted), -20)))
        return false;
    }
  }
  return true;
}

constexpr int kCount = 4000;
constexpr unsigned kBlocks = 12;

/// Quarters of small integers: every sum is exact.
std::vector<float> exactFloats() {
  Random random(3);
  std::vector<float> values(kCount);
  for (float& value : values) value = float(random.between(50)) / 4;
  return values;
}

float total(const std::vector<float>& values) {
  float sum = 0;
  for (const float value : values) sum += value;
  return sum;
}

template <RowsBug kBug>
bool runGridSum() {
  const auto values = exactFloats();
  const DeviceArray<float> onDevice(values), out(kBlocks), partial(kBlocks);
  check(cuda::launch(gridSum<kBug>, {.grid = dim3(kBlocks), .block = dim3(64), .cooperative = true},
                     out.get(), partial.get(), onDevice.get(), kCount));
  check(cudaDeviceSynchronize());
  return out.download() == std::vector<float>(kBlocks, total(values));
}

template <RowsBug kBug>
bool runLastBlockSum() {
  const auto values = exactFloats();
  const DeviceArray<float> onDevice(values), out(1), partial(kBlocks);
  DeviceArray<unsigned> arrived(1);
  arrived.fill(0);
  check(cuda::launch(lastBlockSum<kBug>, {.grid = dim3(kBlocks), .block = dim3(64)}, out.get(),
                     partial.get(), arrived.get(), onDevice.get(), kCount));
  check(cudaDeviceSynchronize());
  return out.download()[0] == total(values);
}

}  // namespace

std::vector<Case> rowsCases() {
  const auto norm = [](int bug) {
    return withBug<RowsBug::None, RowsBug::NoBarrierAfterSums, RowsBug::OneTooMany,
                   RowsBug::OneTooManyShared, RowsBug::DivergentBarrier, RowsBug::LaneLeftOut>(
        bug, []<RowsBug kBug>() { return runRmsNorm<kBug>(); });
  };
  const auto grid = [](int bug) {
    return withBug<RowsBug::None, RowsBug::NoGridSync>(
        bug, []<RowsBug kBug>() { return runGridSum<kBug>(); });
  };
  const auto lastBlock = [](int bug) {
    return withBug<RowsBug::None, RowsBug::FenceForgotten, RowsBug::MisalignedVector>(
        bug, []<RowsBug kBug>() { return runLastBlockSum<kBug>(); });
  };
  return {{"rmsnorm", norm}, {"grid", grid}, {"last_block", lastBlock}};
}

}  // namespace tutti::emulation::kernels
