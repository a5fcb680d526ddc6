// Stream capture: what is recorded, what is refused meanwhile, and how it ends.

#include "tests/emulation/runtime/capture.h"

#include <algorithm>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/device.h"
#include "tests/emulation/runtime/graph.h"

namespace tutti::emulation {
namespace {

thread_local cudaStreamCaptureMode threadMode = cudaStreamCaptureModeGlobal;

std::vector<CapturePointer>& captures() {
  static auto* const all = new std::vector<CapturePointer>;
  return *all;
}

void join(cudaStream_t stream, const CapturePointer& capture) {
  stream->capture = capture;
  capture->streams.push_back(stream);
}

/// All its streams stop capturing.
void endCapture(const CapturePointer& capture) {
  for (cudaStream_t stream : capture->streams) {
    stream->capture = nullptr;
    stream->frontier.clear();
  }
  std::erase(captures(), capture);
}

bool isOver(const Capture& capture) {
  return std::none_of(captures().begin(), captures().end(),
                      [&](const CapturePointer& each) { return each.get() == &capture; });
}

void addUnique(std::vector<cudaGraphNode_t>& to, const std::vector<cudaGraphNode_t>& nodes) {
  for (cudaGraphNode_t node : nodes)
    if (std::find(to.begin(), to.end(), node) == to.end()) to.push_back(node);
}

/// Whether all that was captured is before the end of the origin stream. What was added to the
/// graph by its nodes need not be.
bool isJoined(const Capture& capture) {
  std::vector<cudaGraphNode_t> reached = capture.origin->frontier;
  for (size_t i = 0; i < reached.size(); ++i) addUnique(reached, reached[i]->after);
  return std::all_of(
      capture.graph->nodes.begin(), capture.graph->nodes.end(), [&](const auto& node) {
        return node->capture != capture.id ||
               std::find(reached.begin(), reached.end(), node.get()) != reached.end();
      });
}

}  // namespace

cudaError_t captureTask(cudaStream_t stream, TaskPointer task) {
  Capture& capture = *stream->capture;
  if (capture.isInvalid) return cudaErrorStreamCaptureInvalidated;
  stream->frontier = {addNode(capture.graph, std::move(task), stream->frontier)};
  stream->frontier[0]->capture = capture.id;
  return cudaSuccess;
}

cudaError_t captureWait(cudaStream_t stream, const CapturePointer& capture,
                        const std::vector<cudaGraphNode_t>& frontier) {
  if (stream->isLegacy) {
    capture->isInvalid = true;
    return cudaErrorStreamCaptureImplicit;
  }
  if (isOver(*capture)) return cudaErrorInvalidValue;
  if (capture->isInvalid) return cudaErrorStreamCaptureInvalidated;
  if (stream->capture != nullptr && stream->capture != capture) {
    capture->isInvalid = stream->capture->isInvalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  if (stream->capture == nullptr) join(stream, capture);
  addUnique(stream->frontier, frontier);
  return cudaSuccess;
}

cudaError_t refuseIsolated(cudaStream_t stream) {
  if (stream->capture->isInvalid) return cudaErrorStreamCaptureInvalidated;
  stream->capture->isInvalid = true;
  return cudaErrorStreamCaptureIsolation;
}

cudaError_t refuseImplicit(cudaStream_t stream) {
  if (!stream->isLegacy) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  for (cudaStream_t other : streamsOf(stream->device))
    if (other->capture != nullptr && (other->flags & cudaStreamNonBlocking) == 0) {
      other->capture->isInvalid = true;
      error = cudaErrorStreamCaptureImplicit;
    }
  return error;
}

cudaError_t refuseWaiting(cudaStream_t stream) {
  if (stream->capture == nullptr) return refuseImplicit(stream);
  stream->capture->isInvalid = true;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t refuseDeviceWait(int device) {
  cudaError_t error = cudaSuccess;
  for (cudaStream_t stream : streamsOf(device))
    if (stream->capture != nullptr) {
      stream->capture->isInvalid = true;
      error = cudaErrorStreamCaptureUnsupported;
    }
  return error;
}

cudaError_t refuseAsking(Capture& capture) {
  if (capture.isInvalid || isOver(capture)) return cudaErrorInvalidValue;
  capture.isInvalid = true;
  return cudaErrorCapturedEvent;
}

cudaError_t refuseUnsafe() {
  if (threadMode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  for (const CapturePointer& capture : captures()) {
    const bool isMine = capture->thread == std::this_thread::get_id() &&
                        capture->mode != cudaStreamCaptureModeRelaxed;
    const bool isOfAll =
        capture->mode == cudaStreamCaptureModeGlobal && threadMode == cudaStreamCaptureModeGlobal;
    if (!isMine && !isOfAll) continue;
    capture->isInvalid = true;
    error = cudaErrorStreamCaptureUnsupported;
  }
  return error;
}

void leaveCapture(cudaStream_t stream) {
  if (stream->capture == nullptr) return;
  const CapturePointer capture = stream->capture;
  capture->isInvalid = true;
  std::erase(capture->streams, stream);
  stream->capture = nullptr;
  if (capture->origin != stream) return;
  endCapture(capture);
  if (!capture->isGraphGiven) dropGraph(capture->graph);
}

}  // namespace tutti::emulation

using namespace tutti::emulation;

namespace {

/// Whatever is wrong, but that it began on another stream: it ends.
cudaError_t end(cudaStream_t stream, cudaGraph_t* to) {
  const CapturePointer capture = stream->capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->origin != stream) {
    capture->isInvalid = true;
    return cudaErrorStreamCaptureUnmatched;
  }
  cudaError_t error = cudaSuccess;
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id())
    error = cudaErrorStreamCaptureWrongThread;
  else if (capture->isInvalid)
    error = cudaErrorStreamCaptureInvalidated;
  else if (!isJoined(*capture))
    error = cudaErrorStreamCaptureUnjoined;
  endCapture(capture);
  *to = capture->graph;
  if (error != cudaSuccess) {
    if (!capture->isGraphGiven) dropGraph(capture->graph);
    *to = nullptr;
  }
  return error;
}

/// Into `graph`, or null for a new one.
cudaError_t begin(cudaStream_t handle, cudaStreamCaptureMode mode, cudaGraph_t graph,
                  std::vector<cudaGraphNode_t> frontier) {
  static unsigned long long ids = 0;
  cudaStream_t stream = nullptr;
  if (const cudaError_t bad = findStream(handle, stream); bad != cudaSuccess) return bad;
  if (mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed)
    return cudaErrorInvalidValue;
  if (stream->isLegacy) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->isGraphGiven = graph != nullptr;
  capture->graph = graph != nullptr ? graph : makeGraph();
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->id = ++ids;
  captures().push_back(capture);
  join(stream, capture);
  stream->frontier = std::move(frontier);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return call([&] { return begin(handle, mode, nullptr, {}); });
}

/// What is captured comes behind nodes that the graph has.
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t handle, cudaGraph_t graph,
                                          const cudaGraphNode_t* after, const cudaGraphEdgeData*,
                                          size_t count, cudaStreamCaptureMode mode) {
  return call([&] {
    if (!isGraph(graph) || !areNodesOf(graph, after, count)) return cudaErrorInvalidValue;
    return begin(handle, mode, graph, {after, after + count});
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* to) {
  return call([&] {
    cudaStream_t stream = nullptr;
    if (to == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t bad = findStream(handle, stream); bad != cudaSuccess) return bad;
    return end(stream, to);
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(handle, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** after, const cudaGraphEdgeData** edges,
                                     size_t* afterCount) {
  return call([&] {
    cudaStream_t stream = nullptr;
    if (status == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t bad = findStream(handle, stream); bad != cudaSuccess) return bad;
    if (const cudaError_t bad = refuseImplicit(stream); bad != cudaSuccess) return bad;
    *status = stream->capture == nullptr   ? cudaStreamCaptureStatusNone
              : stream->capture->isInvalid ? cudaStreamCaptureStatusInvalidated
                                           : cudaStreamCaptureStatusActive;
    if (*status != cudaStreamCaptureStatusActive) return cudaSuccess;
    if (id != nullptr) *id = stream->capture->id;
    if (graph != nullptr) *graph = stream->capture->graph;
    if (after != nullptr) *after = stream->frontier.data();
    if (edges != nullptr) *edges = nullptr;
    if (afterCount != nullptr) *afterCount = stream->frontier.size();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t handle, cudaGraphNode_t* nodes,
                                                const cudaGraphEdgeData*, size_t count,
                                                unsigned flags) {
  return call([&] {
    cudaStream_t stream = nullptr;
    if (const cudaError_t bad = findStream(handle, stream); bad != cudaSuccess) return bad;
    if (stream->capture == nullptr) return cudaErrorIllegalState;
    if (stream->capture->isInvalid) return cudaErrorStreamCaptureInvalidated;
    if (count > 0 && nodes == nullptr) return cudaErrorInvalidValue;
    if (flags == cudaStreamSetCaptureDependencies)
      stream->frontier.clear();
    else if (flags != cudaStreamAddCaptureDependencies)
      return cudaErrorInvalidValue;
    addUnique(stream->frontier, {nodes, nodes + count});
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return unfailingCall([&] {
    if (mode == nullptr || *mode < cudaStreamCaptureModeGlobal ||
        *mode > cudaStreamCaptureModeRelaxed)
      return cudaErrorInvalidValue;
    std::swap(*mode, threadMode);
    return cudaSuccess;
  });
}

}  // extern "C"
