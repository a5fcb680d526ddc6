// Launches: what is checked, how many blocks live at a time, attributes of functions and occupancy.

#include "tests/emulation/runtime/kernel.h"

#include <algorithm>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/capture.h"
#include "tests/emulation/runtime/device.h"
#include "tests/emulation/runtime/launched_kernels.h"
#include "tests/emulation/runtime/memory/multicast.h"
#include "tests/emulation/runtime/peer.h"
#include "tests/emulation/runtime/registration.h"

namespace tutti::emulation {
namespace {

uint64_t volume(dim3 shape) { return uint64_t(shape.x) * shape.y * shape.z; }

bool isShape(dim3 grid, dim3 block) {
  return volume(grid) > 0 && grid.x <= 0x7fffffff && grid.y <= 65535 && grid.z <= 65535 &&
         volume(block) > 0 && block.x <= 1024 && block.y <= 1024 && block.z <= 64 &&
         volume(block) <= 1024;
}

cudaError_t checkShape(const Launch& launch, const FunctionSettings& settings) {
  const dim3 g = launch.grid, c = launch.cluster;
  if (!isShape(g, launch.block)) return cudaErrorInvalidValue;
  if (volume(c) == 0 || g.x % c.x != 0 || g.y % c.y != 0 || g.z % c.z != 0 ||
      volume(c) > (settings.mayHaveBigClusters ? kMaxCluster : kMaxPortableCluster))
    return cudaErrorInvalidClusterSize;
  if (launch.dynamicSharedBytes > settings.dynamicSharedBytes) return cudaErrorInvalidValue;
  return cudaSuccess;
}

/// How many blocks there may be at a time: of this launch, and of all on the device.
cudaError_t limit(Launch& launch) {
  watchPeers();
  const auto each = uint64_t(blocksPerProcessor(volume(launch.block), launch.dynamicSharedBytes));
  const uint64_t all = each * uint64_t(processorsPerDevice());
  if (all < volume(launch.cluster)) return cudaErrorInvalidClusterSize;
  if (launch.cooperative && volume(launch.grid) > all) return cudaErrorCooperativeLaunchTooLarge;
  launch.residentBlocks = all;
  launch.room = deviceAt(launch.device).room;
  launch.roomPerBlock = kRoomOfProcessor / each;
  return cudaSuccess;
}

/// What is no kernel of the emulation: one of machine code, or none.
cudaError_t refuseUnknown(const void* function) {
  const std::string name = machineCodeOf(function);
  return name.empty() ? cudaErrorInvalidDeviceFunction : refuseMachineCode("kernel " + name);
}

/// Where nothing has loaded the function on the current device: waits for all that the device does.
void loadLate(const void* function) {
  std::vector<WorkPointer> all;
  locked([&] {
    if (!isFirstUse(function)) return cudaSuccess;
    const auto kernel = findKernel(function);
    if (environment().isLateLoadingWrong)
      fail("cudaLaunchKernel: nothing has loaded " + (kernel ? kernel->name : "the function") +
           " on device " + std::to_string(currentDevice()));
    all = lastOf(currentDevice());
    return cudaSuccess;
  });
  const LockedWait held;
  for (const WorkPointer& work : all) wait(*work, false);
}

}  // namespace

cudaError_t readAttributes(const cudaLaunchConfig_t& config, Launch& launch) {
  if (config.numAttrs > 0 && config.attrs == nullptr) return cudaErrorInvalidValue;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttributeValue& value = config.attrs[i].val;
    switch (config.attrs[i].id) {
      case cudaLaunchAttributeClusterDimension:
        launch.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
        break;
      case cudaLaunchAttributeCooperative: launch.cooperative = value.cooperative != 0; break;
      case cudaLaunchAttributeMemSyncDomain:
        if (value.memSyncDomain != cudaLaunchMemSyncDomainDefault &&
            value.memSyncDomain != cudaLaunchMemSyncDomainRemote)
          return cudaErrorInvalidValue;
        break;
      case cudaLaunchAttributeIgnore:
      case cudaLaunchAttributeAccessPolicyWindow:
      case cudaLaunchAttributeSynchronizationPolicy:
      case cudaLaunchAttributeClusterSchedulingPolicyPreference:
      case cudaLaunchAttributeProgrammaticStreamSerialization:  // begins behind it all the same
      case cudaLaunchAttributePriority:
      case cudaLaunchAttributeMemSyncDomainMap:
      case cudaLaunchAttributePreferredSharedMemoryCarveout: break;
      default: return cudaErrorInvalidValue;
    }
  }
  return cudaSuccess;
}

