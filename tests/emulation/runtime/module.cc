// Modules, libraries and linking of machine code at run time. Emulated GPUs run none, so that
// nothing is ever loaded, and no handle of it is known.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <initializer_list>
#include <set>
#include <string>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/registration.h"

namespace tutti::emulation {
namespace {

bool isAnyNull(std::initializer_list<const void*> all) {
  for (const void* each : all)
    if (each == nullptr) return true;
  return false;
}

/// What CUDA says of machine code that no device of it is for.
cudaError_t refuseImage(const char* function, const void* to, const void* image) {
  if (isAnyNull({to, image})) return cudaErrorInvalidValue;
  return refuseMachineCode(std::string("what ") + function + " loads");
}

cudaError_t refuseFile(const char* function, const void* to, const char* path) {
  if (isAnyNull({to, path})) return cudaErrorInvalidValue;
  if (access(path, R_OK) != 0) return cudaErrorFileNotFound;
  return refuseMachineCode(std::string("what ") + function + " loads");
}

/// Of a library or module that nothing has loaded.
cudaError_t refuseHandle(std::initializer_list<const void*> arguments) {
  return call([&] {
    return isAnyNull(arguments) ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle;
  });
}
CUresult refuseDriverHandle(std::initializer_list<const void*> arguments) {
  return driverCall([&] {
    return isAnyNull(arguments) ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle;
  });
}

}  // namespace
}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

cudaError_t cudaLibraryLoadData(cudaLibrary_t* to, const void* code, cudaJitOption*, void**,
                                unsigned, cudaLibraryOption*, void**, unsigned) {
  return call([&] { return refuseImage("cudaLibraryLoadData", to, code); });
}
cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* to, const char* path, cudaJitOption*, void**,
                                    unsigned, cudaLibraryOption*, void**, unsigned) {
  return call([&] { return refuseFile("cudaLibraryLoadFromFile", to, path); });
}
cudaError_t cudaLibraryUnload(cudaLibrary_t) { return refuseHandle({}); }
cudaError_t cudaLibraryGetKernel(cudaKernel_t* to, cudaLibrary_t, const char* name) {
  return refuseHandle({to, name});
}
cudaError_t cudaLibraryGetKernelCount(unsigned* to, cudaLibrary_t) { return refuseHandle({to}); }
cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t* to, unsigned, cudaLibrary_t) {
  return refuseHandle({to});
}
cudaError_t cudaLibraryGetGlobal(void**, size_t*, cudaLibrary_t, const char* name) {
  return refuseHandle({name});
}
cudaError_t cudaLibraryGetManaged(void**, size_t*, cudaLibrary_t, const char* name) {
  return refuseHandle({name});
}
cudaError_t cudaLibraryGetUnifiedFunction(void** to, cudaLibrary_t, const char* name) {
  return refuseHandle({to, name});
}

CUresult cuModuleLoad(CUmodule* to, const char* path) {
  return driverCall([&] { return refuseFile("cuModuleLoad", to, path); });
}
CUresult cuModuleLoadData(CUmodule* to, const void* image) {
  return driverCall([&] { return refuseImage("cuModuleLoadData", to, image); });
}
CUresult cuModuleLoadDataEx(CUmodule* to, const void* image, unsigned, CUjit_option*, void**) {
  return driverCall([&] { return refuseImage("cuModuleLoadDataEx", to, image); });
}
CUresult cuModuleUnload(CUmodule) { return refuseDriverHandle({}); }
CUresult cuModuleGetFunction(CUfunction* to, CUmodule, const char* name) {
  return refuseDriverHandle({to, name});
}

/// The driver has these tables for NVIDIA's runtime alone. A copy of it that is linked statically
/// into a program or a library has come by another way than through the stand-in.
CUresult cuGetExportTable(const void**, const CUuuid*) {
  Dl_info caller{};
  const bool isFound = dladdr(__builtin_return_address(0), &caller) != 0;
  return driverCall([&] {
    static auto* const said = new std::set<std::string>;
    const std::string name = isFound ? caller.dli_fname : "the program";
    if (said->insert(name).second)
      std::fprintf(stderr,
                   "tutti emulation: %s has NVIDIA's CUDA runtime linked into it, which needs a "
                   "GPU; link it with the shared one (nvcc -cudart shared)\n",
                   name.c_str());
    return cudaErrorNotSupported;
  });
}

/// As where the library that compiles PTX is missing.
CUresult cuLinkCreate_v2(unsigned, CUjit_option*, void**, CUlinkState* to) {
  return driverCall(
      [&] { return to == nullptr ? cudaErrorInvalidValue : cudaErrorJitCompilerNotFound; });
}
CUresult cuLinkAddData_v2(CUlinkState, CUjitInputType, void* data, size_t, const char*, unsigned,
                          CUjit_option*, void**) {
  return refuseDriverHandle({data});
}
CUresult cuLinkComplete(CUlinkState, void** image, size_t*) { return refuseDriverHandle({image}); }
CUresult cuLinkDestroy(CUlinkState) { return refuseDriverHandle({}); }

}  // extern "C"
