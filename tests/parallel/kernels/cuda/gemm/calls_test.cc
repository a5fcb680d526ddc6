// Products through CudaKernels: what the reference kernel gives where both must agree, what the
// environment says, and memory for partial sums.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "parallel/kernels/cuda/cuda_kernels.h"
#include "parallel/kernels/cuda/gemm/table.h"
#include "parallel/tensor/random.h"

namespace tutti::parallel {
namespace {

class GemmCalls : public testing::Test {
 protected:
  Tensor make(DType type, const Shape& shape) {
    memory_.push_back(allocatePinned(byteCount(type, shape)));
    std::memset(memory_.back().data(), 0, byteCount(type, shape));
    return {memory_.back().data(), type, shape};
  }
  Tensor random(const Shape& shape) {
    const Tensor x = make(DType::Float32, shape);
    const Random values(5, "gemm");
    for (int64_t i = 0; i < x.count(); ++i)
      x.as<float>()[i] = static_cast<float>(values.normal(next_++));
    return x;
  }
  /// With TUTTI_GEMM as given.
  void run(const std::string& forced, const GemmArgs& args) {
    CudaKernels kernels(stream_, {.forced = cuda::GemmForced::parse(forced), .table = {}});
    kernels.gemm(args);
    stream_.synchronize();
  }
  static bool sameBits(const Tensor& a, const Tensor& b) {
    return std::memcmp(a.data, b.data, a.bytes()) == 0;
  }

  Stream stream_{Device{DeviceKind::Cuda, 0}};
  uint64_t next_ = 0;

 private:
  std::vector<Memory> memory_;
};

// Float32 is not rounded on the way, and summed in the same order: whichever kernel has it.
TEST_F(GemmCalls, GiveThePlainKernelsBitsInFloat32) {
  for (int which = 0; which < 8; ++which) {
    const bool turnA = which % 2 != 0, turnB = which / 2 % 2 != 0;
    const Tensor a = random(turnA ? Shape{77, 131} : Shape{131, 77}),
                 b = random(turnB ? Shape{140, 77} : Shape{77, 140});
    const Tensor before = random({131, 140}), reference = make(DType::Float32, {131, 140}),
                 tuned = make(DType::Float32, {131, 140}), tf32 = make(DType::Float32, {131, 140});
    for (const Tensor& c : {reference, tuned, tf32})
      std::memcpy(c.data, before.data, before.bytes());
    const Tensor inner = random({131, 140}), bias = random({140});
    const auto args = [&](const Tensor& c) {
      GemmArgs result{.a = a,
                      .b = b,
                      .c = c,
                      .transposeA = turnA,
                      .transposeB = turnB,
                      .beta = which >= 4 ? 1.0 : 0.0};
      if (which % 3 == 0)
        result.epilogue = {
            .activation = Activation::GeluBackward, .inner = inner, .bias = bias, .scale = 0.1};
      return result;
    };
    run("reference", args(reference));
    run("splits=1", args(tuned));
    run("tf32,splits=1", args(tf32));
    EXPECT_TRUE(sameBits(reference, tuned)) << which;
    EXPECT_FALSE(sameBits(reference, tf32)) << which;
  }
}

TEST_F(GemmCalls, DoWhatTheEnvironmentSays) {
  const Tensor a = random({8, 40}), b = random({40, 8}), c = make(DType::Float32, {8, 8}),
               reference = make(DType::Float32, {8, 8});
  run("reference", {.a = a, .b = b, .c = reference});
  const auto byEnvironment = [&](const char* value) {
    setenv("TUTTI_GEMM", value, 1);
    CudaKernels kernels(stream_);
    kernels.gemm({.a = a, .b = b, .c = c});
    stream_.synchronize();
    return sameBits(c, reference);
  };
  EXPECT_FALSE(byEnvironment("tf32"));
  EXPECT_TRUE(byEnvironment("reference"));
  EXPECT_THROW(byEnvironment("fast"), Error);
  unsetenv("TUTTI_GEMM");
}

size_t freeBytes() {
  size_t free = 0, all = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &all), cudaSuccess);
  return free;
}

