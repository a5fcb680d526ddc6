#include "tests/emulation/runtime/call.h"

#include <pthread.h>

#include <utility>

#include "tests/emulation/runtime/device.h"
#include "tests/emulation/runtime/failing_call.h"

namespace tutti::emulation {
namespace {

thread_local cudaError_t lastError = cudaSuccess;
thread_local int hostFunctions = 0;
thread_local FailingCall* failing = nullptr;
std::atomic<bool> isUsed{false}, isForked{false};

/// Held by those who wait in a call.
QuietMutex& waitMutex() {
  static auto* const mutex = new QuietMutex;
  return *mutex;
}
thread_local int lockedWaits = 0;

void watchForks() {
  if (isUsed.exchange(true)) return;
  pthread_atfork(nullptr, nullptr, [] { isForked.store(true); });
}

struct Text {
  cudaError_t error;
  const char* name;
  const char* text;
};
// The runtime's own words.
constexpr Text kTexts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidPitchValue, "cudaErrorInvalidPitchValue", "invalid pitch argument"},
    {cudaErrorInvalidSymbol, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {cudaErrorMissingConfiguration, "cudaErrorMissingConfiguration",
     "__global__ function call is not configured"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorDeviceUninitialized, "cudaErrorDeviceUninitialized", "invalid device context"},
    {cudaErrorMapBufferObjectFailed, "cudaErrorMapBufferObjectFailed",
     "mapping of buffer object failed"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported",
     "peer access is not supported between these two devices"},
    {cudaErrorJitCompilerNotFound, "cudaErrorJitCompilerNotFound",
     "PTX JIT compiler library not found"},
    {cudaErrorFileNotFound, "cudaErrorFileNotFound", "file not found"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {cudaErrorSymbolNotFound, "cudaErrorSymbolNotFound", "named symbol not found"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled",
     "peer access is already enabled"},
    {cudaErrorPeerAccessNotEnabled, "cudaErrorPeerAccessNotEnabled",
     "peer access has not been enabled"},
    {cudaErrorAssert, "cudaErrorAssert", "device-side assert triggered"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorCooperativeLaunchTooLarge, "cudaErrorCooperativeLaunchTooLarge",
     "too many blocks in cooperative launch"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
     "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {cudaErrorGraphExecUpdateFailure, "cudaErrorGraphExecUpdateFailure",
     "the graph update was not performed because it included changes which violated constraints "
     "specific to instantiated graph update"},
    {cudaErrorInvalidClusterSize, "cudaErrorInvalidClusterSize",
     "a kernel launch error has occurred due to cluster misconfiguration"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

const Text* find(cudaError_t error) {
  for (const Text& each : kTexts)
    if (each.error == error) return &each;
  return nullptr;
}

}  // namespace

QuietMutex& runtimeMutex() {
  static auto* const mutex = new QuietMutex;
  return *mutex;
}

LockedWait::LockedWait() {
  if (environment().isWaitingLocked && lockedWaits++ == 0) waitMutex().lock();
}
LockedWait::~LockedWait() {
  if (environment().isWaitingLocked && --lockedWaits == 0) waitMutex().unlock();
}

cudaError_t refuse() {
  watchForks();
  if (isForked.load()) return cudaErrorInitializationError;
  if (hostFunctions > 0) return cudaErrorNotPermitted;
  { const LockedWait turn; }
  return faultOf(currentDevice());
}

FailingCall::FailingCall(int calls, cudaError_t error) : left_(calls), error_(error) {
  failing = this;
}
FailingCall::~FailingCall() { failing = nullptr; }

cudaError_t injected() {
  if (failing == nullptr || failing->hasFailed()) return cudaSuccess;
  return --failing->left_ < 0 ? failing->error_ : cudaSuccess;
}

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) lastError = error;
  return error;
}

InHostFunction::InHostFunction() { ++hostFunctions; }
InHostFunction::~InHostFunction() { --hostFunctions; }

}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

/// Shows by its presence that a program is linked with the stand-in.
int tuttiEmulation();
int tuttiEmulation() { return 1; }

cudaError_t cudaGetLastError() {
  const cudaError_t fault = faultOf(currentDevice());
  const cudaError_t last = std::exchange(lastError, cudaSuccess);
  return fault != cudaSuccess ? fault : last;
}

cudaError_t cudaPeekAtLastError() {
  const cudaError_t fault = faultOf(currentDevice());
  return fault != cudaSuccess ? fault : lastError;
}

const char* cudaGetErrorName(cudaError_t error) {
  const Text* const found = find(error);
  return found == nullptr ? "unrecognized error code" : found->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const Text* const found = find(error);
  return found == nullptr ? "unrecognized error code" : found->text;
}

}  // extern "C"
