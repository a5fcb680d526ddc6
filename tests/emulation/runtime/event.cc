// Events: recorded in a stream, waited for by streams and hosts, also of other processes.

#include "tests/emulation/runtime/event.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/capture.h"
#include "tests/emulation/runtime/device.h"
#include "tests/emulation/runtime/foreign.h"
#include "tests/emulation/runtime/memory/allocating_calls.h"

namespace tutti::emulation {
namespace {

std::vector<cudaEvent_t>& events() {
  static auto* const all = new std::vector<cudaEvent_t>;
  return *all;
}

cudaError_t check(cudaEvent_t event) {
  const auto at = std::find(events().begin(), events().end(), event);
  return at == events().end() ? cudaErrorInvalidResourceHandle : cudaSuccess;
}

constexpr unsigned kKnownFlags =
    cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;

/// Counts of records, which processes share.
std::shared_ptr<SharedRecords> mapRecords(int file) {
  void* const page =
      mmap(nullptr, sizeof(SharedRecords), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (page == MAP_FAILED) return nullptr;
  return {static_cast<SharedRecords*>(page),
          [](SharedRecords* records) { munmap(records, sizeof *records); }};
}

bool hasHappened(const CUevent_st& event) {
  if (event.records != nullptr) return event.records->completed >= event.records->recorded;
  return isDone(event.work);
}

void waitFor(const std::shared_ptr<SharedRecords>& records, uint32_t record) {
  while (int32_t(records->completed.load() - record) < 0) usleep(100);
}

void add(cudaEvent_t* to, CUevent_st* event) {
  event->device = currentDevice();
  events().push_back(event);
  *to = event;
}

}  // namespace

void recordNow(cudaEvent_t event, WorkPointer work) {
  event->capture = nullptr;
  event->work = std::move(work);
  event->isRecorded = true;
}

TaskPointer recordTask(cudaEvent_t event) {
  auto task = std::make_shared<Task>();
  task->type = cudaGraphNodeTypeEventRecord;
  task->event = event;
  return task;
}

/// What records the event in a stream now.
TaskPointer liveRecordTask(cudaEvent_t event) {
  if (event->records == nullptr) return makeTask(cudaGraphNodeTypeEventRecord, nullptr);
  const uint32_t record = ++event->records->recorded;
  event->ownRecord = record;
  return makeTask(cudaGraphNodeTypeEventRecord,
                  [records = event->records, record] { records->completed.store(record); });
}

/// What a stream does that waits for the event now; null where there is nothing to wait for.
TaskPointer liveWaitTask(cudaEvent_t event, std::vector<WorkPointer>& after) {
  if (event->records == nullptr || event->records->recorded == event->ownRecord) {
    if (event->work == nullptr) return nullptr;
    after.push_back(event->work);
    return makeTask(cudaGraphNodeTypeWaitEvent, nullptr);
  }
  return makeTask(cudaGraphNodeTypeWaitEvent,
                  [records = event->records, record = event->records->recorded.load()] {
                    waitFor(records, record);
                  });
}

bool isEvent(cudaEvent_t event) { return check(event) == cudaSuccess; }

}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* to) { return cudaEventCreateWithFlags(to, 0); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* to, unsigned flags) {
  noteAllocatingCall();
  return call([&] {
    if (to == nullptr || (flags & ~kKnownFlags) != 0) return cudaErrorInvalidValue;
    const bool isShared = (flags & cudaEventInterprocess) != 0;
    if (isShared && (flags & cudaEventDisableTiming) == 0) return cudaErrorInvalidValue;
    auto* const event = new CUevent_st;
    event->flags = flags;
    if (isShared) {
      event->file = makeFile("event", sizeof(SharedRecords));
      event->records = mapRecords(event->file);
    }
    add(to, event);
    return cudaSuccess;
  });
}

