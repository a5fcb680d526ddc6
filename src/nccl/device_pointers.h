#pragma once

// Telling device memory and streams from what a communicator of the host works on, so that a GPU
// program gets a sentence, which says why there is no GPU, and not a segmentation fault. The CUDA
// driver is asked where the program has loaded it; it is never loaded from here.

#include <initializer_list>

#include <tutti-nccl/nccl.h>

namespace tutti::nccl {

/// Looks whether the program has the driver. When a communicator is made: a program that has device
/// memory has it by then.
void findDriver();

/// Throws InvalidArgument when one of them is memory that the host cannot address.
void requireHostMemory(std::initializer_list<const void*> pointers);

/// Throws InvalidArgument for anything but null and CUDA's two names for a default stream.
void requireNoStream(cudaStream_t stream);

}  // namespace tutti::nccl
