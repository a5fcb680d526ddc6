// CUDA in a build without it: there are no devices, and everybody is told why.

#include "src/base/check.h"
#include "src/device/cuda.h"

namespace tutti::device {
namespace {

[[noreturn]] void refuse() { base::fail(ErrorCode::Unsupported, cudaSupport().missing); }

}  // namespace

const CudaSupport& cudaSupport() {
  static const CudaSupport none{.missing =
                                    "this build of Tutti has no CUDA: configure it with "
                                    "-D TUTTI_CUDA=ON, which needs CUDA's toolkit"};
  return none;
}

MemoryPlace placeOf(const void*) { return {}; }

std::unique_ptr<AnyStream> makeCudaStream(int) { refuse(); }
std::unique_ptr<AnyEvent> makeCudaEvent(int) { refuse(); }
StreamRef borrowCudaStream(CUstream_st*) { refuse(); }
void recordCudaEvent(CUevent_st*, StreamRef) { refuse(); }
std::unique_ptr<Graph> capture(StreamRef, const std::function<void()>&) { refuse(); }
void loadKernels(std::span<const Kernel>, int) { refuse(); }
Memory allocateCuda(int, size_t) { refuse(); }
Memory allocateCudaPinned(size_t) { refuse(); }
base::Bytes exportMemory(const void*, int) { refuse(); }
std::shared_ptr<std::byte> openMemory(const base::Bytes&, uint64_t, int) { refuse(); }
void copyOn(StreamRef, void*, const void*, size_t) { refuse(); }
void copyMemory(void*, const void*, size_t) { refuse(); }
void copyAside(int, void*, const void*, size_t) { refuse(); }
bool isCaptured(StreamRef) { refuse(); }
void enqueueGate(StreamRef, std::function<void(std::shared_ptr<StreamGate>)>) { refuse(); }
int currentCudaDevice() { refuse(); }

}  // namespace tutti::device
