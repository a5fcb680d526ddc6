/* The opponent: the same rank over MPI. */
#include <mpi.h>
#include <stdlib.h>

#include "worker.h"

static void* allocate(void* context, size_t bytes) {
  (void)context;
  return aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
}
static void release(void* context, void* memory) {
  (void)context;
  free(memory);
}
static void all_reduce(void* context, const float* send, float* recv, size_t count) {
  (void)context;
  MPI_Allreduce(send, recv, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void barrier(void* context) {
  (void)context;
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  struct worker_library library = {NULL, 0, 1, allocate, release, all_reduce, barrier};
  MPI_Comm_rank(MPI_COMM_WORLD, &library.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &library.size);
  const int code = argc == 2 ? worker_main(&library, argv[1]) : 2;
  MPI_Finalize();
  return code;
}
