// Handles of kernels: the runtime's, the driver's functions that take them, and what is no handle.

#include <cudaTypedefs.h>
#include <cuda_profiler_api.h>

#include "tests/emulation/tests/runtime_test.h"

namespace tutti::emulation {
namespace {

class KernelHandleTest : public RuntimeTest {
 protected:
  CUfunction function() {
    cudaFunction_t made = nullptr;
    EXPECT_CUDA(cudaGetFuncBySymbol(&made, cuda::addressOf(addTo)));
    return made;
  }
};

TEST_F(KernelHandleTest, TheDriverLaunchesThem) {
  int* data = allocateZeros<int>(64);
  int count = 64, value = 3;
  void* arguments[] = {&data, &count, &value};
  cudaStream_t const stream = makeStream();
  EXPECT_EQ(DRIVER(cuLaunchKernel)(function(), 2, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr),
            CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuLaunchCooperativeKernel)(function(), 2, 1, 1, 32, 1, 1, 0, stream, arguments),
            CUDA_SUCCESS);
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(download(data, 64)[63], 6);
  EXPECT_EQ(DRIVER(cuLaunchKernel)(function(), 0, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(KernelHandleTest, TheRuntimeLaunchesThem) {
  int* data = allocateZeros<int>(1);
  int count = 1, value = 5;
  void* arguments[] = {&data, &count, &value};
  cudaKernel_t kernel = nullptr;
  EXPECT_CUDA(cudaGetKernel(&kernel, cuda::addressOf(addTo)));
  EXPECT_CUDA(cudaLaunchKernel(kernel, 1, 1, arguments, 0, nullptr));
  EXPECT_EQ(download(data, 1)[0], 5);
}

TEST_F(KernelHandleTest, TheyHaveAttributes) {
  constexpr auto kShared = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  int value = 0, blocks = 0;
  EXPECT_EQ(DRIVER(cuFuncSetAttribute)(function(), kShared, 100 << 10), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuFuncGetAttribute)(&value, kShared, function()), CUDA_SUCCESS);
  EXPECT_EQ(value, 100 << 10);
  EXPECT_EQ(DRIVER(cuFuncSetCacheConfig)(function(), CU_FUNC_CACHE_PREFER_SHARED), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, function(), 1024, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(blocks, 2);
  cudaKernel_t kernel = nullptr;
  EXPECT_CUDA(cudaGetKernel(&kernel, cuda::addressOf(addTo)));
  EXPECT_CUDA(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              1 << 10, 0));
  EXPECT_EQ(DRIVER(cuKernelGetAttribute)(&value, kShared, kernel, 0), CUDA_SUCCESS);
  EXPECT_EQ(value, 1 << 10);
  EXPECT_EQ(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            1 << 10, deviceCount()),
            cudaErrorInvalidDevice);
}

TEST_F(KernelHandleTest, WhatIsNoneIsRefused) {
  void* arguments[] = {nullptr};
  int value = 0;
  cudaKernel_t kernel = nullptr;
  EXPECT_EQ(cudaGetKernel(&kernel, nullptr), cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(cudaGetKernel(nullptr, cuda::addressOf(addTo)), cudaErrorInvalidValue);
  EXPECT_EQ(DRIVER(cuLaunchKernel)(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(DRIVER(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(KernelHandleTest, ModulesAreChecked) {
  CUmodule module = nullptr;
  cudaLibrary_t library = nullptr;
  EXPECT_EQ(DRIVER(cuModuleLoadData)(&module, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(DRIVER(cuModuleLoad)(&module, "/no/such/file"), CUDA_ERROR_FILE_NOT_FOUND);
  EXPECT_EQ(cudaLibraryLoadData(&library, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0),
            cudaErrorInvalidValue);
  EXPECT_EQ(
      cudaLibraryLoadFromFile(&library, "/no/such/file", nullptr, nullptr, 0, nullptr, nullptr, 0),
      cudaErrorFileNotFound);
}

TEST_F(KernelHandleTest, ProfilersMayBegin) {
  EXPECT_CUDA(cudaProfilerStart());
  EXPECT_CUDA(cudaProfilerStop());
}

}  // namespace
}  // namespace tutti::emulation
