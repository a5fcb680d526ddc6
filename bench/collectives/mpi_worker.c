/* A peer: the same rank over MPI. */
#include <mpi.h>
#include <string.h>

#include "worker.h"

static void call(void* context, const struct worker_operation* c) {
  const struct worker_library* lib = (const struct worker_library*)context;
  const int n = (int)c->count, next = (lib->rank + 1) % lib->size;
  const int previous = (lib->rank + lib->size - 1) % lib->size;
  const MPI_Comm all = MPI_COMM_WORLD;
  switch (c->collective) {
    case WORKER_ALL_REDUCE: MPI_Allreduce(c->send, c->recv, n, MPI_FLOAT, MPI_SUM, all); break;
    case WORKER_ALL_GATHER: MPI_Allgather(c->send, n, MPI_FLOAT, c->recv, n, MPI_FLOAT, all); break;
    case WORKER_REDUCE_SCATTER:
      MPI_Reduce_scatter_block(c->send, c->recv, n, MPI_FLOAT, MPI_SUM, all);
      break;
    case WORKER_BROADCAST:
      MPI_Bcast(lib->rank == WORKER_ROOT ? (void*)c->send : c->recv, n, MPI_FLOAT, WORKER_ROOT,
                all);
      break;
    case WORKER_REDUCE:
      MPI_Reduce(c->send, c->recv, n, MPI_FLOAT, MPI_SUM, WORKER_ROOT, all);
      break;
    case WORKER_ALL_TO_ALL: MPI_Alltoall(c->send, n, MPI_FLOAT, c->recv, n, MPI_FLOAT, all); break;
    case WORKER_SEND_RECV:
      MPI_Sendrecv(c->send, n, MPI_FLOAT, next, 0, c->recv, n, MPI_FLOAT, previous, 0, all,
                   MPI_STATUS_IGNORE);
      break;
    default: MPI_Barrier(all);
  }
}

int main(int argc, char** argv) {
  static char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Init(&argc, &argv);
  struct worker_library library = {NULL, 0, 1, version, NULL, NULL, call};
  library.context = &library;
  MPI_Comm_rank(MPI_COMM_WORLD, &library.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &library.size);
  MPI_Get_library_version(version, &length);
  version[strcspn(version, "\n,")] = '\0'; /* what follows is how it was built */
  const int code = argc == 2 ? worker_main(&library, argv[1]) : 2;
  MPI_Finalize();
  return code;
}
