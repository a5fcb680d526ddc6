#include "parallel/kernels/cuda/queue.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "parallel/kernels/cuda/attention/arguments.h"
#include "parallel/kernels/cuda/gemm/arguments.h"
#include "parallel/kernels/cuda/vectorized/arguments.h"

namespace tutti::parallel::cuda {

namespace {

/// Throws Cuda, or OutOfMemory, and takes the error off what cudaGetLastError() returns.
void require(const char* operation, cudaError_t error, int device) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  fail(error == cudaErrorMemoryAllocation ? ErrorCode::OutOfMemory : ErrorCode::Cuda, operation,
       " on cuda:", device, ": ", cudaGetErrorName(error), " (", cudaGetErrorString(error), ")");
}

/// What a variable of the environment says: 1: yes; 0: no; where it is not set, `otherwise`. Throws
/// InvalidArgument for other words.
bool isAskedFor(const char* variable, bool otherwise) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return otherwise;
  const std::string_view word = text;
  parallel::require(word == "0" || word == "1", variable, " is 0 or 1, not ", word);
  return word == "1";
}

StreamRef requireCuda(StreamRef stream) {
  parallel::require(stream.isCuda(), "the CUDA kernels need a stream of CUDA");
  return stream;
}

}  // namespace

DeviceScope::DeviceScope(int device) : device_(device) {
  require("cudaGetDevice", cudaGetDevice(&before_), device);
  if (before_ != device_) require("cudaSetDevice", cudaSetDevice(device_), device);
}

DeviceScope::~DeviceScope() {
  if (before_ != device_) cudaSetDevice(before_);
}

void* Workspace::room(size_t bytes) {
  if (bytes > memory_.bytes()) {
    const DeviceScope here(stream_.device().index);
    const size_t more = std::max({bytes, 2 * memory_.bytes(), kLeast});
    before_.push_back(std::move(memory_));
    memory_ = kind_ == Kind::Pinned ? allocatePinned(more) : allocateOn(stream_.device(), more);
  }
  return memory_.data();
}

Queue::Queue(StreamRef stream)
    : stream_(requireCuda(stream)),
      device_(stream.device().index),
      poisons_(isAskedFor("TUTTI_POISON_SCRATCH", false)),
      graphs_(isAskedFor("TUTTI_GRAPHS", true), device_),
      scratch_(stream, Workspace::Kind::Device),
      results_(stream, Workspace::Kind::Pinned),
      zeros_(allocateOn(stream.device(), kZeros * sizeof(uint32_t))),
      found_(allocatePinned(kMostChecked * sizeof(FirstOutside))) {
  const DeviceScope here(device_);
  for (const auto load : {loadGemm,
                          loadSimt,
                          loadMma,
                          loadWgmma,
                          loadSplits,
                          loadElementwise,
                          loadNorm,
                          loadAttention,
                          loadAttentionForward,
                          loadAttentionGradients,
                          loadWgmmaForward,
                          loadWgmmaGradients,
                          loadOnePass,
                          loadTokens,
                          loadExperts,
                          loadSum,
                          loadStreamed,
                          loadNorms,
                          loadUpdates,
                          loadLosses,
                          loadHeads,
                          loadPlaced,
                          loadSums,
                          loadColumns})
    check("cudaFuncGetAttributes", load());
  makeAside();
  loadOfCuda();
  check("cudaMemsetAsync", cudaMemsetAsync(zeros_.data(), 0, zeros_.bytes(), stream_.cuda()));
}

/// CUDA has kernels of its own, which fill and copy, for each alignment, and loads them when they
/// are first used. Takes the first memory for operands as well: later, other ranks may wait.
void Queue::loadOfCuda() {
  constexpr size_t kHalf = size_t{16} << 10;
  results<char>(1);
  char* const first = scratch<char>(2 * kHalf);
  for (const size_t at : {0, 1, 2, 4, 8})
    for (const size_t bytes : {std::max<size_t>(at, 16), at, kHalf - at}) {
      if (bytes == 0) continue;
      check("cudaMemsetAsync", cudaMemsetAsync(first + at, 0, bytes, stream_.cuda()));
      check("cudaMemcpyAsync", cudaMemcpyAsync(first + kHalf + at, first + at, bytes,
                                               cudaMemcpyDefault, stream_.cuda()));
    }
}

