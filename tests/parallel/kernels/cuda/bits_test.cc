// Sums of squares and copies by a GPU's kernels: the host's bits.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "parallel/kernels/host/host_kernels.h"
#include "parallel/tensor/random.h"
#include "tests/parallel/kernels/tested_kernels.h"

namespace tutti::parallel {
namespace {

class CudaBits : public testing::Test {
 protected:
  Tensor make(const Shape& shape, DType type) {
    const Tensor x = tested_->allocate(type, shape);
    std::memset(x.data, 0, x.bytes());
    return x;
  }

  const std::unique_ptr<TestedKernels> tested_ = testedDevices().front().make();
  Kernels& kernels_ = tested_->kernels();
  HostKernels host_;
};

/// Of all sizes that the type has, and some that it has not.
Tensor wideNumbers(TestedKernels& tested, DType type, int64_t count) {
  const Tensor x = tested.allocate(type, {count});
  const Random random(9, "squares");
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = random.bits(static_cast<uint64_t>(i));
    if (type == DType::Float64) {
      const int spread = static_cast<int>(bits % 900);
      x.as<double>()[i] = std::ldexp(random.normal(static_cast<uint64_t>(i)), spread - 450);
    } else if (type == DType::Float32) {
      x.as<float>()[i] = std::bit_cast<float>(static_cast<uint32_t>(bits) & 0xfeffffffu);
    } else {
      const uint16_t mask = type == DType::BFloat16 ? 0xfeff : 0xf7ff;
      static_cast<uint16_t*>(x.data)[i] = static_cast<uint16_t>(bits & mask);
    }
  }
  return x;
}

// Of one element and of several blocks' worth, with and without what is not finite.
TEST_F(CudaBits, AddSquaresAsTheHostDoes) {
  for (const DType type : {DType::Float64, DType::Float32, DType::BFloat16, DType::Float16})
    for (const int64_t count : {1, 1000, 70'000}) {
      const Tensor x = wideNumbers(*tested_, type, count);
      ExactSum host, gpu;
      host.add(0.375), gpu.add(0.375);
      host_.addSquares({&x, 1}, host);
      kernels_.addSquares({&x, 1}, gpu);
      kernels_.addSquares({&x, 1}, gpu);  // what is left of the first does not count again
      host_.addSquares({&x, 1}, host);
      EXPECT_EQ(gpu.limbs(), host.limbs()) << x;
      EXPECT_TRUE(std::isfinite(gpu.value()) && gpu.value() > 0) << x;
    }
  for (const double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), 1e200})
    for (const DType type : {DType::Float64, DType::Float32}) {
      const Tensor x = wideNumbers(*tested_, type, 40'000), one = make({1}, DType::Float64);
      one.as<double>()[0] = bad;
      host_.copy(one, x.part(0, 35'000, 1));
      ExactSum host, gpu;
      const Tensor all[] = {x, x.rows(0, 100), x};
      host_.addSquares(all, host);
      kernels_.addSquares(all, gpu);
      EXPECT_EQ(gpu.limbs(), host.limbs()) << x << " with " << bad;
      EXPECT_TRUE(std::isnan(gpu.value())) << x << " with " << bad;
    }
}

/// The same bits, or not a number in both, of which the bits differ where a GPU goes by float64.
bool areAlike(const Tensor& a, const Tensor& b, HostKernels& host) {
  if (std::memcmp(a.data, b.data, a.bytes()) == 0) return true;
  Arena arena{"compared"};
  const Tensor x = arena.allocate(DType::Float64, a.shape),
               y = arena.allocate(DType::Float64, a.shape);
  host.copy(a, x);
  host.copy(b, y);
  return std::equal(x.as<double>(), x.as<double>() + x.count(), y.as<double>(),
                    [](double one, double other) {
                      return (std::isnan(one) && std::isnan(other)) ||
                             std::bit_cast<uint64_t>(one) == std::bit_cast<uint64_t>(other);
                    });
}

// Every number of 16 bits, and numbers between them, to every other type.
TEST_F(CudaBits, CopyBetweenAllTypesAsTheHostDoes) {
  const DType types[] = {DType::Float64, DType::Float32, DType::BFloat16, DType::Float16};
  for (const DType from : types)
    for (const DType to : types) {
      const Tensor x = tested_->allocate(from, {0x10000});
      const Random random(4, "numbers");
      for (uint32_t i = 0; i < 0x10000; ++i) {
        const auto half = static_cast<uint16_t>(i);
        const auto wide =
            std::bit_cast<float>(i << 16 | (static_cast<uint32_t>(random.bits(i)) & 0xffffu));
        if (isNarrow(from))
          static_cast<uint16_t*>(x.data)[i] = half;
        else if (from == DType::Float32)
          x.as<float>()[i] = wide;
        else
          x.as<double>()[i] = static_cast<double>(wide) * (1 + 0x1p-40);
      }
      const Tensor gpu = make({0x10000}, to), host = make({0x10000}, to);
      kernels_.copy(x, gpu);
      tested_->finish();
      host_.copy(x, host);
      EXPECT_TRUE(areAlike(gpu, host, host_)) << x << " to " << gpu;
    }
}

// Types without arithmetic, rows with gaps.
TEST_F(CudaBits, CopyElementsOfAnySize) {
  for (const DType type : {DType::UInt8, DType::Float16, DType::Int32, DType::Int64}) {
    const Tensor from = make({2, 3, 2, 7}, type), to = make({2, 3, 2, 9}, type);
    for (size_t i = 0; i < from.bytes(); ++i)
      static_cast<unsigned char*>(from.data)[i] = static_cast<unsigned char>(i);
    const Tensor host = make(to.shape, type);
    kernels_.copy(from.part(3, 1, 5), to.part(3, 2, 5));
    tested_->finish();
    host_.copy(from.part(3, 1, 5), host.part(3, 2, 5));
    EXPECT_EQ(std::memcmp(to.data, host.data, to.bytes()), 0) << from;
  }
}

}  // namespace
}  // namespace tutti::parallel
