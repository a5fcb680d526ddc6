// Registration of what nvcc has compiled, and the configuration of a launch by <<<>>>.

#include "tests/emulation/runtime/registration.h"

#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <unordered_map>
#include <vector>

#include "tests/emulation/emulation.h"
#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/kernel.h"

namespace tutti::emulation {
namespace {

/// What one object file has registered; its handle is the address.
struct FatBinary {
  std::vector<const void*> functions, variables;
};

struct Registered {
  std::unordered_map<const void*, const char*> functions;  // their names, as the compiler has them
  std::unordered_map<const void*, Variable> variables;
};
Registered& registered() {
  static auto* const all = new Registered;
  return *all;
}

/// Of a launch by <<<>>>, until the function that the compiler has made takes it.
struct Configuration {
  dim3 grid, block;
  size_t sharedBytes = 0;
  cudaStream_t stream = nullptr;
};
thread_local std::vector<Configuration> configurations;

std::string demangled(const char* name) {
  int status = 0;
  char* const plain = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string text = status == 0 ? plain : name;
  std::free(plain);
  return text;
}

FatBinary& binaryOf(void** handle) { return *reinterpret_cast<FatBinary*>(handle); }

}  // namespace

std::string machineCodeOf(const void* function) {
  const auto at = registered().functions.find(function);
  return at == registered().functions.end() ? std::string() : demangled(at->second);
}

Variable* findVariable(const void* symbol) {
  const auto at = registered().variables.find(symbol);
  return at == registered().variables.end() ? nullptr : &at->second;
}

cudaError_t refuseMachineCode(const std::string& what) {
  static auto* const said = new std::set<std::string>;
  if (said->insert(what).second)
    std::fprintf(stderr,
                 "tutti emulation: %s is machine code for GPUs, which emulated GPUs cannot run; do "
                 "this work on the CPU, or compile the kernel against the emulation\n",
                 what.c_str());
  return cudaErrorNoKernelImageForDevice;
}

}  // namespace tutti::emulation

using namespace tutti::emulation;

// Called by code that nvcc has made, which declares them so.
extern "C" {

void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFatBinaryEnd(void**);
void __cudaUnregisterFatBinary(void**);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*,
                            dim3*, int*);
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int);
void __cudaRegisterManagedVar(void**, void**, char*, const char*, int, size_t, int, int);
char __cudaInitModule(void**);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, cudaStream_t);
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*);
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*);
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);

void** __cudaRegisterFatBinary(void*) { return reinterpret_cast<void**>(new FatBinary); }
void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void** handle) {
  if (handle == nullptr) return;
  locked([&] {
    for (const void* each : binaryOf(handle).functions) registered().functions.erase(each);
    for (const void* each : binaryOf(handle).variables) registered().variables.erase(each);
    return cudaSuccess;
  });
  delete &binaryOf(handle);
}

void __cudaRegisterFunction(void** handle, const char* function, char*, const char* name, int,
                            uint3*, uint3*, dim3*, dim3*, int*) {
  locked([&] {
    binaryOf(handle).functions.push_back(function);
    registered().functions[function] = name;
    return cudaSuccess;
  });
}

void __cudaRegisterVar(void** handle, char* variable, char*, const char* name, int, size_t bytes,
                       int, int) {
  locked([&] {
    binaryOf(handle).variables.push_back(variable);
    registered().variables[variable] = {name, bytes, {}};
    return cudaSuccess;
  });
}

void __cudaRegisterManagedVar(void**, void**, char*, const char* name, int, size_t, int, int) {
  fail("the program has a __managed__ variable, " + std::string(name) +
       ", and emulated GPUs have no managed memory: make it a __device__ variable");
}

/// Whether there are managed variables to make ready.
char __cudaInitModule(void**) { return 0; }

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t sharedBytes,
                                     cudaStream_t stream) {
  configurations.push_back({grid, block, sharedBytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* sharedBytes, void* stream) {
  if (configurations.empty()) return remember(cudaErrorMissingConfiguration);
  const Configuration last = configurations.back();
  configurations.pop_back();
  *grid = last.grid;
  *block = last.block;
  *sharedBytes = last.sharedBytes;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* to, const void* function) {
  return cudaGetKernel(to, function);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t sharedBytes, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, sharedBytes, stream);
}

/// For code whose default stream is one of each thread.
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                    size_t sharedBytes, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, sharedBytes,
                          stream == nullptr ? cudaStreamPerThread : stream);
}

}  // extern "C"
