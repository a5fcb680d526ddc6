// What is found by name in the driver: virtual memory, multicast, stream memory operations, tensor
// maps.

#include <cudaTypedefs.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "tests/emulation/tests/runtime_test.h"

namespace tutti::emulation {
namespace {

using cuda::launch;

class DriverTest : public RuntimeTest {};

TEST_F(DriverTest, FunctionsAreFoundByName) {
  void* function = &function;
  cudaDriverEntryPointQueryResult found{};
  EXPECT_CUDA(cudaGetDriverEntryPointByVersion("cuNoSuchFunction", &function, 12000,
                                               cudaEnableDefault, &found));
  EXPECT_EQ(found, cudaDriverEntryPointSymbolNotFound);
  EXPECT_EQ(function, nullptr);
  int count = 0;
  EXPECT_EQ(DRIVER(cuInit)(0), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuDeviceGetCount)(&count), CUDA_SUCCESS);
  EXPECT_EQ(count, deviceCount());
  CUdevice device = -1;
  EXPECT_EQ(DRIVER(cuDeviceGet)(&device, count), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(DriverTest, AddressesHaveARange) {
  char* const memory = allocate<char>(1000);
  CUdeviceptr start = 0;
  size_t bytes = 0;
  const auto range = DRIVER(cuMemGetAddressRange);
  EXPECT_EQ(range(&start, &bytes, CUdeviceptr(memory + 500)), CUDA_SUCCESS);
  EXPECT_EQ(start, CUdeviceptr(memory));
  EXPECT_EQ(bytes, 1000u);
  EXPECT_NE(range(&start, &bytes, CUdeviceptr(&start)), CUDA_SUCCESS);
}

CUmemAllocationProp properties(int device) {
  CUmemAllocationProp made{};
  made.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  made.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  made.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return made;
}

size_t granularity() {
  const CUmemAllocationProp wanted = properties(0);
  size_t bytes = 0;
  EXPECT_EQ(
      DRIVER(cuMemGetAllocationGranularity)(&bytes, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
      CUDA_SUCCESS);
  return bytes;
}

CUmemGenericAllocationHandle create(int device, size_t bytes) {
  const CUmemAllocationProp wanted = properties(device);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(DRIVER(cuMemCreate)(&handle, bytes, &wanted, 0), CUDA_SUCCESS);
  return handle;
}

CUdeviceptr reserve(size_t bytes) {
  CUdeviceptr address = 0;
  EXPECT_EQ(DRIVER(cuMemAddressReserve)(&address, bytes, 0, 0, 0), CUDA_SUCCESS);
  return address;
}

CUresult allow(CUdeviceptr address, size_t bytes, int device) {
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device},
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  return DRIVER(cuMemSetAccess)(address, bytes, &access, 1);
}

template <class T>
T* map(CUmemGenericAllocationHandle handle, size_t bytes, int device) {
  const CUdeviceptr address = reserve(bytes);
  EXPECT_EQ(DRIVER(cuMemMap)(address, bytes, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(allow(address, bytes, device), CUDA_SUCCESS);
  return reinterpret_cast<T*>(address);
}

TEST_F(DriverTest, PhysicalMemoryIsMappedTwice) {
  const size_t bytes = granularity();
  const CUmemGenericAllocationHandle handle = create(0, bytes);
  int *const one = map<int>(handle, bytes, 0), *const other = map<int>(handle, bytes, 0);
  EXPECT_EQ(DRIVER(cuMemRelease)(handle), CUDA_SUCCESS);  // lives on where it is mapped
  EXPECT_CUDA(cudaMemset(one, 0, bytes));
  EXPECT_CUDA(launch(addTo, {}, one, 1, 3));
  EXPECT_EQ(download(other, 1)[0], 3);
  cudaPointerAttributes all;
  EXPECT_CUDA(cudaPointerGetAttributes(&all, other));
  EXPECT_EQ(all.type, cudaMemoryTypeDevice);
  for (int* const each : {one, other}) {
    EXPECT_EQ(DRIVER(cuMemUnmap)(CUdeviceptr(each), bytes), CUDA_SUCCESS);
    EXPECT_EQ(DRIVER(cuMemUnmap)(CUdeviceptr(each), bytes), CUDA_SUCCESS);  // is not mapped
    EXPECT_EQ(DRIVER(cuMemAddressFree)(CUdeviceptr(each), bytes), CUDA_SUCCESS);
  }
}

TEST_F(DriverTest, MappingsLieSideBySide) {
  const size_t bytes = granularity();
  const CUmemGenericAllocationHandle one = create(0, bytes), other = create(0, bytes);
  const CUdeviceptr address = reserve(2 * bytes);
  const auto mapMemory = DRIVER(cuMemMap);
  EXPECT_EQ(mapMemory(address, bytes, 0, one, 0), CUDA_SUCCESS);
  EXPECT_EQ(mapMemory(address, bytes, 0, other, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(mapMemory(address + bytes, 2 * bytes, 0, other, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(allow(address, 2 * bytes, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(mapMemory(address + bytes, bytes, 0, other, 0), CUDA_SUCCESS);
  EXPECT_EQ(allow(address, 2 * bytes, 0), CUDA_SUCCESS);
  EXPECT_EQ(allow(address, 2 * bytes, deviceCount()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(cudaMemset(reinterpret_cast<void*>(address), 1, 2 * bytes));
  EXPECT_EQ(DRIVER(cuMemAddressFree)(address, 2 * bytes), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(DRIVER(cuMemUnmap)(address, 2 * bytes), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemAddressFree)(address, 2 * bytes), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemRelease)(one), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemRelease)(other), CUDA_SUCCESS);
}

// A handle is mapped as a whole, and unmapped so; where nothing is mapped there is nothing to do.
TEST_F(DriverTest, MappingsAreWhole) {
  const size_t bytes = granularity();
  const CUmemGenericAllocationHandle one = create(0, bytes), two = create(0, 2 * bytes);
  const CUdeviceptr address = reserve(4 * bytes), nowhere = address + (CUdeviceptr(1) << 40);
  const auto mapMemory = DRIVER(cuMemMap);
  const auto unmap = DRIVER(cuMemUnmap);
  EXPECT_EQ(mapMemory(address, 2 * bytes, 0, one, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(mapMemory(address, bytes / 2, 0, one, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(mapMemory(address, bytes, 0, two, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(mapMemory(address, bytes, bytes, two, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(mapMemory(nowhere, bytes, 0, one, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(unmap(nowhere, bytes), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(mapMemory(address, bytes, 0, one, 0), CUDA_SUCCESS);
  EXPECT_EQ(unmap(address, 2 * bytes), CUDA_SUCCESS);  // half of it is mapped
  EXPECT_EQ(unmap(address, bytes), CUDA_SUCCESS);
  EXPECT_EQ(mapMemory(address, 2 * bytes, 0, two, 0), CUDA_SUCCESS);
  EXPECT_EQ(unmap(address, bytes), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(unmap(address, 2 * bytes), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemAddressFree)(address, 4 * bytes), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemRelease)(one), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemRelease)(two), CUDA_SUCCESS);
}

TEST_F(DriverTest, VirtualMemoryIsChecked) {
  const size_t bytes = granularity();
  CUmemAllocationProp wanted = properties(0);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(DRIVER(cuMemCreate)(&handle, bytes / 2, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
  wanted.location.id = deviceCount();
  EXPECT_EQ(DRIVER(cuMemCreate)(&handle, bytes, &wanted, 0), CUDA_ERROR_INVALID_DEVICE);
  wanted = properties(0);
  wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  EXPECT_EQ(DRIVER(cuMemCreate)(&handle, bytes, &wanted, 0), CUDA_SUCCESS);
  int file = -1;
  EXPECT_EQ(DRIVER(cuMemExportToShareableHandle)(&file, handle,
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_ERROR_INVALID_VALUE);
  unsigned long long flags = 0;
  const CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  int* const address = map<int>(handle, bytes, 0);
  EXPECT_EQ(DRIVER(cuMemGetAccess)(&flags, &here, CUdeviceptr(address)), CUDA_SUCCESS);
  EXPECT_EQ(flags, unsigned(CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  CUmemGenericAllocationHandle again = 0;
  EXPECT_EQ(DRIVER(cuMemRetainAllocationHandle)(&again, address), CUDA_SUCCESS);
  EXPECT_EQ(again, handle);
  EXPECT_EQ(DRIVER(cuMemRelease)(again), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemUnmap)(CUdeviceptr(address), bytes), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMemRelease)(handle), CUDA_SUCCESS);
}

TEST_F(DriverTest, MulticastReducesOverDevices) {
  int isSupported = 0;
  ASSERT_EQ(DRIVER(cuDeviceGetAttribute)(&isSupported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0),
            CUDA_SUCCESS);
  if (isSupported == 0 || deviceCount() < 2) GTEST_SKIP() << "no multicast";
  CUmulticastObjectProp wanted{};
  wanted.numDevices = 2;
  size_t bytes = 0;
  wanted.size = 1;
  ASSERT_EQ(DRIVER(cuMulticastGetGranularity)(&bytes, &wanted, CU_MULTICAST_GRANULARITY_MINIMUM),
            CUDA_SUCCESS);
  wanted.size = bytes;
  CUmemGenericAllocationHandle object = 0;
  ASSERT_EQ(DRIVER(cuMulticastCreate)(&object, &wanted), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMulticastAddDevice)(object, 0), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMulticastAddDevice)(object, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(DRIVER(cuMulticastAddDevice)(object, 1), CUDA_SUCCESS);
  float* memory[2];
  CUmemGenericAllocationHandle handles[2];
  for (int device = 0; device < 2; ++device) {
    handles[device] = create(device, bytes);
    memory[device] = map<float>(handles[device], bytes, device);
    EXPECT_EQ(DRIVER(cuMulticastBindMem)(object, 0, handles[device], 0, bytes, 0), CUDA_SUCCESS);
    std::vector<float> values(128, float(device + 1));
    EXPECT_CUDA(cudaMemcpy(memory[device], values.data(), 512, cudaMemcpyHostToDevice));
  }
  EXPECT_EQ(DRIVER(cuMulticastBindMem)(object, 0, handles[0], 0, bytes, 0),
            CUDA_ERROR_INVALID_VALUE);
  auto* const multicast = map<float4>(object, bytes, 0);
  auto* const out = allocateZeros<float4>(32);
  EXPECT_CUDA(launch(sumOverDevices, {.block = {32}}, multicast, out));
  for (const float4& sum : download(out, 32)) EXPECT_EQ(sum.w, 3.f);
  EXPECT_EQ(DRIVER(cuMemUnmap)(CUdeviceptr(multicast), bytes), CUDA_SUCCESS);
  for (int device = 0; device < 2; ++device)
    EXPECT_EQ(DRIVER(cuMulticastUnbind)(object, device, 0, bytes), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuMulticastUnbind)(object, 0, 0, bytes), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(DRIVER(cuMemRelease)(object), CUDA_SUCCESS);
}

TEST_F(DriverTest, StreamsWriteWords) {
  cudaStream_t const stream = makeStream();
  auto* const words = allocatePinned<uint64_t>(2);
  Gate gate(stream);
  EXPECT_EQ(DRIVER(cuStreamWriteValue32)(stream, CUdeviceptr(words), 7, 0), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuStreamWriteValue64)(stream, CUdeviceptr(words + 1), ~0ull, 0), CUDA_SUCCESS);
  EXPECT_EQ(words[0], 0u);
  gate.open();
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(words[0], 7u);
  EXPECT_EQ(words[1], ~uint64_t(0));
}

struct Condition {
  unsigned flags;
  uint32_t waitsFor, fails, meets;
};

TEST_F(DriverTest, StreamsWaitForWords) {
  const Condition all[] = {{CU_STREAM_WAIT_VALUE_GEQ, 5, 4, 6},
                           {CU_STREAM_WAIT_VALUE_GEQ, 1, 0xfffffff0u, 2},  // cyclic
                           {CU_STREAM_WAIT_VALUE_EQ, 5, 6, 5},
                           {CU_STREAM_WAIT_VALUE_AND, 4, 3, 12},
                           {CU_STREAM_WAIT_VALUE_NOR, 0xfffffff0u, 15, 7}};
  cudaStream_t const stream = makeStream();
  for (const Condition& each : all) {
    auto* const words = allocatePinned<uint32_t>(2);
    words[0] = each.fails;
    EXPECT_EQ(DRIVER(cuStreamWaitValue32)(stream, CUdeviceptr(words), each.waitsFor, each.flags),
              CUDA_SUCCESS);
    EXPECT_EQ(DRIVER(cuStreamWriteValue32)(stream, CUdeviceptr(words + 1), 1, 0), CUDA_SUCCESS);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady) << each.flags << " " << each.waitsFor;
    __atomic_store_n(words, each.meets, __ATOMIC_RELEASE);
    EXPECT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(words[1], 1u);
  }
}

TEST_F(DriverTest, OperationsOnWordsComeInBatches) {
  cudaStream_t const one = makeStream(), other = makeStream();
  auto* const words = allocateZeros<uint64_t>(2);
  CUstreamBatchMemOpParams all[2] = {};
  all[0].operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
  all[0].waitValue.address = CUdeviceptr(words);
  all[0].waitValue.value64 = uint64_t(1) << 40;
  all[1].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  all[1].writeValue.address = CUdeviceptr(words + 1);
  all[1].writeValue.value = 3;
  EXPECT_EQ(DRIVER(cuStreamBatchMemOp)(one, 2, all, 0), CUDA_SUCCESS);
  EXPECT_EQ(cudaStreamQuery(one), cudaErrorNotReady);
  EXPECT_EQ(DRIVER(cuStreamWriteValue64)(other, CUdeviceptr(words), uint64_t(1) << 40, 0),
            CUDA_SUCCESS);
  EXPECT_CUDA(cudaStreamSynchronize(one));
  EXPECT_EQ(download(words, 2)[1], 3u);
  EXPECT_EQ(DRIVER(cuStreamWriteValue32)(one, CUdeviceptr(words) + 2, 1, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(DRIVER(cuStreamWaitValue32)(one, CUdeviceptr(words), 1, 9), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(DRIVER(cuStreamWriteValue64)(one, CUdeviceptr(&all), 1, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, WordsAreWrittenByGraphs) {
  cudaStream_t const stream = makeStream();
  auto* const word = allocateZeros<uint32_t>(1);
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(DRIVER(cuStreamWriteValue32)(stream, CUdeviceptr(word), 9, 0), CUDA_SUCCESS);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_CUDA(cudaStreamEndCapture(stream, &graph));
  ASSERT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  EXPECT_EQ(download(word, 1)[0], 0u);
  EXPECT_CUDA(cudaGraphLaunch(exec, stream));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(download(word, 1)[0], 9u);
}

TEST_F(DriverTest, TensorMapsAreChecked) {
  char* const memory = allocate<char>(1 << 16);
  CUtensorMap map;
  const cuuint64_t size[2] = {64, 64}, stride[1] = {128}, badStride[1] = {120};
  const cuuint32_t box[2] = {32, 8}, bigBox[2] = {257, 8}, ones[2] = {1, 1};
  const auto encode = [&](void* base, cuuint32_t rank, const cuuint64_t* strides,
                          const cuuint32_t* boxes, CUtensorMapSwizzle swizzle) {
    return DRIVER(cuTensorMapEncodeTiled)(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, rank, base, size,
                                          strides, boxes, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                          swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                          CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  const auto none = CU_TENSOR_MAP_SWIZZLE_NONE;
  EXPECT_EQ(encode(memory, 2, stride, box, none), CUDA_SUCCESS);
  EXPECT_EQ(encode(memory + 8, 2, stride, box, none), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(encode(memory, 6, stride, box, none), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(encode(memory, 2, badStride, box, none), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(encode(memory, 2, stride, bigBox, none), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(encode(memory, 2, stride, box, CU_TENSOR_MAP_SWIZZLE_32B), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace tutti::emulation