int blocksPerProcessor(uint64_t threadsPerBlock, size_t dynamicSharedBytes) {
  if (threadsPerBlock == 0 || threadsPerBlock > 1024) return 0;
  const uint64_t warps = (threadsPerBlock + 31) / 32;
  const uint64_t byThreads = kThreadsPerProcessor / 32 / warps;
  const uint64_t byShared = kSharedBytesPerProcessor / (dynamicSharedBytes + kReservedSharedBytes);
  return int(std::min<uint64_t>({byThreads, byShared, kBlocksPerProcessor}));
}

cudaError_t makeKernelTask(const cudaLaunchConfig_t& config, const void* function, void** arguments,
                           TaskPointer& task) {
  const auto kernel = findKernel(function);
  if (!kernel) return refuseUnknown(function);
  Launch launch;
  launch.grid = config.gridDim;
  launch.block = config.blockDim;
  launch.dynamicSharedBytes = config.dynamicSmemBytes;
  launch.device = currentDevice();
  if (const cudaError_t bad = readAttributes(config, launch); bad != cudaSuccess) return bad;
  if (const cudaError_t bad = checkShape(launch, settingsOf(function)); bad != cudaSuccess)
    return bad;
  if (const cudaError_t bad = limit(launch); bad != cudaSuccess) return bad;
  launch.kernel = kernel->name;
  launch.body = kernel->bind(function, arguments);
  auto made = std::make_shared<Task>();
  made->type = cudaGraphNodeTypeKernel;
  made->kernel.func = const_cast<void*>(function);
  made->kernel.gridDim = config.gridDim;
  made->kernel.blockDim = config.blockDim;
  made->kernel.sharedMemBytes = static_cast<unsigned>(config.dynamicSmemBytes);
  made->body = [launch] {
    noteKernel(launch.kernel, &LaunchedKernels::Count::begun);
    refreshMulticasts();
    run(launch);
  };
  task = made;
  return cudaSuccess;
}

cudaError_t makeKernelTask(const cudaKernelNodeParams* params, TaskPointer& task) {
  if (params == nullptr || params->kernelParams == nullptr) return cudaErrorInvalidValue;
  cudaLaunchConfig_t config{};
  config.gridDim = params->gridDim;
  config.blockDim = params->blockDim;
  config.dynamicSmemBytes = params->sharedMemBytes;
  return makeKernelTask(config, params->func, params->kernelParams, task);
}

}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  if (environment().isLoadingLazy) loadLate(function);
  return call([&]() -> cudaError_t {
    TaskPointer task;
    cudaStream_t stream = nullptr;
    if (config == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t bad = findStream(config->stream, stream); bad != cudaSuccess) return bad;
    if (stream->device != currentDevice()) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t bad = makeKernelTask(*config, function, arguments, task);
        bad != cudaSuccess)
      return bad;
    noteKernel(findKernel(function)->name, &LaunchedKernels::Count::asked);
    return submit(config->stream, task);
  });
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             size_t sharedBytes, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = sharedBytes;
  config.stream = stream;
  return cudaLaunchKernelExC(&config, function, arguments);
}

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                        void** arguments, size_t sharedBytes, cudaStream_t stream) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = sharedBytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelExC(&config, function, arguments);
}

}  // extern "C"
