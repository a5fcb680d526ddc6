#pragma once

// For tests of what is done where CUDA refuses a call.

#include <cuda_runtime_api.h>

namespace tutti::emulation {

/// While it lives, one call that its thread makes does nothing and returns `error`: the one after
/// `calls` others. What frees, destroys or puts back never fails by it, and is not counted.
class FailingCall {
 public:
  FailingCall(int calls, cudaError_t error);
  ~FailingCall();
  FailingCall(const FailingCall&) = delete;
  FailingCall& operator=(const FailingCall&) = delete;
  bool hasFailed() const { return left_ < 0; }

 private:
  friend cudaError_t injected();
  int left_;  // calls before it; -1: it has failed
  const cudaError_t error_;
};

}  // namespace tutti::emulation
