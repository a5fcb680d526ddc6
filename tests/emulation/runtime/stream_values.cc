// Stream memory operations: a stream writes a word, or waits until one compares.

#include <cuda.h>
#include <unistd.h>

#include <vector>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/capture.h"
#include "tests/emulation/runtime/memory/memory.h"
#include "tests/emulation/runtime/stream.h"

namespace tutti::emulation {
namespace {

constexpr unsigned kWaitFlush = CU_STREAM_WAIT_VALUE_FLUSH;

template <class Word>
bool isMet(Word has, Word wants, unsigned condition) {
  switch (condition) {
    case CU_STREAM_WAIT_VALUE_GEQ:  // cyclic
      return static_cast<std::make_signed_t<Word>>(has - wants) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return has == wants;
    case CU_STREAM_WAIT_VALUE_AND: return (has & wants) != 0;
    default: return static_cast<Word>(~(has | wants)) != 0;  // NOR
  }
}

template <class Word>
cudaError_t checkAddress(CUdeviceptr address) {
  const auto* const at = reinterpret_cast<const void*>(address);
  if (address % sizeof(Word) != 0 || !isKnown(at, sizeof(Word))) return cudaErrorInvalidValue;
  return cudaSuccess;
}

using Steps = std::vector<std::function<void()>>;

template <class Word>
cudaError_t addWrite(CUdeviceptr address, Word value, unsigned flags, Steps& steps) {
  if ((flags & ~unsigned(CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)) != 0)
    return cudaErrorInvalidValue;
  if (const cudaError_t bad = checkAddress<Word>(address); bad != cudaSuccess) return bad;
  const int order = flags == 0 ? __ATOMIC_RELEASE : __ATOMIC_RELAXED;
  steps.push_back([=] { atomicStore(reinterpret_cast<Word*>(address), value, order); });
  return cudaSuccess;
}

template <class Word>
cudaError_t addWait(CUdeviceptr address, Word value, unsigned flags, Steps& steps) {
  const unsigned condition = flags & ~kWaitFlush;
  if (condition > CU_STREAM_WAIT_VALUE_NOR) return cudaErrorInvalidValue;
  if ((flags & kWaitFlush) != 0) return cudaErrorNotSupported;
  if (const cudaError_t bad = checkAddress<Word>(address); bad != cudaSuccess) return bad;
  steps.push_back([=] {
    const auto* const at = reinterpret_cast<const Word*>(address);
    while (!isMet(atomicLoad(at, __ATOMIC_ACQUIRE), value, condition)) usleep(50);
  });
  return cudaSuccess;
}

cudaError_t addOperation(const CUstreamBatchMemOpParams& one, Steps& steps) {
  const auto& wait = one.waitValue;
  const auto& write = one.writeValue;
  switch (one.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return addWait<uint32_t>(wait.address, wait.value, wait.flags, steps);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return addWait<uint64_t>(wait.address, wait.value64, wait.flags, steps);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return addWrite<uint32_t>(write.address, write.value, write.flags, steps);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return addWrite<uint64_t>(write.address, write.value64, write.flags, steps);
    case CU_STREAM_MEM_OP_BARRIER: return cudaSuccess;  // steps are in order
    default: return cudaErrorNotSupported;
  }
}

/// All steps in order, as one piece of work; `add` checks them.
template <class Add>
CUresult enqueueSteps(CUstream stream, Add add) {
  return driverCall([&]() -> cudaError_t {
    Steps steps;
    if (const cudaError_t bad = add(steps); bad != cudaSuccess) return bad;
    return submit(stream, makeWaitingTask([steps = std::move(steps)] {
                    for (const auto& step : steps) step();
                  }));
  });
}

}  // namespace
}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                 unsigned flags) {
  return enqueueSteps(stream,
                      [&](Steps& s) { return addWrite<uint32_t>(address, value, flags, s); });
}
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                 unsigned flags) {
  return enqueueSteps(stream,
                      [&](Steps& s) { return addWrite<uint64_t>(address, value, flags, s); });
}
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                unsigned flags) {
  return enqueueSteps(stream,
                      [&](Steps& s) { return addWait<uint32_t>(address, value, flags, s); });
}
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                unsigned flags) {
  return enqueueSteps(stream,
                      [&](Steps& s) { return addWait<uint64_t>(address, value, flags, s); });
}
CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned count, CUstreamBatchMemOpParams* all,
                               unsigned flags) {
  if (flags != 0 || count > 256 || (count > 0 && all == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  return enqueueSteps(stream, [&](Steps& steps) {
    for (unsigned i = 0; i < count; ++i)
      if (const cudaError_t bad = addOperation(all[i], steps); bad != cudaSuccess) return bad;
    return cudaSuccess;
  });
}

}  // extern "C"
