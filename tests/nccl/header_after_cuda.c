/* Beside the CUDA toolkit's header, in this order. */

#include <cuda_runtime_api.h>
/**/
#include <nccl.h>

cudaStream_t stream_after;
