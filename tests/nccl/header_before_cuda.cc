// Beside the CUDA toolkit's header, in this order.

#include <nccl.h>
//
#include <cuda_runtime_api.h>

cudaStream_t streamBefore;
