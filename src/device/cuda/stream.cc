// Streams of CUDA: owned ones, which do not wait for the legacy default stream, borrowed ones, and
// the library's own.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/process.h"
#include "src/device/cuda.h"
#include "src/device/cuda/check.h"
#include "src/device/cuda/driver.h"
#include "src/device/cuda/guards.h"
#include "src/device/cuda/library_stream.h"

namespace tutti::device {
namespace {

/// What host functions have thrown, until somebody asks.
class Failures {
 public:
  void keep(std::exception_ptr failure) {
    std::lock_guard lock(mutex_);
    if (!first_) first_ = std::move(failure);
  }
  void rethrow() {
    std::unique_lock lock(mutex_);
    const auto first = std::exchange(first_, nullptr);
    lock.unlock();
    if (first) std::rethrow_exception(first);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

/// A function that is enqueued, which CUDA holds by address.
struct HostCall {
  std::function<void()> work;
  std::shared_ptr<Failures> failures;

  static void run(void* call) {
    auto* const self = static_cast<HostCall*>(call);
    try {
      self->work();
    } catch (...) {
      self->failures->keep(std::current_exception());
    }
  }
  static void destroy(void* call) { delete static_cast<HostCall*>(call); }
  static void runOnce(void* call) {
    run(call);
    destroy(call);
  }
};

class CudaStream final : public AnyStream {
 public:
  explicit CudaStream(int device) : device_(device) {
    const OnDevice here(device_);
    TUTTI_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~CudaStream() override;
  void enqueue(std::function<void()> work) override;
  void synchronize() override;
  bool query() override;
  StreamRef ref() const override { return cudaRef(stream_, device_); }

 private:
  /// The graph that the stream is being captured into, or null.
  cudaGraph_t graph() const;
  /// Asking or waiting would end the capture.
  void requireNoCapture(const char* call) const;

  const int device_;
  const base::ProcessGuard guard_;
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<Failures> failures_ = std::make_shared<Failures>();
};

CudaStream::~CudaStream() {
  if (guard_.inForkedChild()) return;
  try {
    const OnDevice here(device_);
    // A capture ends with its stream, and whoever ends it is told.
    if (!isCapturing(stream_)) synchronize();
  } catch (const std::exception& e) {
    base::log(LogLevel::Error, "a stream was destroyed with a failure nobody saw: ", e.what());
  } catch (...) {
    base::log(LogLevel::Error, "a stream was destroyed with a failure nobody saw");
  }
  cudaStreamDestroy(stream_);
}

cudaGraph_t CudaStream::graph() const {
  cudaStreamCaptureStatus status{};
  cudaGraph_t graph = nullptr;
  TUTTI_CUDA(cudaStreamGetCaptureInfo(stream_, &status, nullptr, &graph));
  return status == cudaStreamCaptureStatusNone ? nullptr : graph;
}

void CudaStream::requireNoCapture(const char* call) const {
  if (isCapturing(stream_))
    base::fail(ErrorCode::InvalidUsage, call, ": the stream of ", toString(ref().device()),
               " is being captured into a graph: nothing runs on it now");
}

// A captured function belongs to the graph, and to all that are made of it.
void CudaStream::enqueue(std::function<void()> work) {
  guard_.requireOwner("Stream::enqueue");
  const OnDevice here(device_);
  cudaGraph_t const captured = graph();
  auto call = std::make_unique<HostCall>(HostCall{std::move(work), failures_});
  if (!captured) {
    TUTTI_CUDA(cudaLaunchHostFunc(stream_, &HostCall::runOnce, call.get()));
    call.release();
    return;
  }
  cudaUserObject_t owner = nullptr;
  TUTTI_CUDA(cudaUserObjectCreate(&owner, call.get(), &HostCall::destroy, 1,
                                  cudaUserObjectNoDestructorSync));
  HostCall* const kept = call.release();
  TUTTI_CUDA(cudaGraphRetainUserObject(captured, owner, 1, cudaGraphUserObjectMove));
  TUTTI_CUDA(cudaLaunchHostFunc(stream_, &HostCall::run, kept));
}

void CudaStream::synchronize() {
  guard_.requireOwner("Stream::synchronize");
  const OnDevice here(device_);
  requireNoCapture("Stream::synchronize");
  const OutsideCapture relaxed;
  TUTTI_CUDA(cudaStreamSynchronize(stream_));
  failures_->rethrow();
}

bool CudaStream::query() {
  guard_.requireOwner("Stream::query");
  const OnDevice here(device_);
  requireNoCapture("Stream::query");
  const OutsideCapture relaxed;
  const bool isIdle = hasEnded(stream_);
  failures_->rethrow();
  return isIdle;
}

}  // namespace

std::unique_ptr<AnyStream> makeCudaStream(int device) {
  return std::make_unique<CudaStream>(device);
}

namespace {

// Found once, with the arguments that they have had since CUDA 9.2.
#define TUTTI_FUNCTION(name) decltype(&::name) name = driverFunction<decltype(::name)>(#name, 9020)
struct StreamDriver {
  TUTTI_FUNCTION(cuStreamGetCtx);
  TUTTI_FUNCTION(cuCtxGetCurrent);
  TUTTI_FUNCTION(cuCtxSetCurrent);
  TUTTI_FUNCTION(cuCtxGetDevice);
};
#undef TUTTI_FUNCTION

/// To ask cudaStreamGetDevice() ends the capture; to ask for the context does not.
int deviceOfCapturing(cudaStream_t stream) {
  static const StreamDriver driver;
  CUcontext context = nullptr, before = nullptr;
  CUdevice device = 0;
  TUTTI_CUDA(driver.cuStreamGetCtx(stream, &context));
  TUTTI_CUDA(driver.cuCtxGetCurrent(&before));
  TUTTI_CUDA(driver.cuCtxSetCurrent(context));
  const CUresult found = driver.cuCtxGetDevice(&device);
  TUTTI_CUDA(driver.cuCtxSetCurrent(before));
  if (found != CUDA_SUCCESS) failCuda("cuCtxGetDevice", static_cast<cudaError_t>(found));
  return device;
}

}  // namespace

StreamRef borrowCudaStream(CUstream_st* stream) {
  const int devices = cudaSupport().devices;
  if (devices == 0) base::fail(ErrorCode::Unsupported, cudaSupport().missing);
  int device = 0;
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread)
    TUTTI_CUDA(cudaGetDevice(&device));
  else if (devices > 1 && isCapturing(stream))
    device = deviceOfCapturing(stream);
  else if (devices > 1)
    TUTTI_CUDA(cudaStreamGetDevice(stream, &device));
  return AnyStream::cudaRef(stream, device);
}

cudaStream_t makeLibraryStream(StreamPurpose purpose) {
  int least = 0, greatest = 0;
  TUTTI_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  const unsigned flags =
      purpose == StreamPurpose::Copies ? cudaStreamDefault : cudaStreamNonBlocking;
  cudaStream_t stream = nullptr;
  TUTTI_CUDA(cudaStreamCreateWithPriority(&stream, flags,
                                          std::min(greatest + static_cast<int>(purpose), least)));
  return stream;
}

cudaStream_t sharedStream(StreamPurpose purpose, int device) {
  static std::mutex mutex;
  static auto& streams = *new std::map<std::pair<StreamPurpose, int>, cudaStream_t>;
  const std::lock_guard lock(mutex);
  cudaStream_t& stream = streams[{purpose, device}];
  if (stream == nullptr) {
    const OnDevice here(device);
    stream = makeLibraryStream(purpose);
  }
  return stream;
}

}  // namespace tutti::device
