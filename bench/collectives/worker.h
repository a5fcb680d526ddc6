/* One rank of a benchmark of collectives, in C so that MPI's compilers take it too. */
#pragma once

#include <stddef.h>

#include "commands.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WORKER_ROOT = 0 };

/* A call on elements of float32; reductions are sums. `count` is of one rank's block where all
 * ranks have one (all_gather, reduce_scatter, all_to_all), else of the whole. The root of a
 * broadcast sends from `send`, and the others receive into `recv`. */
struct worker_operation {
  enum worker_collective collective;
  const float* send;
  float* recv;
  size_t count;
  int ordinary; /* its memory is not the library's own */
};

struct worker_library {
  void* context;
  int rank, size;
  const char* version; /* its name and version */
  /* Memory of the library's own, the same on all ranks at once; NULL where it has none. */
  void* (*allocate)(void* context, size_t bytes);
  void (*release)(void* context, void* memory);
  void (*call)(void* context, const struct worker_operation* call);
  /* Microseconds that the library thinks such a call takes; NULL where it says nothing of it. */
  double (*predict)(void* context, const struct worker_operation* call);
};

/* Obeys the commands in `directory` (see commands.h). There rank 0 writes the version into the file
 * `version`, and the ranks, which have one host, agree on when a call begins. Returns an exit
 * code. */
int worker_main(const struct worker_library* library, const char* directory);

#ifdef __cplusplus
}
#endif