/// Of the priority above that of most programs' streams: a block that looks at values is not to
/// wait for all blocks of the kernel that takes them, nor for what else has their stream's queue.
void Queue::makeAside() {
  int least = 0, greatest = 0;
  check("cudaDeviceGetStreamPriorityRange", cudaDeviceGetStreamPriorityRange(&least, &greatest));
  check("cudaStreamCreateWithPriority",
        cudaStreamCreateWithPriority(&aside_.stream, cudaStreamNonBlocking,
                                     std::max(greatest, least - 1)));
  for (cudaEvent_t* const event : {&aside_.before, &aside_.after})
    check("cudaEventCreate", cudaEventCreateWithFlags(event, cudaEventDisableTiming));
}

Queue::Aside::~Aside() {
  if (stream != nullptr) cudaStreamDestroy(stream);
  for (const cudaEvent_t event : {before, after})
    if (event != nullptr) cudaEventDestroy(event);
}

Queue::~Queue() { cudaStreamSynchronize(stream_.cuda()); }  // what fails has nobody to tell

void Queue::check(const char* operation, cudaError_t error) {
  if (error != cudaSuccess) forgetChecked();
  require(operation, error, device_);
}

DeviceScope Queue::onDevice() {
  try {
    return DeviceScope(device_);
  } catch (...) {
    forgetChecked();
    throw;
  }
}

/// Of a call that fails: the next one does not hear of its values, and nothing reads them when it
/// has ended.
void Queue::forgetChecked() {
  if (std::exchange(checkedCount_, 0) > 0) cudaStreamSynchronize(aside_.stream);
}

void Queue::fillZero(const char* operation, void* memory, size_t bytes) {
  if (bytes > 0) start(operation, FillBytes{memory, bytes, 0});
}

void* Queue::room(Workspace& workspace, size_t bytes) {
  void* const memory = workspace.room(bytes);
  if (poisons_ && bytes > 0) start("TUTTI_POISON_SCRATCH", FillBytes{memory, bytes, 0xff});
  return memory;
}

void Queue::copy(const char* operation, void* to, const void* from, size_t bytes) {
  if (bytes > 0) start(operation, CopyBytes{to, from, bytes});
}

void Queue::keep() {
  ensure(!keeps_, "kernels are kept already");
  keeps_ = true;
}

void Queue::keepNoMore() {
  keeps_ = false;
  startKept();
}

void Queue::abandon() {
  keeps_ = false;
  sequence_.clear();
}

/// What could not be started is forgotten, too.
void Queue::startKept() {
  if (sequence_.size() == 0) return;
  const DeviceScope here = onDevice();
  struct Emptied {
    Sequence& kept;
    ~Emptied() { kept.clear(); }
  } const atEnd{sequence_};
  const char* failed = nullptr;
  const cudaError_t error = graphs_.start(sequence_, stream_.cuda(), failed);
  check(failed, error);
}

void Queue::checkValues(const char* what, const Tensor& values, int64_t lowest, int64_t end,
                        int64_t namedLowest) {
  if (values.count() == 0) return;
  ensure(checkedCount_ < kMostChecked, "too many operands with ids");
  checked_[checkedCount_] = {what, namedLowest, end};
  const FindOutside call{.values = values.as<int32_t>(),
                         .count = values.count(),
                         .lowest = static_cast<int32_t>(lowest),
                         .end = end,
                         .found = found_.as<FirstOutside>() + checkedCount_++};
  isLooking_ = !keeps_;
  if (isLooking_)
    lookAside(what, call);
  else
    start(what, call);
}

void Queue::lookAside(const char* what, const FindOutside& call) {
  const DeviceScope here = onDevice();
  check(what, cudaEventRecord(aside_.before, stream_.cuda()));
  check(what, cudaStreamWaitEvent(aside_.stream, aside_.before));
  check(what, enqueue(call, aside_.stream));
  check(what, cudaEventRecord(aside_.after, aside_.stream));
}

void Queue::finish(const char* operation, bool always) {
  const bool hasChecked = checkedCount_ > 0;
  if (hasChecked && isLooking_) {
    const DeviceScope here = onDevice();
    check(operation, cudaEventSynchronize(aside_.after));
  }
  if (always || (hasChecked && !isLooking_)) wait(operation);
  const int count = std::exchange(checkedCount_, 0);
  for (int i = 0; i < count; ++i) {
    const FirstOutside& found = found_.as<FirstOutside>()[i];
    const Checked& checked = checked_[i];
    if (found.index >= 0) wait(operation);  // kernels of the call may still read the values
    parallel::require(found.index < 0, checked.what, found.value, " is not in [", checked.lowest,
                      ", ", checked.end, ")");
  }
}

void Queue::wait(const char* operation) {
  startKept();
  const DeviceScope here = onDevice();
  check(operation, cudaStreamSynchronize(stream_.cuda()));
}

}  // namespace tutti::parallel::cuda
