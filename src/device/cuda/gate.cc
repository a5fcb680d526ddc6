// Gates: where streams wait for threads of the host. A gate is a word of pinned memory, which the
// stream waits for by a memory operation.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "src/device/cuda.h"
#include "src/device/cuda/check.h"
#include "src/device/cuda/driver.h"
#include "src/device/cuda/graph.h"
#include "src/device/cuda/guards.h"

namespace tutti::device {
namespace {

/// Words of pinned memory. They are used again, and never freed: to free pinned memory waits for
/// the devices.
class GateWords {
 public:
  static GateWords& ofProcess() {
    static auto* const instance = new GateWords;
    return *instance;
  }
  uint32_t* take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) addBlock();
    uint32_t* const word = free_.back();
    free_.pop_back();
    return word;
  }
  void giveBack(uint32_t* word) {
    const std::lock_guard lock(mutex_);
    free_.push_back(word);
  }

 private:
  static constexpr size_t kWords = 64, kApart = 16;  // a cache line each

  GateWords() = default;
  void addBlock() {
    blocks_.push_back(allocateCudaPinned(kWords * kApart * sizeof(uint32_t)));
    for (size_t i = 0; i < kWords; ++i) free_.push_back(blocks_.back().as<uint32_t>() + i * kApart);
  }

  std::mutex mutex_;
  std::vector<Memory> blocks_;
  std::vector<uint32_t*> free_;
};

class CudaGate final : public StreamGate {
 public:
  CudaGate() : word_(GateWords::ofProcess().take()) { set(0); }
  ~CudaGate() override { GateWords::ofProcess().giveBack(word_); }
  void open() override { set(1); }
  void close() { set(0); }
  uint32_t* word() const { return word_; }

 private:
  void set(uint32_t value) { std::atomic_ref(*word_).store(value, std::memory_order_release); }
  uint32_t* const word_;
};

/// A gate on a stream, which CUDA holds by address. A graph's replays use the same one in turn.
struct GateCall {
  std::function<void(std::shared_ptr<StreamGate>)> reached;
  std::shared_ptr<CudaGate> gate;

  static void reach(void* call) {
    auto* const self = static_cast<GateCall*>(call);
    self->gate->close();
    self->reached(self->gate);
  }
  static void destroy(void* call) { delete static_cast<GateCall*>(call); }
};

void awaitOpen(cudaStream_t stream, const CudaGate& gate) {
  static auto* const batch =
      driverFunction<decltype(::cuStreamBatchMemOp)>("cuStreamBatchMemOp", 11070);
  CUstreamBatchMemOpParams wait{};
  wait.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  wait.waitValue.address = reinterpret_cast<CUdeviceptr>(gate.word());
  wait.waitValue.value = 1;
  wait.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  TUTTI_CUDA(batch(stream, 1, &wait, 0));
}

}  // namespace

bool isCaptured(StreamRef stream) {
  const OnDevice here(stream.device().index);
  return isCapturing(stream.cuda());
}

void enqueueGate(StreamRef stream, std::function<void(std::shared_ptr<StreamGate>)> reached) {
  const OnDevice here(stream.device().index);
  auto call =
      std::make_unique<GateCall>(GateCall{std::move(reached), std::make_shared<CudaGate>()});
  const CudaGate& gate = *call->gate;
  if (isCapturing(stream.cuda())) {
    const std::shared_ptr<GateCall> kept = std::move(call);
    keepInGraph(stream.cuda(), kept);
    TUTTI_CUDA(cudaLaunchHostFunc(stream.cuda(), &GateCall::reach, kept.get()));
    return awaitOpen(stream.cuda(), gate);
  }
  TUTTI_CUDA(cudaLaunchHostFunc(stream.cuda(), &GateCall::reach, call.get()));
  GateCall* const reachedOnce = call.release();  // from here on the stream has it
  awaitOpen(stream.cuda(), gate);
  TUTTI_CUDA(cudaLaunchHostFunc(stream.cuda(), &GateCall::destroy, reachedOnce));
}

}  // namespace tutti::device
