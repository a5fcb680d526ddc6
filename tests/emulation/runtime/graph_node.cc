// Nodes of any kind by one function, and what graphs have that emulated ones lack.

#include <cuda_runtime_api.h>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/device.h"
#include "tests/emulation/runtime/graph.h"

using namespace tutti::emulation;

extern "C" {

/// Edges of any kind order the whole of two nodes, as launches of one stream do.
cudaError_t cudaGraphAddNode(cudaGraphNode_t* to, cudaGraph_t graph, const cudaGraphNode_t* after,
                             const cudaGraphEdgeData*, size_t count, cudaGraphNodeParams* params) {
  if (params == nullptr) return remember(cudaErrorInvalidValue);
  switch (params->type) {
    case cudaGraphNodeTypeEmpty: return cudaGraphAddEmptyNode(to, graph, after, count);
    case cudaGraphNodeTypeKernel: {
      cudaKernelNodeParams kernel{};
      kernel.func = params->kernel.func;
      kernel.gridDim = params->kernel.gridDim;
      kernel.blockDim = params->kernel.blockDim;
      kernel.sharedMemBytes = params->kernel.sharedMemBytes;
      kernel.kernelParams = params->kernel.kernelParams;
      kernel.extra = params->kernel.extra;
      return cudaGraphAddKernelNode(to, graph, after, count, &kernel);
    }
    case cudaGraphNodeTypeMemcpy:
      return cudaGraphAddMemcpyNode(to, graph, after, count, &params->memcpy.copyParams);
    case cudaGraphNodeTypeMemset: {
      const cudaMemsetParamsV2& from = params->memset;
      const cudaMemsetParams fill{from.dst,         from.pitch, from.value,
                                  from.elementSize, from.width, from.height};
      return cudaGraphAddMemsetNode(to, graph, after, count, &fill);
    }
    case cudaGraphNodeTypeHost: {
      const cudaHostNodeParams host{params->host.fn, params->host.userData};
      return cudaGraphAddHostNode(to, graph, after, count, &host);
    }
    case cudaGraphNodeTypeGraph:
      return cudaGraphAddChildGraphNode(to, graph, after, count, params->graph.graph);
    case cudaGraphNodeTypeWaitEvent:
      return cudaGraphAddEventWaitNode(to, graph, after, count, params->eventWait.event);
    case cudaGraphNodeTypeEventRecord:
      return cudaGraphAddEventRecordNode(to, graph, after, count, params->eventRecord.event);
    case cudaGraphNodeTypeExtSemaphoreSignal:
    case cudaGraphNodeTypeExtSemaphoreWait:
    case cudaGraphNodeTypeMemAlloc:
    case cudaGraphNodeTypeMemFree:
    case cudaGraphNodeTypeConditional: return remember(cudaErrorNotSupported);
    default: return remember(cudaErrorInvalidValue);
  }
}

cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* to, cudaGraph_t graph,
                                             unsigned, unsigned flags) {
  return call([&] {
    if (to == nullptr || !isGraph(graph) || (flags & ~unsigned(cudaGraphCondAssignDefault)) != 0)
      return cudaErrorInvalidValue;
    return cudaErrorNotSupported;
  });
}

/// No node of a graph allocates, so that graphs hold no memory.
cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType which, void* to) {
  return call([&] {
    if (to == nullptr || which < cudaGraphMemAttrUsedMemCurrent ||
        which > cudaGraphMemAttrReservedMemHigh)
      return cudaErrorInvalidValue;
    if (!isDevice(device)) return cudaErrorInvalidDevice;
    *static_cast<cuuint64_t*>(to) = 0;
    return cudaSuccess;
  });
}

/// Only the high marks may be set, to zero.
cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType which, void* to) {
  return call([&] {
    const bool isMark =
        which == cudaGraphMemAttrUsedMemHigh || which == cudaGraphMemAttrReservedMemHigh;
    if (to == nullptr || !isMark || *static_cast<cuuint64_t*>(to) != 0)
      return cudaErrorInvalidValue;
    return isDevice(device) ? cudaSuccess : cudaErrorInvalidDevice;
  });
}

cudaError_t cudaDeviceGraphMemTrim(int device) {
  return call([&] { return isDevice(device) ? cudaSuccess : cudaErrorInvalidDevice; });
}

}  // extern "C"
