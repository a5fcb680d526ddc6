#pragma once

// Streams and what they execute. Each stream has an OS thread of its own, so that work of different
// streams really runs at the same time; what a piece of work must wait for in other streams is
// known when it is enqueued.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "tests/emulation/quiet.h"
#include "tests/emulation/state.h"

namespace tutti::emulation {

constexpr int kLeastPriority = 0, kGreatestPriority = -5;

/// Nodes of stream memory operations, for whose type the runtime has no name.
constexpr auto kBatchMemoryNode = static_cast<cudaGraphNodeType>(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);

/// What a stream executes, or a node of a graph: the same for both. `body` runs without any lock.
struct Task {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  std::function<void()> body;
  bool waits = false;             // what is behind it in its hardware queue waits as well
  cudaEvent_t event = nullptr;    // of the two kinds of event nodes
  cudaKernelNodeParams kernel{};  // without its arguments
  cudaMemsetParams fill{};        // what nodes are asked for, and changed by
  cudaMemcpy3DParms copy{};
  cudaHostNodeParams host{};
  cudaGraph_t child = nullptr;
};
using TaskPointer = std::shared_ptr<const Task>;

/// A task under way: one entry of a stream.
struct Work {
  TaskPointer task;
  std::vector<std::shared_ptr<Work>> after;  // of other streams; it begins when they have ended
  std::shared_ptr<Work> ahead;               // in the hardware queue; it begins when that has begun
  Tag begin, end;                            // edges from who enqueued it, to who waits for it
  std::atomic<uint32_t> begun{0}, done{0};
  double doneAt = 0;  // seconds of the steady clock
};
using WorkPointer = std::shared_ptr<Work>;

struct Capture;

/// By which work gets to a device. Streams share them, those of a priority among themselves.
struct HardwareQueue {
  WorkPointer last;
};

}  // namespace tutti::emulation

struct CUstream_st {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  unsigned long long id = 0;
  bool isLegacy = false;

  std::deque<tutti::emulation::WorkPointer> queue;
  tutti::emulation::WorkPointer last;  // the newest; null before the first
  std::shared_ptr<tutti::emulation::HardwareQueue> hardware;
  tutti::emulation::QuietCondition wake;
  bool hasThread = false, isDestroyed = false;

  std::shared_ptr<tutti::emulation::Capture> capture;
  std::vector<cudaGraphNode_t> frontier;  // of its capture: what the next node depends on
};

namespace tutti::emulation {

// All of these under the runtime's lock, but for wait().

/// The stream of a handle, the two special ones too; cudaErrorInvalidResourceHandle where there is
/// none.
cudaError_t findStream(cudaStream_t handle, cudaStream_t& stream);
/// Those of a device, or of all (-1).
std::vector<cudaStream_t> streamsOf(int device);
cudaStream_t openStream(int device, unsigned flags, int priority);
/// A stream that no handle leads to, for branches of a graph.
cudaStream_t makeHiddenStream(int device);
void releaseStream(cudaStream_t stream);

/// The legacy stream waits for all blocking streams of its device, and they for it.
void addImplicitWaits(cudaStream_t stream, std::vector<WorkPointer>& after);
/// Adds the task at the end of the stream, behind what it must wait for by its place in the stream,
/// by the legacy stream's rules, and `after`.
WorkPointer enqueue(cudaStream_t stream, TaskPointer task, std::vector<WorkPointer> after = {});
/// Until the stream takes more.
void awaitRoom(cudaStream_t stream);
/// The same through a handle; where the stream captures, adds it to the graph instead.
cudaError_t submit(cudaStream_t handle, TaskPointer task);
TaskPointer makeTask(cudaGraphNodeType type, std::function<void()> body);
/// Of stream memory operations, one of which may wait for a word.
TaskPointer makeWaitingTask(std::function<void()> body);

/// The newest work of each stream of the device.
std::vector<WorkPointer> lastOf(int device);

/// Waits until it is done. Without `edge` ThreadSanitizer learns nothing of it, for waits that CUDA
/// does not promise.
void wait(Work& work, bool edge = true);
inline bool isDone(const WorkPointer& work) { return work == nullptr || work->done.load() != 0; }

}  // namespace tutti::emulation
