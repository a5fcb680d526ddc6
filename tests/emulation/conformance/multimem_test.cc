// multimem over replicas, which needs several GPUs and so runs in the emulation only; and fp8.

#include <gtest/gtest.h>

#include <cuda_fp8.h>

#include "tests/emulation/conformance/golden.h"
#include "tests/emulation/conformance/matrix_model.h"
#include "tests/emulation/conformance/multimem_device.cuh"
#ifndef __CUDACC__
#include "tests/emulation/emulation.h"
#endif

namespace tutti::emulation::conformance {
namespace {

#ifdef __CUDACC__
TEST(Multimem, NeedsSeveralGpus) { GTEST_SKIP() << "multicast objects need several GPUs"; }
#else
constexpr size_t kReplicas = 3, kChunks = 32;

/// Three replicas behind one address.
struct Replicas {
  std::vector<DeviceArray<uint32_t> > replicas;
  DeviceArray<uint32_t> all{4 * kChunks};

  explicit Replicas(const std::vector<std::vector<uint32_t> >& values) {
    std::vector<void*> addresses;
    for (const auto& words : values) {
      replicas.emplace_back(words);
      addresses.push_back(replicas.back().get());
    }
    bindMulticast(all.get(), 16 * kChunks, addresses);
  }
  ~Replicas() { unbindMulticast(all.get()); }
};

template <int kType, class T>
void expectReduced() {
  constexpr size_t kElements = 16 * kChunks / sizeof(T);
  std::vector<std::vector<uint32_t> > values;
  std::vector<T> sum(kElements, T(0.0f));
  for (uint64_t i = 0; i < kReplicas; ++i) {
    const auto numbers = randomIntegers<T>(kElements, 40, i);
    values.emplace_back(4 * kChunks);
    std::memcpy(values.back().data(), numbers.data(), 16 * kChunks);
    for (size_t j = 0; j < kElements; ++j) sum[j] = T(float(sum[j]) + float(numbers[j]));
  }
  const Replicas replicas(values);
  const auto out = outputOf<uint4>(kChunks, reduceReplicas<kType>, {.block = dim3(kChunks)},
                                   reinterpret_cast<uint4*>(replicas.all.get()));
  EXPECT_EQ(std::memcmp(out.data(), sum.data(), 16 * kChunks), 0) << kType;
  for (const auto& replica : replicas.replicas)
    if (kType < 2) {
      EXPECT_EQ(std::memcmp(replica.download().data(), sum.data(), 16 * kChunks), 0) << kType;
    }
}

TEST(Multimem, ReducesAndStores) {
  expectReduced<0, float>();
  expectReduced<1, __nv_bfloat16>();
  expectReduced<2, __half>();
}

TEST(Multimem, AddsToAll) {
  const Replicas replicas(std::vector(kReplicas, std::vector<uint32_t>(4 * kChunks)));
  uint32_t* const words = replicas.all.get();
  check(cuda::launch(addToReplicas, {.block = dim3(32)}, words,
                     reinterpret_cast<float4*>(words + 4)));
  for (const auto& replica : replicas.replicas) {
    const auto got = replica.download();
    EXPECT_EQ(got[0], 31u * 16);
    EXPECT_EQ(got[1], 32u);
    const float expected[] = {32, 64, 96, 31 * 16};
    EXPECT_EQ(std::memcmp(&got[4], expected, 16), 0);
  }
}
#endif

template <class Pair>
void expectPair(uint32_t packed, uint32_t halves, float low, float high) {
  const Pair pair(make_float2(low, high));
  ASSERT_EQ(packed, uint32_t(pair.__x)) << low << " " << high;
  const __half2 wide(pair);
  const float2 back = __half22float2(wide);
  ASSERT_EQ(halves, pairOf(bitsOf(__float2half(back.x)), bitsOf(__float2half(back.y))));
}

/// Against the conversions of cuda_fp8.h.
TEST(Float8, IsConverted) {
  std::vector<float> in;
  Random random(6);
  for (int i = 0; i < 1024; ++i)
    in.push_back(std::ldexp(float(random.between(1 << 12)), int(random.next() % 30) - 30));
  const auto out = outputOf<uint32_t>(4 * 512, convertFloat8, {.grid = dim3(4), .block = dim3(128)},
                                      DeviceArray<float>(in).get());
  for (size_t i = 0; i < 512; ++i) {
    expectPair<__nv_fp8x2_e4m3>(out[4 * i], out[4 * i + 2], in[2 * i], in[2 * i + 1]);
    expectPair<__nv_fp8x2_e5m2>(out[4 * i + 1], out[4 * i + 3], in[2 * i], in[2 * i + 1]);
  }
  expectGolden("float8", out);
}

}  // namespace
}  // namespace tutti::emulation::conformance
