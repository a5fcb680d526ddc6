// Streams: their threads, their order and that of the legacy stream.

#include "tests/emulation/runtime/stream.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "tests/emulation/environment.h"
#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/capture.h"
#include "tests/emulation/runtime/device.h"

namespace tutti::emulation {
namespace {

std::vector<cudaStream_t>& streams() {
  static auto* const all = new std::vector<cudaStream_t>;
  return *all;
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void markBegun(Work& work) {
  work.begun.store(1);
  wakeAll(work.begun);
}

void complete(Work& work) {
  work.doneAt = seconds();
  release(&work.end);
  work.done.store(1);
  wakeAll(work.done);
}

/// What ThreadSanitizer is to see of a stream: the edges of each task, and what its body does.
void execute(Work& work) {
  for (const WorkPointer& before : work.after) wait(*before);
  while (work.ahead != nullptr && work.ahead->begun.load() == 0) sleepWhile(work.ahead->begun, 0);
  if (!work.task->waits) markBegun(work);
  acquire(&work.begin);
  if (work.task->body) work.task->body();
  if (work.task->waits) markBegun(work);
  {
    Ignored ignored;
    std::lock_guard lock(runtimeMutex());
    work.after.clear();
    work.ahead.reset();
    work.task.reset();
  }
  complete(work);
}

/// The next work of the stream; null when it is destroyed and has none left.
WorkPointer next(cudaStream_t stream) {
  Ignored ignored;
  std::lock_guard lock(runtimeMutex());
  while (stream->queue.empty() && !stream->isDestroyed) stream->wake.wait(runtimeMutex());
  if (stream->queue.empty()) return nullptr;
  WorkPointer work = std::move(stream->queue.front());
  stream->queue.pop_front();
  if (environment().pending != 0) stream->wake.notifyAll();
  return work;
}

void serve(cudaStream_t stream) {
  setCurrentDevice(stream->device);
  while (WorkPointer work = next(stream)) {
    execute(*work);
    Ignored ignored;
    work.reset();
  }
  Ignored ignored;
  std::lock_guard lock(runtimeMutex());
  std::erase(streams(), stream);
  delete stream;
}

/// The queues of a device and priority in turn.
std::shared_ptr<HardwareQueue> nextQueue(int device, int priority) {
  struct Queues {
    std::vector<std::shared_ptr<HardwareQueue>> all;
    size_t next = 0;
  };
  static auto* const queues = new std::map<std::pair<int, int>, Queues>;
  Queues& mine = (*queues)[{device, priority}];
  if (mine.all.size() < environment().connections)
    mine.all.push_back(std::make_shared<HardwareQueue>());
  return mine.all[mine.next++ % environment().connections];
}

cudaStream_t makeStream(int device, unsigned flags, int priority) {
  static unsigned long long ids = 0;
  auto* const stream = new CUstream_st;
  stream->device = device;
  stream->flags = flags;
  stream->priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
  stream->id = ++ids;
  stream->hardware = nextQueue(device, stream->priority);
  deviceAt(device).isActive = true;
  return stream;
}

cudaStream_t legacyOf(int device) {
  cudaStream_t& legacy = deviceAt(device).legacy;
  if (legacy == nullptr) {
    legacy = makeStream(device, cudaStreamDefault, 0);
    legacy->isLegacy = true;
    streams().push_back(legacy);
  }
  return legacy;
}

/// The per-thread default streams of one host thread.
struct ThreadStreams {
  std::map<int, cudaStream_t> byDevice;
  ~ThreadStreams() {
    Ignored ignored;
    std::lock_guard lock(runtimeMutex());
    for (const auto& [device, stream] : byDevice) releaseStream(stream);
  }
};

cudaStream_t perThread(int device) {
  static thread_local ThreadStreams mine;
  cudaStream_t& stream = mine.byDevice[device];
  if (stream == nullptr) streams().push_back(stream = makeStream(device, cudaStreamDefault, 0));
  return stream;
}

}  // namespace

void addImplicitWaits(cudaStream_t stream, std::vector<WorkPointer>& after) {
  if (!stream->isLegacy && (stream->flags & cudaStreamNonBlocking) != 0) return;
  for (cudaStream_t other : streams()) {
    const bool isBlocking = (other->flags & cudaStreamNonBlocking) == 0;
    const bool matters = stream->isLegacy ? isBlocking : other->isLegacy;
    // Also those that are done: their edge is still to be told.
    if (other != stream && other->device == stream->device && matters && other->last != nullptr)
      after.push_back(other->last);
  }
}

cudaStream_t openStream(int device, unsigned flags, int priority) {
  streams().push_back(makeStream(device, flags, priority));
  return streams().back();
}

cudaError_t findStream(cudaStream_t handle, cudaStream_t& stream) {
  if (handle == nullptr || handle == cudaStreamLegacy) {
    stream = legacyOf(currentDevice());
  } else if (handle == cudaStreamPerThread) {
    stream = perThread(currentDevice());
  } else {
    const auto at = std::find(streams().begin(), streams().end(), handle);
    if (at == streams().end() || handle->isDestroyed) return cudaErrorInvalidResourceHandle;
    stream = handle;
  }
  return cudaSuccess;
}

std::vector<cudaStream_t> streamsOf(int device) {
  std::vector<cudaStream_t> found;
  for (cudaStream_t stream : streams())
    if (device < 0 || stream->device == device) found.push_back(stream);
  return found;
}

cudaStream_t makeHiddenStream(int device) { return makeStream(device, cudaStreamNonBlocking, 0); }

void releaseStream(cudaStream_t stream) {
  stream->isDestroyed = true;  // and still waited for by the device, until its work is done
  if (stream->hasThread) {
    stream->wake.notifyAll();
  } else {
    std::erase(streams(), stream);
    delete stream;
  }
}

WorkPointer enqueue(cudaStream_t stream, TaskPointer task, std::vector<WorkPointer> after) {
  auto work = std::make_shared<Work>();
  work->task = std::move(task);
  addImplicitWaits(stream, after);
  work->after = std::move(after);
  release(&work->begin);
  work->ahead = std::exchange(stream->hardware->last, work);
  stream->queue.push_back(work);
  stream->last = work;
  if (!stream->hasThread) {
    stream->hasThread = true;
    std::thread(serve, stream).detach();
  }
  stream->wake.notifyAll();
  return work;
}

void awaitRoom(cudaStream_t stream) {
  const uint64_t most = environment().pending;
  while (most != 0 && stream->queue.size() >= most) stream->wake.wait(runtimeMutex());
}

cudaError_t submit(cudaStream_t handle, TaskPointer task) {
  cudaStream_t stream = nullptr;
  if (const cudaError_t error = findStream(handle, stream); error != cudaSuccess) return error;
  if (stream->capture != nullptr) return captureTask(stream, std::move(task));
  if (const cudaError_t error = refuseImplicit(stream); error != cudaSuccess) return error;
  awaitRoom(stream);
  enqueue(stream, std::move(task));
  return cudaSuccess;
}

TaskPointer makeTask(cudaGraphNodeType type, std::function<void()> body) {
  auto task = std::make_shared<Task>();
  task->type = type;
  task->body = std::move(body);
  return task;
}

// A graph's type for it is none of the runtime's; nobody asks.
TaskPointer makeWaitingTask(std::function<void()> body) {
  auto task = std::make_shared<Task>();
  task->type = kBatchMemoryNode;
  task->body = std::move(body);
  task->waits = true;
  return task;
}

std::vector<WorkPointer> lastOf(int device) {
  std::vector<WorkPointer> all;
  for (cudaStream_t stream : streamsOf(device))
    if (stream->last != nullptr) all.push_back(stream->last);
  return all;
}

void wait(Work& work, bool edge) {
  while (work.done.load() == 0) sleepWhile(work.done, 0);
  if (edge) acquire(&work.end);
}

}  // namespace tutti::emulation
