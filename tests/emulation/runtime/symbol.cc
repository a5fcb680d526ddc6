// Variables of device memory by their symbols in the host's code.

#include <cuda_runtime_api.h>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/device.h"
#include "tests/emulation/runtime/memory/memory.h"
#include "tests/emulation/runtime/registration.h"

namespace tutti::emulation {
namespace {

/// Where the variable is on the current device.
cudaError_t addressOf(const void* symbol, size_t offset, size_t bytes, char*& to) {
  Variable* const variable = findVariable(symbol);
  if (variable == nullptr) return cudaErrorInvalidSymbol;
  if (offset > variable->bytes || bytes > variable->bytes - offset) return cudaErrorInvalidValue;
  const auto [at, isNew] = variable->memory.try_emplace(currentDevice(), nullptr);
  if (isNew) {
    const cudaError_t bad = allocateOn(currentDevice(), variable->bytes, at->second);
    if (bad != cudaSuccess) return variable->memory.erase(at), bad;
  }
  to = static_cast<char*>(at->second) + offset;
  return cudaSuccess;
}

/// The address of what is copied to or from a variable, where the kind of the copy allows it.
cudaError_t askForCopy(const void* symbol, size_t offset, size_t bytes, cudaMemcpyKind kind,
                       cudaMemcpyKind other, char*& to) {
  return call([&] {
    if (kind != other && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault)
      return cudaErrorInvalidMemcpyDirection;
    return addressOf(symbol, offset, bytes, to);
  });
}

}  // namespace
}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

cudaError_t cudaGetSymbolAddress(void** to, const void* symbol) {
  return call([&] {
    char* address = nullptr;
    if (to == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t bad = addressOf(symbol, 0, 0, address); bad != cudaSuccess) return bad;
    *to = address;
    return cudaSuccess;
  });
}

cudaError_t cudaGetSymbolSize(size_t* to, const void* symbol) {
  return call([&] {
    const Variable* const variable = findVariable(symbol);
    if (to == nullptr) return cudaErrorInvalidValue;
    if (variable == nullptr) return cudaErrorInvalidSymbol;
    *to = variable->bytes;
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
  char* to = nullptr;
  const cudaError_t bad = askForCopy(symbol, offset, bytes, kind, cudaMemcpyHostToDevice, to);
  return bad != cudaSuccess ? bad : cudaMemcpy(to, from, bytes, kind);
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes,
                                    size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  char* to = nullptr;
  const cudaError_t bad = askForCopy(symbol, offset, bytes, kind, cudaMemcpyHostToDevice, to);
  return bad != cudaSuccess ? bad : cudaMemcpyAsync(to, from, bytes, kind, stream);
}

cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind) {
  char* from = nullptr;
  const cudaError_t bad = askForCopy(symbol, offset, bytes, kind, cudaMemcpyDeviceToHost, from);
  return bad != cudaSuccess ? bad : cudaMemcpy(to, from, bytes, kind);
}

cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  char* from = nullptr;
  const cudaError_t bad = askForCopy(symbol, offset, bytes, kind, cudaMemcpyDeviceToHost, from);
  return bad != cudaSuccess ? bad : cudaMemcpyAsync(to, from, bytes, kind, stream);
}

}  // extern "C"
