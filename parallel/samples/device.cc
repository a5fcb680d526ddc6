#include "parallel/samples/device.h"

#include <tutti/communicator.h>
#include <tutti/launch.h>
#include "parallel/kernels/cuda/make_cuda_kernels.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/tensor/check.h"
#include "src/base/nearest_name.h"

// Of the emulation alone; null in programs linked with NVIDIA's runtime, or without any.
extern "C" [[gnu::weak]] int tuttiEmulation();

namespace tutti::parallel {

void requireDeviceWord(const std::string& word) {
  if (word == "host") return;
  require(word == "cuda" || word == "emulated", "--device ",
          base::noneOf(word, std::vector<std::string>{"host", "cuda", "emulated"}));
  const bool emulated = tuttiEmulation != nullptr;
  require(word != "emulated" || emulated,
          "--device emulated: this program has no emulated GPUs; those of build/tests/emulated "
          "have, in a build with tests and CUDA");
  require(word != "cuda" || !emulated,
          "--device cuda: this program runs on emulated GPUs alone: --device emulated");
}

DeviceKind kindOf(const std::string& word) {
  return word == "host" || word == "dry" ? DeviceKind::Host : DeviceKind::Cuda;
}

Device deviceFor(const std::string& word, int rank) {
  requireDeviceWord(word);
  if (kindOf(word) == DeviceKind::Host) return {};
  const int count = deviceCount(DeviceKind::Cuda);
  if (count == 0)
    fail(ErrorCode::Unsupported, "--device ", word, ": ", whyNoDevice(DeviceKind::Cuda),
         "; --device host needs none");
  return {DeviceKind::Cuda, rank % count};
}

DeviceMesh joinMesh(const MeshShape& shape, const std::string& device, bool deterministic,
                    int gpuBlocks) {
  if (shape.ranks() == 1) return DeviceMesh(deviceFor(device, 0));
  const auto launched = launchedRank();
  return DeviceMesh(
      Communicator::create({.deterministic = deterministic,
                            .device = deviceFor(device, launched ? launched->rank : 0),
                            .gpuBlocks = gpuBlocks}),
      shape);
}

std::unique_ptr<Kernels> kernelsFor(const DeviceMesh& mesh) {
  if (mesh.stream()) return makeCudaKernels(mesh.stream());
  return std::make_unique<HostKernels>();
}

}  // namespace tutti::parallel