/// What waits for it goes on waiting.
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  noteAllocatingCall();
  return unfailingCall([&] {
    if (const cudaError_t bad = check(event); bad != cudaSuccess) return bad;
    std::erase(events(), event);
    if (event->file >= 0) ::close(event->file);
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t handle, unsigned flags) {
  return call([&] {
    cudaStream_t stream = nullptr;
    if (const cudaError_t bad = check(event); bad != cudaSuccess) return bad;
    if (const cudaError_t bad = findStream(handle, stream); bad != cudaSuccess) return bad;
    if ((flags & ~unsigned(cudaEventRecordExternal)) != 0) return cudaErrorInvalidValue;
    if (stream->device != event->device) return cudaErrorInvalidResourceHandle;
    if (stream->capture != nullptr) {
      if (flags == cudaEventRecordExternal) return captureTask(stream, recordTask(event));
      if (stream->capture->isInvalid) return cudaErrorStreamCaptureInvalidated;
      if (event->records != nullptr) return refuseWaiting(stream);
      event->capture = stream->capture;
      event->frontier = stream->frontier;
      return cudaSuccess;
    }
    if (const cudaError_t bad = refuseImplicit(stream); bad != cudaSuccess) return bad;
    recordNow(event, enqueue(stream, liveRecordTask(event)));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags) {
  return call([&] {
    cudaStream_t stream = nullptr;
    if (const cudaError_t bad = findStream(handle, stream); bad != cudaSuccess) return bad;
    if (const cudaError_t bad = check(event); bad != cudaSuccess) return bad;
    if ((flags & ~unsigned(cudaEventWaitExternal)) != 0) return cudaErrorInvalidValue;
    if (event->capture != nullptr) return captureWait(stream, event->capture, event->frontier);
    if (stream->capture != nullptr) {
      if (flags != cudaEventWaitExternal) return refuseIsolated(stream);
      auto task = std::make_shared<Task>();
      task->type = cudaGraphNodeTypeWaitEvent;
      task->event = event;
      return captureTask(stream, task);
    }
    if (const cudaError_t bad = refuseImplicit(stream); bad != cudaSuccess) return bad;
    std::vector<WorkPointer> after;
    if (TaskPointer task = liveWaitTask(event, after)) enqueue(stream, task, std::move(after));
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([&] {
    if (const cudaError_t bad = check(event); bad != cudaSuccess) return bad;
    if (event->capture != nullptr) return refuseAsking(*event->capture);
    if (const cudaError_t bad = refuseUnsafe(); bad != cudaSuccess) return bad;
    if (!hasHappened(*event)) return cudaErrorNotReady;
    if (event->work != nullptr) acquire(&event->work->end);
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  WorkPointer work;
  std::shared_ptr<SharedRecords> records;
  uint32_t record = 0;
  int device = 0;
  const cudaError_t error = call([&] {
    if (const cudaError_t bad = check(event); bad != cudaSuccess) return bad;
    if (event->capture != nullptr) return refuseAsking(*event->capture);
    if (const cudaError_t bad = refuseUnsafe(); bad != cudaSuccess) return bad;
    work = event->work;
    records = event->records;
    if (records != nullptr) record = records->recorded;
    device = event->device;
    return cudaSuccess;
  });
  if (error != cudaSuccess) return error;
  if (work != nullptr) wait(*work);
  if (records != nullptr) waitFor(records, record);
  return remember(faultOf(device));
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t second) {
  return call([&] {
    if (milliseconds == nullptr) return cudaErrorInvalidValue;
    for (cudaEvent_t event : {first, second}) {
      if (const cudaError_t bad = check(event); bad != cudaSuccess) return bad;
      if ((event->flags & cudaEventDisableTiming) != 0 || !event->isRecorded)
        return cudaErrorInvalidResourceHandle;
    }
    if (first->device != second->device) return cudaErrorInvalidResourceHandle;
    if (!isDone(first->work) || !isDone(second->work)) return cudaErrorNotReady;
    *milliseconds = static_cast<float>(1e3 * (second->work->doneAt - first->work->doneAt));
    return cudaSuccess;
  });
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  return call([&] {
    if (const cudaError_t bad = check(event); bad != cudaSuccess) return bad;
    if (handle == nullptr) return cudaErrorInvalidValue;
    if (event->records == nullptr || event->isForeign) return cudaErrorInvalidResourceHandle;
    writeHandle({.process = getpid(), .file = event->file, .device = placeOf(event->device)},
                *handle);
    return cudaSuccess;
  });
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* to, cudaIpcEventHandle_t handle) {
  noteAllocatingCall();
  return call([&] {
    ForeignFile foreign;
    if (to == nullptr || !readHandle(handle, foreign)) return cudaErrorInvalidValue;
    if (foreign.process == getpid()) return cudaErrorDeviceUninitialized;
    const int file = openForeign(foreign);
    if (file < 0) return cudaErrorMapBufferObjectFailed;
    auto* const event = new CUevent_st;
    event->flags = cudaEventDisableTiming | cudaEventInterprocess;
    event->isForeign = true;
    event->file = file;
    event->records = mapRecords(file);
    add(to, event);
    return cudaSuccess;
  });
}

}  // extern "C"
