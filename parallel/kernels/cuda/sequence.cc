#include "parallel/kernels/cuda/sequence.h"

#include <functional>
#include <map>
#include <mutex>
#include <string_view>

namespace tutti::parallel::cuda {

void Sequence::clear() {
  bytes_.clear();
  items_.clear();
}

size_t Sequence::hash() const {
  return std::hash<std::string_view>{}(
      {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()});
}

cudaError_t Sequence::start(cudaStream_t stream, const char*& failed) const {
  for (const Item& item : items_) {
    failed = item.operation;
    if (const cudaError_t error = item.enqueue(bytes_.data() + item.begin, item.doubles, stream);
        error != cudaSuccess)
      return error;
  }
  return cudaSuccess;
}

cudaError_t enqueue(const FillBytes& x, cudaStream_t stream) {
  return cudaMemsetAsync(x.memory, x.value, x.bytes, stream);
}

cudaError_t enqueue(const CopyBytes& x, cudaStream_t stream) {
  return cudaMemcpyAsync(x.to, x.from, x.bytes, cudaMemcpyDefault, stream);
}

namespace {

std::atomic<int>& countOn(int device) {
  static std::mutex mutex;
  static std::map<int, std::atomic<int>> counts;
  const std::lock_guard lock(mutex);
  return counts[device];
}

}  // namespace

Graphs::Graphs(bool wanted, int device) : wanted_(wanted), onDevice_(countOn(device)) {
  ++onDevice_;
}

Graphs::~Graphs() {
  --onDevice_;
  for (const auto& [hash, known] : known_)
    if (known.graph != nullptr) cudaGraphExecDestroy(known.graph);
  if (capturing_ != nullptr) cudaStreamDestroy(capturing_);
}

Graphs::Known* Graphs::find(const Sequence& sequence) {
  const auto [begin, end] = known_.equal_range(sequence.hash());
  for (auto each = begin; each != end; ++each)
    if (each->second.sequence == sequence) return &each->second;
  return nullptr;
}

/// Of one launch there is nothing to gain, and what somebody captures goes to his graph.
cudaError_t Graphs::start(const Sequence& sequence, cudaStream_t stream, const char*& failed) {
  if (!wanted_ || onDevice_ > 1 || sequence.size() < 2) return sequence.start(stream, failed);
  failed = "cudaStreamIsCapturing";
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (const cudaError_t error = cudaStreamIsCapturing(stream, &status); error != cudaSuccess)
    return error;
  if (status != cudaStreamCaptureStatusNone) return sequence.start(stream, failed);
  Known* const known = find(sequence);
  if (known == nullptr) {
    remember(sequence);
    return sequence.start(stream, failed);
  }
  if (known->graph == nullptr)
    if (const cudaError_t error = makeGraph(*known, failed); error != cudaSuccess) return error;
  failed = "cudaGraphLaunch";
  ++launches_;
  return cudaGraphLaunch(known->graph, stream);
}

void Graphs::remember(const Sequence& sequence) {
  if (known_.size() >= kMost)
    std::erase_if(known_, [](const auto& each) { return each.second.graph == nullptr; });
  if (known_.size() < kMost) known_.emplace(sequence.hash(), Known{sequence});
}

/// What is captured, on a stream of its own, is not enqueued anywhere.
cudaError_t Graphs::makeGraph(Known& known, const char*& failed) {
  failed = "a stream to capture on";
  if (capturing_ == nullptr)
    if (const cudaError_t error = cudaStreamCreateWithFlags(&capturing_, cudaStreamNonBlocking);
        error != cudaSuccess)
      return error;
  if (const cudaError_t error =
          cudaStreamBeginCapture(capturing_, cudaStreamCaptureModeThreadLocal);
      error != cudaSuccess)
    return error;
  cudaGraph_t graph = nullptr;
  cudaError_t error = cudaSuccess;
  try {
    error = known.sequence.start(capturing_, failed);
  } catch (...) {
    if (cudaStreamEndCapture(capturing_, &graph) == cudaSuccess) cudaGraphDestroy(graph);
    throw;
  }
  const cudaError_t ended = cudaStreamEndCapture(capturing_, &graph);
  if (error == cudaSuccess) error = ended;
  if (error == cudaSuccess) {
    failed = "cudaGraphInstantiate";
    error = cudaGraphInstantiate(&known.graph, graph, 0);
  }
  if (graph == nullptr) return error;
  if (error == cudaSuccess) failed = "cudaGraphDestroy";
  const cudaError_t destroyed = cudaGraphDestroy(graph);
  return error == cudaSuccess ? destroyed : error;
}

}  // namespace tutti::parallel::cuda
