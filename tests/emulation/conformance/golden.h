#pragma once

// Outputs of kernels that are kept in golden/: one line for each, a name, a hash of its bytes, and
// whether a GPU or the emulation wrote it. What the emulation has written there is replaced by what
// a GPU writes, when one can be had; then a layout that kernels and emulation misunderstand alike
// shows.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <tutti/cuda/launch.h>

#include "tests/emulation/device_array.h"

namespace tutti::emulation::conformance {

/// Which golden file; set by main() from --golden=FILE. With --write-golden it is written anew.
struct Golden {
  std::string path;
  bool write = false;
};
Golden& golden();

/// Fails the test where the file has another hash for this name, or none.
void expectGoldenBytes(const std::string& name, const void* bytes, size_t size);
template <class T>
void expectGolden(const std::string& name, const std::vector<T>& values) {
  expectGoldenBytes(name, values.data(), values.size() * sizeof(T));
}

/// Runs kernel(out, arguments...) with `count` elements at out, which hold NaN before.
template <class T, class... Parameters, class... Arguments>
std::vector<T> outputOf(size_t count, void (*kernel)(T*, Parameters...),
                        const cuda::LaunchConfig& config, Arguments&&... arguments) {
  DeviceArray<T> out(count);
  out.fill(0xff);
  check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize,
                             int(config.dynamicSharedBytes)));
  check(cuda::launch(kernel, config, out.get(), std::forward<Arguments>(arguments)...), "a launch");
  check(cudaDeviceSynchronize(), "a kernel");
  return out.download();
}

template <class T>
std::vector<T> randomWords(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<T> values(count);
  for (T& value : values) value = T(random.next());
  return values;
}

/// Integers from -range to range as bf16, f16 or float: sums of products are exact.
template <class T>
std::vector<T> randomIntegers(size_t count, int range, uint64_t seed) {
  Random random(seed);
  std::vector<T> values(count);
  for (T& value : values) value = T(float(random.between(range)));
  return values;
}

}  // namespace tutti::emulation::conformance
