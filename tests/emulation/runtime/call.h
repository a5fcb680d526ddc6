#pragma once

// What every function of the stand-in begins and ends with: who may call, one lock over all of the
// runtime's tables, and the error that cudaGetLastError() returns.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <mutex>

#include "tests/emulation/quiet.h"
#include "tests/emulation/sanitizers.h"

namespace tutti::emulation {

/// Over all tables of the stand-in. Nothing waits for work, and no user's code runs, under it.
QuietMutex& runtimeMutex();

/// Makes the context of the current device this thread's, as every call of the runtime does.
void attachContext();

/// The reason why this thread may not call CUDA now: it runs a host function of a stream, it is the
/// child of a fork, or a kernel has faulted on its device.
cudaError_t refuse();
/// The error of this call, where a FailingCall has it fail.
cudaError_t injected();
/// With TUTTI_EMULATION_LOCKED_WAITS=1, while one lives, calls of other threads wait: this one
/// waits for work in a call that CUDA's own lock is held in.
class LockedWait {
 public:
  LockedWait();
  ~LockedWait();
  LockedWait(const LockedWait&) = delete;
  LockedWait& operator=(const LockedWait&) = delete;
};
/// Keeps an error for cudaGetLastError().
cudaError_t remember(cudaError_t error);

/// While one lives, this thread runs a host function of a stream, which may not call CUDA.
class InHostFunction {
 public:
  InHostFunction();
  ~InHostFunction();
  InHostFunction(const InHostFunction&) = delete;
  InHostFunction& operator=(const InHostFunction&) = delete;
};

/// Runs `body` of a runtime function under the lock, unseen by ThreadSanitizer.
template <class Body>
cudaError_t locked(Body body) {
  Ignored ignored;
  std::lock_guard lock(runtimeMutex());
  return body();
}
template <class Body>
cudaError_t unfailingCall(Body body) {
  const cudaError_t refused = refuse();
  attachContext();
  return remember(refused != cudaSuccess ? refused : locked(body));
}
/// The same of all that a FailingCall counts.
template <class Body>
cudaError_t call(Body body) {
  const cudaError_t error = injected();
  return error != cudaSuccess ? remember(error) : unfailingCall(body);
}

/// The same of a driver function; the two kinds of errors have the same numbers.
template <class Body>
CUresult driverCall(Body body) {
  cudaError_t refused = refuse();
  if (refused == cudaSuccess) refused = injected();
  if (refused != cudaSuccess) return static_cast<CUresult>(refused);
  Ignored ignored;
  std::lock_guard lock(runtimeMutex());
  return static_cast<CUresult>(body());
}

}  // namespace tutti::emulation
