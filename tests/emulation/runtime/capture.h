#pragma once

// Capture of streams into graphs. A capture begins on one stream; others join it by waiting for an
// event that was recorded in it, and must be joined back before its end.

#include <thread>

#include "tests/emulation/runtime/stream.h"

namespace tutti::emulation {

struct Capture {
  cudaGraph_t graph = nullptr;
  cudaStream_t origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  unsigned long long id = 0;
  bool isInvalid = false, isGraphGiven = false;
  std::vector<cudaStream_t> streams;  // the origin too
};
using CapturePointer = std::shared_ptr<Capture>;

// All of these under the runtime's lock.

/// Adds a node behind those that the stream's last one was.
cudaError_t captureTask(cudaStream_t stream, TaskPointer task);
/// The stream waits for an event that `capture` recorded behind `frontier`: it joins that capture.
cudaError_t captureWait(cudaStream_t stream, const CapturePointer& capture,
                        const std::vector<cudaGraphNode_t>& frontier);
/// A wait of a capturing stream for what is no part of its capture.
cudaError_t refuseIsolated(cudaStream_t stream);

/// Work in the legacy stream would wait for a blocking stream that captures.
cudaError_t refuseImplicit(cudaStream_t stream);
/// Nothing runs in a capturing stream that one could wait for or ask about.
cudaError_t refuseWaiting(cudaStream_t stream);
cudaError_t refuseDeviceWait(int device);
/// To ask for an event that was recorded in a capture, or to wait for it, ends the capture,
/// whatever its mode. Once it has ended, or has failed, the event is of nothing.
cudaError_t refuseAsking(Capture& capture);
/// For calls that are unsafe while a capture is under way, as the modes of the captures and of this
/// thread say: those that allocate, wait, or work in the legacy stream behind the caller's back.
cudaError_t refuseUnsafe();

/// The stream is destroyed: its capture, if any, can end no more.
void leaveCapture(cudaStream_t stream);

}  // namespace tutti::emulation
