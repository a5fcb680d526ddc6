// Fills, of bytes and of wider elements.

#include <cuda.h>

#include <cstring>

#include "tests/emulation/emulation.h"
#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/capture.h"
#include "tests/emulation/runtime/copy.h"

namespace tutti::emulation {
namespace {

void fillRow(char* row, size_t count, unsigned elementBytes, unsigned value) {
  touchWrite(row, count * elementBytes, "cudaMemset");
  if (elementBytes == 1) {
    std::memset(row, static_cast<int>(value), count);
  } else {
    for (size_t i = 0; i < count; ++i) std::memcpy(row + i * elementBytes, &value, elementBytes);
  }
}

cudaMemsetParams plainFill(void* to, unsigned value, unsigned elementBytes, size_t count) {
  cudaMemsetParams fill{};
  fill.dst = to;
  fill.pitch = count * elementBytes;
  fill.value = value;
  fill.elementSize = elementBytes;
  fill.width = count;
  fill.height = 1;
  return fill;
}

/// Asynchronous also where its name does not say so, but for pinned memory of the host.
cudaError_t run(const cudaMemsetParams& fill, const Order& order) {
  std::vector<WorkPointer> all;
  const cudaError_t error = call([&]() -> cudaError_t {
    cudaStream_t stream = nullptr;
    TaskPointer task;
    if (const cudaError_t bad = findStream(order.stream, stream); bad != cudaSuccess) return bad;
    if (!order.isAsync) {
      if (const cudaError_t bad = refuseImplicit(stream); bad != cudaSuccess) return bad;
      if (const cudaError_t bad = refuseUnsafe(); bad != cudaSuccess) return bad;
    }
    if (const cudaError_t bad = makeFillTask(&fill, task); bad != cudaSuccess) return bad;
    if (fill.width == 0 || fill.height == 0) return cudaSuccess;
    if (const cudaError_t bad = submit(order.stream, task); bad != cudaSuccess) return bad;
    if (!order.isAsync && !isDeviceMemory(fill.dst)) all.push_back(stream->last);
    return cudaSuccess;
  });
  if (error != cudaSuccess) return error;
  for (const WorkPointer& work : all) wait(*work);
  return cudaSuccess;
}

}  // namespace

cudaError_t makeFillTask(const cudaMemsetParams* given, TaskPointer& task) {
  if (given == nullptr) return cudaErrorInvalidValue;
  const cudaMemsetParams fill = *given;
  const unsigned unit = fill.elementSize;
  if (unit != 1 && unit != 2 && unit != 4) return cudaErrorInvalidValue;
  if (reinterpret_cast<uintptr_t>(fill.dst) % unit != 0) return cudaErrorInvalidValue;
  const cudaExtent extent{fill.width * unit, fill.height, 1};
  const Rows rows{static_cast<char*>(fill.dst), fill.pitch, 0};
  if (fill.height > 1 && fill.pitch < extent.width) return cudaErrorInvalidPitchValue;
  if (!isEmpty(extent) && !isRight(rows, extent, Side::Device)) return cudaErrorInvalidValue;
  auto made = std::make_shared<Task>();
  made->type = cudaGraphNodeTypeMemset;
  made->fill = fill;
  made->body = [fill, rows, extent, unit] {
    forRows(rows, extent, [&](char* row) { fillRow(row, fill.width, unit, fill.value); });
  };
  task = made;
  return cudaSuccess;
}

}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return run(plainFill(to, unsigned(value), 1, bytes), {.isAsync = false});
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return run(plainFill(to, unsigned(value), 1, bytes), {.stream = stream});
}
cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return cudaMemset2DAsync(to, pitch, value, width, height, nullptr);
}
cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  cudaMemsetParams fill = plainFill(to, unsigned(value), 1, width);
  fill.pitch = pitch;
  fill.height = height;
  return run(fill, {.stream = stream});
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return static_cast<CUresult>(
      run(plainFill(reinterpret_cast<void*>(to), value, 4, count), {.stream = stream}));
}
CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) {
  return static_cast<CUresult>(
      run(plainFill(reinterpret_cast<void*>(to), value, 4, count), {.isAsync = false}));
}

}  // extern "C"
