// What nvcc's code registers before main(): kernels that are launched by <<<>>> and refused by
// name, and variables by their symbols. The test calls what the compiler would.

#include <string>

#include "tests/emulation/emulation.h"
#include "tests/emulation/tests/runtime_test.h"

extern "C" {
void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFatBinaryEnd(void**);
void __cudaUnregisterFatBinary(void**);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*,
                            dim3*, int*);
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int);
void __cudaRegisterManagedVar(void**, void**, char*, const char*, int, size_t, int, int);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, cudaStream_t);
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*);
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*);
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);
}

namespace tutti::emulation {
namespace {

/// What nvcc makes of `__global__ void scale(float*)` for the host.
void scaleStub() {
  dim3 grid, block;
  size_t sharedBytes = 0;
  cudaStream_t stream = nullptr;
  if (__cudaPopCallConfiguration(&grid, &block, &sharedBytes, &stream) != cudaSuccess) return;
  cudaKernel_t kernel = nullptr;
  void* arguments[] = {nullptr};
  EXPECT_CUDA(__cudaGetKernel(&kernel, reinterpret_cast<const void*>(&scaleStub)));
  __cudaLaunchKernel(kernel, grid, block, arguments, sharedBytes, stream);
}

class RegistrationTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    binary_ = __cudaRegisterFatBinary(nullptr);
    __cudaRegisterFunction(binary_, address(), nullptr, "_Z5scalePf", -1, nullptr, nullptr, nullptr,
                           nullptr, nullptr);
    __cudaRegisterVar(binary_, reinterpret_cast<char*>(&variable_), nullptr, "table", 0,
                      sizeof variable_, 0, 0);
    __cudaRegisterFatBinaryEnd(binary_);
  }
  void TearDown() override {
    if (binary_ != nullptr) __cudaUnregisterFatBinary(binary_);
    RuntimeTest::TearDown();
  }
  static const char* address() { return reinterpret_cast<const char*>(&scaleStub); }
  static cudaError_t launchByBrackets() {
    if (__cudaPushCallConfiguration(2, 32, 0, nullptr) == 0) scaleStub();
    return cudaGetLastError();
  }

  void** binary_ = nullptr;
  int variable_[4] = {};
};

TEST_F(RegistrationTest, LaunchesAreRefusedByName) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(launchByBrackets(), cudaErrorNoKernelImageForDevice);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("kernel scale(float*) is machine code for GPUs"), std::string::npos) << said;
  EXPECT_EQ(said.find("scale"), said.rfind("scale")) << "more than once: " << said;
  EXPECT_CUDA(cudaDeviceSynchronize());  // the device is as before
}

TEST_F(RegistrationTest, KernelsHaveNamesUntilTheirLibraryIsClosed) {
  const char* name = nullptr;
  EXPECT_CUDA(cudaFuncGetName(&name, address()));
  EXPECT_STREQ(name, "scale(float*)");
  __cudaUnregisterFatBinary(binary_);
  binary_ = nullptr;
  EXPECT_EQ(launchByBrackets(), cudaErrorInvalidDeviceFunction);
  void* memory = nullptr;
  EXPECT_EQ(cudaGetSymbolAddress(&memory, &variable_), cudaErrorInvalidSymbol);
}

TEST_F(RegistrationTest, ALaunchNeedsItsConfiguration) {
  dim3 grid, block;
  size_t sharedBytes = 0;
  cudaStream_t stream = nullptr;
  EXPECT_EQ(__cudaPushCallConfiguration(3, 64, 128, nullptr), 0u);
  EXPECT_CUDA(__cudaPopCallConfiguration(&grid, &block, &sharedBytes, &stream));
  EXPECT_EQ(grid.x, 3u);
  EXPECT_EQ(block.x, 64u);
  EXPECT_EQ(sharedBytes, 128u);
  EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &sharedBytes, &stream),
            cudaErrorMissingConfiguration);
}

