// multimem over replicas on several GPUs; and fp8.

#include <gtest/gtest.h>

#include <cuda_fp8.h>

#include "tests/emulation/conformance/golden.h"
#include "tests/emulation/conformance/matrix_model.h"
#include "tests/emulation/conformance/multimem_device.cuh"
#include "tests/emulation/conformance/replicas.h"

namespace tutti::emulation::conformance {
namespace {

constexpr int kReplicas = 3;
constexpr size_t kChunks = 32;

class Multimem : public testing::Test {
 protected:
  void SetUp() override {
    if (!canMulticast(kReplicas))
      GTEST_SKIP() << "multicast objects of three GPUs need these, and a switch between them";
  }
};

/// What all replicas have now, which is the same.
std::vector<uint32_t> wordsOfAll(const Replicas& replicas) {
  const auto words = replicas.download(0);
  for (size_t device = 1; device < kReplicas; ++device)
    EXPECT_EQ(replicas.download(device), words) << device;
  return words;
}

template <int kType, class T>
void expectReduced(const std::string& type) {
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
                                   reinterpret_cast<uint4*>(replicas.all()));
  EXPECT_EQ(std::memcmp(out.data(), sum.data(), 16 * kChunks), 0) << type;
  expectGolden("multimem_ld_reduce_" + type, out);
  if (kType == 2) return;  // which stores nothing
  const auto stored = wordsOfAll(replicas);
  EXPECT_EQ(std::memcmp(stored.data(), sum.data(), 16 * kChunks), 0) << type;
  expectGolden("multimem_st_" + type, stored);
}

TEST_F(Multimem, ReducesAndStores) {
  expectReduced<0, float>("f32");
  expectReduced<1, __nv_bfloat16>("bf16");
  expectReduced<2, __half>("f16");
}

TEST_F(Multimem, AddsToAll) {
  const Replicas replicas(
      std::vector(kReplicas, std::vector<uint32_t>(randomWords<uint32_t>(4, 9))));
  const uint32_t first = replicas.download(0)[0], second = replicas.download(0)[1];
  check(cuda::launch(addToWords, {.block = dim3(32)}, replicas.all()));
  check(cudaDeviceSynchronize());
  const auto words = wordsOfAll(replicas);
  EXPECT_EQ(words[0], first + 31u * 16);
  EXPECT_EQ(words[1], second + 32u * 3);
  expectGolden("multimem_red_u32", words);
}

TEST_F(Multimem, AddsFloatsToAll) {
  std::vector<std::vector<uint32_t> > values;
  std::vector<float> expected;
  for (uint64_t device = 0; device < kReplicas; ++device) {
    const auto numbers = randomIntegers<float>(4, 1000, device);
    values.emplace_back(4);
    std::memcpy(values.back().data(), numbers.data(), 16);
    for (size_t i = 0; i < 4; ++i)
      expected.push_back(numbers[i] + (i < 3 ? 32 * float(i + 1) : 31 * 16));
  }
  const Replicas replicas(values);
  check(cuda::launch(addToFloats, {.block = dim3(32)}, reinterpret_cast<float4*>(replicas.all())));
  check(cudaDeviceSynchronize());
  std::vector<uint32_t> all;
  for (size_t device = 0; device < kReplicas; ++device)
    for (const uint32_t word : replicas.download(device)) all.push_back(word);
  EXPECT_EQ(std::memcmp(all.data(), expected.data(), 16 * kReplicas), 0);
  expectGolden("multimem_red_f32", all);
}

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
