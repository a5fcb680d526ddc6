// Functions of the host in the order of a stream, which may not call CUDA.

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/capture.h"
#include "tests/emulation/runtime/copy.h"
#include "tests/emulation/runtime/device.h"

namespace tutti::emulation {

cudaError_t makeHostTask(const cudaHostNodeParams* host, TaskPointer& task) {
  if (host == nullptr || host->fn == nullptr) return cudaErrorInvalidValue;
  auto made = std::make_shared<Task>();
  made->type = cudaGraphNodeTypeHost;
  made->host = *host;
  made->body = [call = *host] {
    const InHostFunction inHostFunction;
    call.fn(call.userData);
  };
  task = made;
  return cudaSuccess;
}

}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return call([&]() -> cudaError_t {
    const cudaHostNodeParams host{function, data};
    TaskPointer task;
    if (const cudaError_t bad = makeHostTask(&host, task); bad != cudaSuccess) return bad;
    return submit(stream, task);
  });
}

/// The older way, which cannot be captured.
cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t function, void* data,
                                  unsigned flags) {
  return call([&]() -> cudaError_t {
    cudaStream_t stream = nullptr;
    if (function == nullptr || flags != 0) return cudaErrorInvalidValue;
    if (const cudaError_t bad = findStream(handle, stream); bad != cudaSuccess) return bad;
    if (stream->capture != nullptr) return refuseWaiting(stream);
    return submit(handle, makeTask(cudaGraphNodeTypeHost, [handle, function, data, stream] {
                    const InHostFunction inHostFunction;
                    function(handle, faultOf(stream->device), data);
                  }));
  });
}

}  // extern "C"