TEST_F(RegistrationTest, VariablesAreOfEachDevice) {
  size_t bytes = 0;
  EXPECT_CUDA(cudaGetSymbolSize(&bytes, &variable_));
  EXPECT_EQ(bytes, sizeof variable_);
  const int written[2] = {7, 9};
  EXPECT_CUDA(cudaMemcpyToSymbol(&variable_, written, sizeof written, 2 * sizeof(int),
                                 cudaMemcpyHostToDevice));
  void *memory = nullptr, *other = nullptr;
  EXPECT_CUDA(cudaGetSymbolAddress(&memory, &variable_));
  EXPECT_EQ(download(static_cast<int*>(memory), 4)[3], 9);
  int read = 0;
  EXPECT_CUDA(cudaMemcpyFromSymbol(&read, &variable_, sizeof read, 2 * sizeof(int),
                                   cudaMemcpyDeviceToHost));
  EXPECT_EQ(read, 7);
  if (deviceCount() < 2) return;
  EXPECT_CUDA(cudaSetDevice(1));
  EXPECT_CUDA(cudaGetSymbolAddress(&other, &variable_));
  EXPECT_NE(other, memory);
}

TEST_F(RegistrationTest, CopiesOfVariablesAreChecked) {
  int value = 0;
  EXPECT_EQ(cudaMemcpyToSymbol(&value, &value, sizeof value, 0, cudaMemcpyHostToDevice),
            cudaErrorInvalidSymbol);
  EXPECT_EQ(cudaMemcpyToSymbol(&variable_, &value, sizeof value, sizeof variable_,
                               cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyToSymbol(&variable_, &value, sizeof value, 0, cudaMemcpyDeviceToHost),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaMemcpyFromSymbolAsync(&value, &variable_, sizeof value, 0, cudaMemcpyHostToDevice,
                                      nullptr),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaGetSymbolAddress(nullptr, &variable_), cudaErrorInvalidValue);
}

TEST_F(RegistrationTest, ManagedVariablesEndTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(__cudaRegisterManagedVar(binary_, nullptr, nullptr, "shared", 0, 4, 0, 0),
              testing::ExitedWithCode(kErrorStatus), "__managed__ variable, shared");
}

TEST_F(RegistrationTest, MachineCodeIsNeverLoaded) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUlinkState link = nullptr;
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  testing::internal::CaptureStderr();
  EXPECT_EQ(DRIVER(cuModuleLoadData)(&module, "an image"), CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(cudaLibraryLoadData(&library, "an image", nullptr, nullptr, 0, nullptr, nullptr, 0),
            cudaErrorNoKernelImageForDevice);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("what cuModuleLoadData loads is machine code"), std::string::npos) << said;
  EXPECT_NE(said.find("what cudaLibraryLoadData loads is"), std::string::npos) << said;
  EXPECT_EQ(DRIVER(cuModuleGetFunction)(&function, module, "scale"), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(DRIVER(cuModuleUnload)(module), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cudaLibraryGetKernel(&kernel, library, "scale"), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaLibraryUnload(library), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(DRIVER(cuLinkCreate)(0, nullptr, nullptr, &link), CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
}

TEST_F(RegistrationTest, ARuntimeLinkedStaticallyIsTold) {
  const void* table = nullptr;
  const CUuuid id{};
  const auto get = DRIVER(cuGetExportTable);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(get(&table, &id), CUDA_ERROR_NOT_SUPPORTED);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("has NVIDIA's CUDA runtime linked into it"), std::string::npos) << said;
  EXPECT_EQ(said.find("-cudart shared"), said.rfind("-cudart shared")) << said;
}

TEST_F(RegistrationTest, DevicesAreNotDivided) {
  CUdevResource resource{};
  CUgreenCtx green = nullptr;
  EXPECT_EQ(DRIVER(cuDeviceGetDevResource)(0, &resource, CU_DEV_RESOURCE_TYPE_SM),
            CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(DRIVER(cuGreenCtxCreate)(&green, nullptr, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(DRIVER(cuGreenCtxDestroy)(green), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(RegistrationTest, LogsHaveHandles) {
  CUlogsCallbackHandle handle = nullptr;
  const CUlogsCallback callback = [](void*, CUlogLevel, char*, size_t) {};
  EXPECT_EQ(DRIVER(cuLogsRegisterCallback)(callback, nullptr, &handle), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuLogsUnregisterCallback)(handle), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuLogsUnregisterCallback)(handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(DRIVER(cuLogsRegisterCallback)(nullptr, nullptr, &handle), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace tutti::emulation
