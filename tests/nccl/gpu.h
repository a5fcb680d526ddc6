#ifndef TUTTI_TESTS_NCCL_GPU_H
#define TUTTI_TESTS_NCCL_GPU_H

/* A rank on a GPU, and the collectives that cases of several files check on it. */

#include <cuda_runtime_api.h>

#include "elements.h"
#include "harness.h"

#define CUDA(call) CHECK_EQ(call, cudaSuccess)

enum { kCount = 1037, kMaxRanks = 4 };

/* What a rank works with: on its device a stream, and two buffers that hold a block for every rank.
 * A part of a communicator's ranks keep the inputs that they had there: `number` is whose, by rank.
 */
typedef struct {
  int rank, size, device;
  int number[kMaxRanks];
  ncclComm_t comm;
  cudaStream_t stream;
  char *in, *out;
} Gpu;

int device_count(void);
Gpu make_gpu(int rank, int size, int device, ncclComm_t comm);
void end_gpu(Gpu* g);
/* Element i of a rank's input: small whole numbers, of which the sums of two ranks, twice these,
 * their halves and the products are exact in the type. Those of other ranks, and from other places,
 * are different ones. */
double input(ncclDataType_t type, int number, size_t i);
void put(const Gpu* g, ncclDataType_t type, size_t count);
/* The copy, to memory that is not pinned, may hold up other threads until it is done. */
void get(const Gpu* g, const void* from, char* host, size_t bytes);
/* `count` elements of `out` are those of all inputs reduced, from element `first` on. */
void check_reduced(const Gpu* g, const void* out, ncclDataType_t type, ncclRedOp_t op, size_t first,
                   size_t count);
/* `count` elements of `out` are the input of `rank` from element `first` on. */
void check_input(const Gpu* g, const void* out, ncclDataType_t type, int rank, size_t first,
                 size_t count);
/* Block `b` of `out` is the input of `rank` from element `first` on. */
void check_block(const Gpu* g, ncclDataType_t type, size_t b, int rank, size_t first, size_t count);
void reduce_every_type(Gpu* g);
/* Its `out`, once nothing is there of what was before. */
char* cleared(const Gpu* g);
void every_collective(Gpu* g);
Gpu enter_on(const Rank* rank, int device);
/* Those `members` of a communicator that are in this one, in its order. */
Gpu part_of(const Gpu* g, ncclComm_t comm, const int* members, int size);
/* Until all ranks are here. Memory is given back then, when no kernel waits for a rank any more. */
void meet(const Rank* rank, int flag);

#endif
