// Streams, events, memory and copies by the driver's functions, as Python's bindings call them.

#include <cudaTypedefs.h>

#include "tests/emulation/tests/runtime_test.h"

namespace tutti::emulation {
namespace {

class DriverStreamTest : public RuntimeTest {};

TEST_F(DriverStreamTest, CopiesAreInTheOrderOfAStream) {
  CUstream stream = nullptr, other = nullptr;
  CUevent event = nullptr, later = nullptr;
  int least = 0, greatest = 0, priority = 1;
  unsigned flags = 0;
  EXPECT_EQ(DRIVER(cuCtxGetStreamPriorityRange)(&least, &greatest), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuStreamCreateWithPriority)(&stream, CU_STREAM_NON_BLOCKING, greatest),
            CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuStreamGetPriority)(stream, &priority), CUDA_SUCCESS);
  EXPECT_EQ(priority, greatest);
  EXPECT_EQ(DRIVER(cuStreamGetFlags)(stream, &flags), CUDA_SUCCESS);
  EXPECT_EQ(flags, unsigned(CU_STREAM_NON_BLOCKING));
  EXPECT_EQ(DRIVER(cuEventCreate)(&event, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuEventCreate)(&later, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  CUdeviceptr memory = 0;
  void* host = nullptr;
  EXPECT_EQ(DRIVER(cuMemAlloc)(&memory, 8), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemHostAlloc)(&host, 8, CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
  int* const words = static_cast<int*>(host);
  words[0] = 7;
  words[1] = 0;
  EXPECT_EQ(DRIVER(cuMemcpyHtoDAsync)(memory, words, 4, stream), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuEventRecord)(event, stream), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuStreamWaitEvent)(other, event, 0), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemcpyAsync)(memory + 4, memory, 4, other), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemcpyDtoHAsync)(words + 1, memory + 4, 4, other), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuEventRecord)(later, other), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuEventSynchronize)(later), CUDA_SUCCESS);
  EXPECT_EQ(words[1], 7);
  float milliseconds = -1;
  EXPECT_EQ(DRIVER(cuEventElapsedTime)(&milliseconds, event, later), CUDA_SUCCESS);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(DRIVER(cuStreamQuery)(other), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuStreamSynchronize)(stream), CUDA_SUCCESS);
  for (CUevent each : {event, later}) EXPECT_EQ(DRIVER(cuEventDestroy)(each), CUDA_SUCCESS);
  for (CUstream each : {stream, other}) EXPECT_EQ(DRIVER(cuStreamDestroy)(each), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemFree)(memory), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemFreeHost)(host), CUDA_SUCCESS);
}

TEST_F(DriverStreamTest, MemoryIsCopiedAndFilled) {
  CUdeviceptr memory = 0;
  size_t freeBytes = 0, allBytes = 0;
  int value = 5, read = 0;
  EXPECT_EQ(DRIVER(cuMemAllocAsync)(&memory, 4, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemcpyHtoD)(memory, &value, 4), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemsetD8Async)(memory, 1, 2, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuCtxSynchronize)(), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemcpyDtoH)(&read, memory, 4), CUDA_SUCCESS);
  EXPECT_EQ(read, 0x0101);
  EXPECT_EQ(DRIVER(cuMemGetInfo)(&freeBytes, &allBytes), CUDA_SUCCESS);
  EXPECT_LT(freeBytes, allBytes);
  EXPECT_EQ(DRIVER(cuMemFreeAsync)(memory, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemAlloc)(&memory, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(DRIVER(cuMemAlloc)(nullptr, 4), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverStreamTest, PointersHaveSeveralAttributesAtOnce) {
  char* const memory = allocate<char>(100);
  unsigned type = 0;
  int device = -1;
  CUdeviceptr start = 0;
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                 CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
  void* to[] = {&type, &device, &start};
  const auto get = DRIVER(cuPointerGetAttributes);
  EXPECT_EQ(get(3, which, to, CUdeviceptr(memory + 50)), CUDA_SUCCESS);
  EXPECT_EQ(type, unsigned(CU_MEMORYTYPE_DEVICE));
  EXPECT_EQ(device, 0);
  EXPECT_EQ(start, CUdeviceptr(memory));
  EXPECT_EQ(get(3, which, to, CUdeviceptr(&type)), CUDA_SUCCESS);  // which CUDA does not know
  EXPECT_EQ(type, 0u);
  EXPECT_EQ(start, 0u);
  EXPECT_EQ(get(0, which, to, CUdeviceptr(memory)), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace tutti::emulation