// What was there of other calls does not count, and the memory is kept.
TEST_F(GemmCalls, KeepMemoryForPartialSums) {
  CudaKernels kernels(stream_, {.forced = cuda::GemmForced::parse("splits=4"), .table = {}});
  const Tensor ones = make(DType::BFloat16, {40, 512}), nans = make(DType::BFloat16, {40, 512}),
               c = make(DType::Float32, {40, 40});
  for (int64_t i = 0; i < ones.count(); ++i) {
    static_cast<uint16_t*>(ones.data)[i] = 0x3f80;
    static_cast<uint16_t*>(nans.data)[i] = 0x7fc0;
  }
  const size_t before = freeBytes();
  kernels.gemm({.a = nans, .b = nans, .c = c, .transposeB = true});
  stream_.synchronize();
  const size_t first = freeBytes();
  EXPECT_LE(first, before);  // a GPU may have had room in what it had given out
  for (int i = 0; i < 1600; ++i) ASSERT_TRUE(c.as<float>()[i] != c.as<float>()[i]);
  for (int round = 0; round < 2; ++round) {
    kernels.gemm({.a = ones, .b = ones, .c = c, .transposeB = true});
    stream_.synchronize();
    for (int i = 0; i < 1600; ++i) ASSERT_EQ(c.as<float>()[i], 512.0f) << i;
  }
  EXPECT_EQ(freeBytes(), first);
}

/// Work of a stream that ends when it is let go, or after ten seconds.
struct Held {
  std::atomic<bool> isLetGo{false}, wasLate{false};
  static void wait(void* self) {
    auto& held = *static_cast<Held*>(self);
    for (int i = 0; i < 10000 && !held.isLetGo; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    held.wasLate = !held.isLetGo;
  }
};

/// Every kernel, beside work of another stream: 0 where none waited for it.
int statusBesideAnother() {
  Stream stream{Device{DeviceKind::Cuda, 0}}, other{Device{DeviceKind::Cuda, 0}};
  const Memory operands = allocatePinned(64 * 64 * 4), result = allocatePinned(64 * 64 * 4);
  std::memset(operands.data(), 0, operands.bytes());
  std::vector<std::unique_ptr<CudaKernels>> all;
  for (const char* const forced :
       {"together,columns=256,splits=2", "together,columns=128", "turns", "mma", "tf32"})
    all.push_back(std::make_unique<CudaKernels>(
        stream, cuda::GemmOptions{.forced = cuda::GemmForced::parse(forced), .table = {}}));
  Held held;
  if (cudaLaunchHostFunc(StreamRef(other).cuda(), Held::wait, &held) != cudaSuccess) return 2;
  for (const auto& kernels : all)
    for (const DType type : {DType::BFloat16, DType::Float16, DType::Float32})
      for (int which = 0; which < 4; ++which) {
        const Tensor x(operands.data(), type, {64, 64});
        kernels->gemm({.a = x,
                       .b = x,
                       .c = Tensor(result.data(), DType::Float32, {64, 64}),
                       .transposeA = which % 2 != 0,
                       .transposeB = which / 2 != 0});
      }
  held.isLetGo = true;
  other.synchronize();
  return held.wasLate ? 1 : 0;
}

// The first use of a kernel that is not loaded waits for the device, and might for ever.
TEST(GemmKernels, AreLoadedAhead) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("TUTTI_EMULATION_LAZY_LOADING", "1", 1);
  EXPECT_EXIT(_exit(statusBesideAnother()), testing::ExitedWithCode(0), "");
  unsetenv("TUTTI_EMULATION_LAZY_LOADING");
}

}  // namespace
}  // namespace tutti::parallel
