#pragma once

// What the rest of the library asks of CUDA, in words of its own: no header of the toolkit is
// needed. With the toolkit it is in cuda/; without it cuda_absent.cc answers, and what would need a
// GPU throws Unsupported.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <tutti/device.h>

#include "src/base/bytes.h"
#include "src/device/any_stream.h"

struct CUevent_st;  // CUDA's; cudaEvent_t is a pointer to it

namespace tutti::device {

/// Whether there is CUDA, asked of the runtime at the first call. Throws InvalidUsage in a forked
/// child, which cannot use what its parent has begun.
struct CudaSupport {
  int devices = 0;
  std::string missing;    ///< why there is none; empty when there are devices
  bool emulated = false;  ///< the program is linked with the stand-in of tests/emulation
};
const CudaSupport& cudaSupport();

/// Where memory lies, as CUDA knows it. What CUDA does not know is ordinary memory of the host.
struct MemoryPlace {
  enum class Kind { Host, Pinned, Cuda, Managed } kind = Kind::Host;
  int device = 0;  ///< of Cuda: whose memory it is
  bool operator==(const MemoryPlace&) const = default;
};
MemoryPlace placeOf(const void* address);
/// "ordinary memory of the host", "memory of cuda:1", ...
std::string describe(MemoryPlace place);

// All of these throw Unsupported where there is no such device.
std::unique_ptr<AnyStream> makeCudaStream(int device);
std::unique_ptr<AnyEvent> makeCudaEvent(int device);
StreamRef borrowCudaStream(CUstream_st* stream);
/// Records an event of the program on a CUDA stream, also into a graph.
void recordCudaEvent(CUevent_st* event, StreamRef stream);
Memory allocateCuda(int device, size_t bytes);
Memory allocateCudaPinned(size_t bytes);
/// What other processes of this host open the allocation at `data` by. Empty where they cannot.
base::Bytes exportMemory(const void* data, int device);
/// Of that memory `bytes`, for kernels and copies of `device`. Throws Refused for what is no such
/// memory, and what CUDA says.
std::shared_ptr<std::byte> openMemory(const base::Bytes& exported, uint64_t bytes, int device);

/// Work of a GPU's stream that was captured, to be launched as often as is wanted.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch(StreamRef stream) = 0;  ///< of the same GPU
};
/// What `work` enqueues on `stream`, by the calling thread: it does not run. What that throws is
/// passed on, and the stream is as before. Throws InvalidArgument for a stream of the host.
std::unique_ptr<Graph> capture(StreamRef stream, const std::function<void()>& work);
/// Enqueues a copy; both may be any memory. Of a capture it becomes a part.
void copyOn(StreamRef stream, void* to, const void* from, size_t bytes);
/// Returns when it is done; both may be any memory.
void copyMemory(void* to, const void* from, size_t bytes);
/// The same, by that device; it waits for nothing that the program's streams have, not even the
/// legacy default stream.
void copyAside(int device, void* to, const void* from, size_t bytes);

/// Whether a GPU's stream is being captured into a graph.
bool isCaptured(StreamRef stream);
/// Where a stream waits for a thread of the host.
class StreamGate {
 public:
  virtual ~StreamGate() = default;
  /// The stream goes on. From any thread; calls nothing of CUDA.
  virtual void open() = 0;
};
/// Enqueues a gate on a GPU's stream. When the stream comes there, `reached` is called on a thread
/// of CUDA's, which may not call CUDA; then the stream waits until the gate is opened. In a capture
/// it becomes a part of the graph, and that happens in each replay.
void enqueueGate(StreamRef stream, std::function<void(std::shared_ptr<StreamGate>)> reached);
/// The calling thread's.
int currentCudaDevice();

/// A kernel of the library, as addressOf() of tutti/cuda/launch.h makes its address.
struct Kernel {
  const char* name;
  const void* address;
};
/// Loads them on the device. CUDA loads a kernel when it is first used, and may wait for all work
/// of the device to do so, also for a kernel that spins until that very use.
void loadKernels(std::span<const Kernel> kernels, int device);

/// Throws Unsupported, with the reason, unless there is a GPU of that index.
void requireCudaDevice(int device);

}  // namespace tutti::device
