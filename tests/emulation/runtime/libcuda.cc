// Stands in for libcuda.so.1 where a program looks for it at run time: every function jumps to the
// one in the program itself, which is linked with the emulation.

#include <cuda.h>
#include <dlfcn.h>

#include "tests/emulation/runtime/driver.h"

namespace {

CUresult missing() { return CUDA_ERROR_NO_DEVICE; }

}  // namespace

#define TUTTI_FORWARD(name)                                 \
  extern "C" {                                              \
  __attribute__((visibility("hidden"))) void* tutti_##name; \
  }                                                         \
  asm(".globl " #name "\n.type " #name ", @function\n" #name ": jmp *tutti_" #name "(%rip)\n");
TUTTI_DRIVER_FUNCTIONS(TUTTI_FORWARD)
#undef TUTTI_FORWARD

namespace {

[[gnu::constructor]] void findAll() {
  using Find = void* (*)(const char*);
  const auto find = reinterpret_cast<Find>(dlsym(RTLD_DEFAULT, "tuttiEmulatedDriverFunction"));
#define TUTTI_FIND(name)                                  \
  tutti_##name = find == nullptr ? nullptr : find(#name); \
  if (tutti_##name == nullptr) tutti_##name = reinterpret_cast<void*>(&missing);
  TUTTI_DRIVER_FUNCTIONS(TUTTI_FIND)
#undef TUTTI_FIND
}

}  // namespace
