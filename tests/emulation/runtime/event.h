#pragma once

// Events, for those who record them and wait for them in graphs.

#include "tests/emulation/runtime/capture.h"

namespace tutti::emulation {

/// Of an event that several processes use: how often it was recorded, and how far that has come.
struct SharedRecords {
  std::atomic<uint32_t> recorded{0}, completed{0};
};

}  // namespace tutti::emulation

struct CUevent_st {
  int device = 0;
  unsigned flags = 0;
  bool isRecorded = false;
  tutti::emulation::WorkPointer work;        // of the newest record
  tutti::emulation::CapturePointer capture;  // if that was captured, and behind what
  std::vector<cudaGraphNode_t> frontier;
  std::shared_ptr<tutti::emulation::SharedRecords> records;
  uint32_t ownRecord = 0;  // the newest of this process
  int file = -1;
  bool isForeign = false;
};

namespace tutti::emulation {

// Under the runtime's lock.

bool isEvent(cudaEvent_t event);
/// The event is recorded where `work` ends.
void recordNow(cudaEvent_t event, WorkPointer work);
/// A graph's node that records the event when the graph is launched.
TaskPointer recordTask(cudaEvent_t event);
TaskPointer liveRecordTask(cudaEvent_t event);
TaskPointer liveWaitTask(cudaEvent_t event, std::vector<WorkPointer>& after);

}  // namespace tutti::emulation
