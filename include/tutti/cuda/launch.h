#pragma once

/// \file
/// Launches a kernel with cudaLaunchKernelExC(). Use it for every launch. It works in sources that
/// nvcc compiles for a GPU, and in sources that g++ compiles for the emulation of tests/emulation.
/// In the emulation a kernel is an ordinary function. launch() first registers how to call it with
/// the runtime's array of arguments; for a GPU, the stubs of nvcc do that.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#ifndef __CUDACC__
#include <functional>

namespace tutti::cuda::emulated {

/// Copies the arguments of a launch, as the runtime does. Returns the function that each CUDA
/// thread calls.
using Bind = std::function<void()> (*)(const void* kernel, void** arguments);
void registerKernel(const void* kernel, Bind bind);

template <class... Parameters>
struct Binding {
  template <size_t... kIndex>
  static std::function<void()> make(const void* kernel, void** arguments,
                                    std::index_sequence<kIndex...>) {
    using Values = std::tuple<std::remove_cv_t<Parameters>...>;
    return [call = reinterpret_cast<void (*)(Parameters...)>(const_cast<void*>(kernel)),
            values = Values(*static_cast<std::remove_cv_t<Parameters>*>(arguments[kIndex])...)]() {
      call(std::get<kIndex>(values)...);
    };
  }
  static std::function<void()> bind(const void* kernel, void** arguments) {
    return make(kernel, arguments, std::index_sequence_for<Parameters...>{});
  }
};

}  // namespace tutti::cuda::emulated
#endif

namespace tutti::cuda {

/// Configuration of launch().
struct LaunchConfig {
  dim3 grid{1, 1, 1};
  dim3 block{1, 1, 1};
  dim3 cluster{1, 1, 1};          ///< blocks per cluster; must divide the grid
  size_t dynamicSharedBytes = 0;  ///< above 48 KiB only after cudaFuncSetAttribute
  cudaStream_t stream = nullptr;
  bool cooperative = false;  ///< all blocks run at the same time, so kernels may call gridSync()
  /// The kernel may begin while the previous launch of the stream still runs; see
  /// ptx::gridDependencyWait().
  bool overlapsPrevious = false;
};

/// The address of a kernel for functions of the CUDA runtime: cudaFuncGetAttributes(), graph nodes.
template <class... Parameters>
const void* addressOf(void (*kernel)(Parameters...)) {
  const void* const address = reinterpret_cast<const void*>(kernel);
#ifndef __CUDACC__
  emulated::registerKernel(address, &emulated::Binding<Parameters...>::bind);
#endif
  return address;
}

/// Enqueues `kernel` on the config's stream. It converts the arguments to the kernel's parameters
/// and copies them. Returns the result of cudaLaunchKernelExC().
template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), const LaunchConfig& config,
                   Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  cudaLaunchAttribute attributes[3];
  unsigned count = 0;
  if (const dim3 c = config.cluster; c.x * c.y * c.z > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = c.x;
    attributes[count].val.clusterDim.y = c.y;
    attributes[count++].val.clusterDim.z = c.z;
  }
  if (config.cooperative) {
    attributes[count].id = cudaLaunchAttributeCooperative;
    attributes[count++].val.cooperative = 1;
  }
  if (config.overlapsPrevious) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  cudaLaunchConfig_t raw{};
  raw.gridDim = config.grid;
  raw.blockDim = config.block;
  raw.dynamicSmemBytes = config.dynamicSharedBytes;
  raw.stream = config.stream;
  raw.attrs = attributes;
  raw.numAttrs = count;
  const void* const address = addressOf(kernel);
  std::tuple<std::remove_cv_t<Parameters>...> values(std::forward<Arguments>(arguments)...);
  return std::apply(
      [&](auto&... value) {
        void* pointers[] = {static_cast<void*>(&value)..., nullptr};
        return cudaLaunchKernelExC(&raw, address, pointers);
      },
      values);
}

}  // namespace tutti::cuda
