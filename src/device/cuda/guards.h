#pragma once

// What a call changes of its thread's CUDA state, and puts back.

#include <cuda_runtime_api.h>

#include "src/device/cuda/check.h"

namespace tutti::device {

/// Makes a device current for as long as it lives. CUDA makes the context of a device that becomes
/// current, that of the caller's own device too when it comes back: a program that uses one GPU
/// makes it current before it makes streams or memory there, and nothing is switched.
class OnDevice {
 public:
  explicit OnDevice(int device) : device_(device) {
    cudaGetDevice(&before_);  // says so also when that device has a fault
    if (before_ == device_) return;
    try {
      TUTTI_CUDA(cudaSetDevice(device_));
    } catch (...) {
      putBack();  // a device with a fault becomes current, and says so
      throw;
    }
  }
  ~OnDevice() { putBack(); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  void putBack() const {
    if (before_ != device_ && before_ >= 0) cudaSetDevice(before_);
  }

  const int device_;
  int before_ = -1;
};

/// While it lives this thread may do what is no part of a capture (allocate, free, wait for other
/// streams) although it, or another thread in global mode, is capturing a stream.
class OutsideCapture {
 public:
  OutsideCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~OutsideCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  OutsideCapture(const OutsideCapture&) = delete;
  OutsideCapture& operator=(const OutsideCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

inline bool isCapturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  TUTTI_CUDA(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace tutti::device
