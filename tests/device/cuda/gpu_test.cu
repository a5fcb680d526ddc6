// The tests of the CUDA part of the device layer, but for what only the emulation shows, with
// NVIDIA's runtime and a GPU: as one source for nvcc, because some have kernels of their own.

#include "tests/device/cuda/device_test.cc"
#include "tests/device/cuda/memory_test.cc"
#include "tests/device/cuda/stream_test.cc"
#include "tests/device/cuda_placement_test.cc"
